"""Whose is a pod, and what is done with it?

Cases B15 and B36: what a lost store leaves is reported and claimed before it is touched; other people's pods are
counted and left alone.
"""

import json
from typing import Any

import anyio

from controller.api.client import Problem
from controller.core.lifecycle import Phase
from controller.core.orphans import Whose
from tests.scenarios.world import Box, World, scenario

IMAGE = "vllm/vllm-openai:v0.31.0"
GRACE_AND_MORE = 900


async def run_and_lose_the_store(world: World, *, files: str = "*") -> None:
    """Leaves two pods of an installation that nobody remembers."""
    world.excepted.add("lost-store")
    world.configure("m1", "m2")
    async with world.box() as box:
        asked = [world.soon(box.chat(world, alias)) for alias in ("m1", "m2")]
        await world.until(lambda: all(pending.done for pending in asked), within=100)
    for path in world.state.glob(files):
        path.unlink()


def installation_of(pod: dict[str, Any]) -> str:
    installation: str = pod["env"]["GPUWARDEN_INSTALLATION"]
    return installation


def alarms(box: Box) -> set[str]:
    return {name for name, _ in box.daemon.store.book.alarms}


def test_pods_of_a_lost_store_are_reported_and_nothing_starts_until_they_are_claimed() -> None:
    async def play(world: World) -> None:
        await run_and_lose_the_store(world)
        pods = world.alive()
        made = len(world.creates())
        async with world.box() as box:
            began_at = world.now_s
            asked = world.soon(box.chat(world, "m1"))
            await world.at(began_at + 20)
            assert "copied-installation" in alarms(box)
            assert len(world.events("foreign.seen")) == 2
            await world.at(began_at + 60)
            assert not asked.done
            await box.operators.post(f"/v1/installations/{installation_of(pods[0])}/claim", {})
            await world.until(lambda: asked.done, within=30)
            assert asked.got.status == 200
            assert len(world.creates()) == made
            assert "copied-installation" not in alarms(box)
            assert [record.phase for record in box.daemon.store.book.live()] == [Phase.ACTIVE, Phase.ACTIVE]
            await world.until(lambda: not world.alive(), within=500)
            assert len(world.events("resource.claimed")) == 2

    scenario(play)


def test_evidence_of_a_lost_store_is_set_aside_and_the_new_one_is_told_from_its_first_line() -> None:
    async def play(world: World) -> None:
        await run_and_lose_the_store(world, files="gpuwarden.db*")
        before = world.evidence()
        async with world.daemon():
            await anyio.sleep(60)
        assert {line["event"] for line in world.evidence()} >= {"daemon.started", "foreign.seen", "alarm.raised"}
        aside = (world.state / "evidence.jsonl.aside-1").read_text()
        assert [json.loads(line) for line in aside.splitlines()] == before

    scenario(play)


def test_pod_of_a_lost_store_is_claimed_by_itself_once_it_outlived_every_lifetime() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.daemon() as daemon:
            old = world.clock.now().timestamp() - 7 * 24 * 3600 - 3000
            env = world.ours(daemon, installation="0123456789abcdef")
            pod = world.emulator.put_pod({"name": "gpuwarden-m1-r0123456789abcdef", "env": env, "created_at": old})
            await world.at(590)  # older than the lifetime and an hour, and not yet seen for 15 minutes
            assert world.deletes() == []
            await world.until(lambda: bool(world.deletes()), within=1300)
            assert world.now_s >= 900
            assert {call["pod"] for call in world.deletes()} == {pod}
            assert len(world.events("resource.claimed")) == 1

    scenario(play)


def test_young_pod_of_another_installation_is_never_claimed_by_itself() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.daemon() as daemon:
            env = world.ours(daemon, installation="0123456789abcdef")
            world.emulator.put_pod({"name": "gpuwarden-m1-r0123456789abcdef", "env": env})
            await world.at(2 * 3600)
            assert world.deletes() == []
            assert {sighting.whose for sighting in daemon.store.book.sightings.values()} == {Whose.COPIED}

    scenario(play)


def test_pod_of_another_installation_made_at_the_end_of_all_calendars_ends_no_task() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            env = world.ours(box.daemon, installation="0123456789abcdef")
            odd = {"id": "odd", "name": "gpuwarden-m1-r0123456789abcdef", "env": env, "status": "RUNNING"}
            shown = {"pods": [odd | {"createdAt": "9999-12-31T23:59:59Z"}], "pagination": {"hasNextPage": False}}
            listing = {"method": "GET", "path": "/v2/pods"}
            world.emulator.add_faults([{"match": listing, "do": {"answer": 200, "body": shown}}])
            await world.at(600)
            assert "copied-installation" in alarms(box)
            assert [pulse.problem for pulse in box.daemon.pulses if pulse.failures] == []
            assert world.deletes() == []

    scenario(play)


def test_claimed_pod_of_a_model_that_is_not_configured_is_stopped_with_proof() -> None:
    async def play(world: World) -> None:
        await run_and_lose_the_store(world)
        pods = {pod["name"].split("-")[1]: pod["id"] for pod in world.alive()}
        installation = installation_of(world.alive()[0])
        world.configure("m1")
        async with world.box() as box:
            await anyio.sleep(5)
            await box.operators.post(f"/v1/installations/{installation}/claim", {})
            await world.until(lambda: len(world.alive()) == 1, within=10)
            assert world.alive()[0]["id"] == pods["m1"]
            await world.until(lambda: not box.daemon.store.book.owed(), within=60)
            (ended,) = world.events("obligation.discharged")
            assert ended["resource"]["incarnation"] == pods["m2"]
            assert ended["evidence"]["kind"] == "inventory-complete-absent"

    scenario(play)


def test_claim_of_what_was_never_seen_is_refused() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            await anyio.sleep(5)
            try:
                await box.operators.post("/v1/installations/0123456789abcdef/claim", {})
            except Problem as problem:
                assert problem.status == 404
            else:
                raise AssertionError("claimed nothing")

    scenario(play)


def test_only_the_pod_that_carries_all_our_marks_is_stopped_in_a_shared_account() -> None:
    """B36: one of ours without a record, and five that merely look so."""

    async def play(world: World) -> None:
        world.configure("m1")
        async with world.daemon() as daemon:
            ours, name = world.ours(daemon), "gpuwarden-m1-r0123456789abcdef"
            unnumbered = {key: value for key, value in ours.items() if key != "GPUWARDEN_REQUEST"}
            looks = {
                "another owner": {"name": name, "env": world.ours(daemon, owner="somebody-else")},
                "our prefix without id": {"name": "gpuwarden-m1", "env": unnumbered},
                "the same model by hand": {"name": "my-vllm", "image": IMAGE, "env": {"VLLM_API_KEY": "theirs"}},
                "another controller's": {"name": "dstack-m1-0", "env": {"DSTACK_OWNER": "acme-test"}},
                "environment missing": {"name": "gpuwarden-m1-rfedcba9876543210", "env": {}},
            }
            others = {what: world.emulator.put_pod(given) for what, given in looks.items()}
            mine = world.emulator.put_pod({"name": name, "env": ours})
            await world.at(GRACE_AND_MORE)
            assert {call["pod"] for call in world.deletes()} == {mine}
            assert {pod["id"] for pod in world.alive()} == set(others.values())
            reported = {key.incarnation for key in daemon.store.book.sightings}
            assert reported == set(others.values())
            assert len(world.events("foreign.seen")) == len(others)

    scenario(play)


def test_pod_of_ours_that_names_another_owner_is_never_stopped_again() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            await box.chat(world)
            (pod,) = world.alive()
            world.emulator.change_pod(pod["id"], {"env": {**pod["env"], "GPUWARDEN_OWNER": "somebody-else"}})
            await world.at(1200)
            assert world.deletes() == []
            (record,) = box.daemon.store.book.live()
            assert (record.phase, record.reason) == (Phase.STOP_REQUIRED, "ownership-lost")
            assert [duty.open for duty in box.daemon.store.book.obligations.values()] == [True]
            assert "stop-unproven" in alarms(box)
            assert (await box.chat(world, prefer="wait=0")).status == 503
            assert len(world.creates()) == 1

    scenario(play)


def test_pod_that_a_newer_lease_took_elsewhere_is_handed_over() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            await box.chat(world)
            (pod,) = world.alive()
            taken = {"GPUWARDEN_INSTALLATION": "0123456789abcdef", "GPUWARDEN_EPOCH": "99"}
            world.emulator.change_pod(pod["id"], {"env": pod["env"] | taken})
            await world.at(600)
            assert world.deletes() == []
            assert len(world.events("obligation.transferred")) == 1
            assert not box.daemon.store.book.live()
            totals = (await box.operators.get("/v1/status"))["obligations_ended"]
            assert totals == {"discharged": 0, "transferred": 1, "void": 0}
        async with world.box() as box:
            assert (await box.operators.get("/v1/status"))["obligations_ended"] == totals

    scenario(play)


def test_pod_that_the_provider_moved_to_another_id_is_taken_over_and_stopped_when_idle() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        world.excepted.add("two-at-once")
        async with world.box() as box:
            await box.chat(world)
            (pod,) = world.alive()
            moved = world.emulator.change_pod(pod["id"], {"migrate": True})
            await world.until(lambda: not world.alive(), within=1000)
            assert {call["pod"] for call in world.deletes()} >= {moved}
            await world.until(lambda: not box.daemon.store.book.owed(), within=200)

    scenario(play)


def test_account_key_that_leads_elsewhere_discharges_nothing() -> None:
    """RP-43: the key is swapped while a stop is owed; the other account's listing is complete and empty."""

    async def play(world: World) -> None:
        world.configure("m1", "m2")
        async with world.box() as box:
            asked = [world.soon(box.chat(world, alias)) for alias in ("m1", "m2")]
            await world.until(lambda: all(pending.done for pending in asked), within=100)
        (world.folder / "keys" / "runpod").write_text("another-key-of-ours")
        world.emulator.change_settings({"account": "elsewhere"})
        async with world.box() as box:
            assert "account-changed" in alarms(box)
            began_at = world.now_s
            await world.at(began_at + 1200)
            assert world.events("obligation.discharged") == []
            refused = await box.chat(world, "m1", prefer="wait=0")
            assert (refused.status, len(world.creates())) == (503, 2)
            world.emulator.change_settings({"account": "main"})
            await world.until(lambda: not box.daemon.store.book.owed() and not world.alive(), within=400)
            assert "account-changed" not in alarms(box)
            assert len(world.events("account.confirmed")) == 1

    scenario(play)


def test_account_that_shows_nothing_of_ours_any_more_discharges_nothing_without_a_word_of_an_operator() -> None:
    """RP-43: the same key, and two pods vanish at once."""

    async def play(world: World) -> None:
        world.configure("m1", "m2")
        async with world.box() as box:
            asked = [world.soon(box.chat(world, alias)) for alias in ("m1", "m2")]
            await world.until(lambda: all(pending.done for pending in asked), within=100)
            for pod in world.alive():
                world.emulator.change_pod(pod["id"], {"vanish": True})
            await world.at(1500)
            assert world.events("obligation.discharged") == []
            assert (await box.chat(world, prefer="wait=0")).status == 503
            assert len(world.creates()) == 2
            await box.operators.post("/v1/account/claim", {})
            await world.until(lambda: not box.daemon.store.book.owed(), within=200)
            assert (await box.chat(world)).status == 200

    scenario(play)
