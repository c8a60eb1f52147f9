"""What is done, and what is told, while the provider or the money says no?"""

from itertools import pairwise
from typing import Any, Final

import anyio
import pytest

from tests.scenarios.world import A40, L40S, Box, World, scenario, seconds

LIST: Final = {"method": "GET", "path": "/v2/pods"}
CREATE: Final = {"method": "POST", "path": "/v2/pods"}


def alarms(box: Box) -> set[str]:
    return {name for name, _ in box.daemon.store.book.alarms if name != "stop-unproven"}


def test_without_a_listing_nothing_is_created_and_idle_stops_still_go() -> None:
    """RP-44, RP-4: an outage of days, the middle of which is jumped over."""

    async def play(world: World) -> None:
        world.configure("m1", "m2", extra='wait = "90s"')
        async with world.box() as box:
            await box.chat(world, "m1")
            world.emulator.add_faults([{"match": LIST, "do": {"answer": 503}}])
            await world.until(lambda: not world.alive(), within=320)
            assert world.now_s <= 355
            await world.at(1500)
            world.clock.suspend(seconds(2 * 24 * 3600))
            await anyio.sleep(600)
            told = await box.chat(world, "m2")
            assert (told.status, told.error["code"]) == (503, "provider_unavailable")
            told = await box.chat(world, "m1")
            assert told.status == 503
            assert len(world.creates()) == 1
            assert world.events("obligation.discharged") == []
            world.emulator.clear_faults()
            assert (await box.chat(world, "m2")).status == 200

    scenario(play)


def test_listings_that_are_to_wait_for_a_day_are_told_stops_go_and_a_restart_looks_at_once() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        asked = {"answer": 429, "headers": {"Retry-After": "86400"}}
        async with world.box() as box:
            got = await box.chat(world)
            await world.at(got.at + 100)
            world.emulator.add_faults([{"match": LIST, "do": asked}])
            began_at = await world.until(lambda: box.daemon.view.value.failing_since is not None, within=61)
            await world.at(began_at + 299)
            assert alarms(box) == set()
            await world.at(began_at + 302)
            assert alarms(box) == {"listing-failing"}
            (stop,) = world.deletes()
            assert began_at + 299 <= stop["s"] <= began_at + 305  # idle since 350, and no longer held than that
            await world.at(began_at + 7200)
            assert [duty.open for duty in box.daemon.store.book.owed()] == [True]
        world.emulator.clear_faults()
        async with world.box() as box:
            await world.until(lambda: not box.daemon.store.book.owed() and not alarms(box), within=10)
            assert not world.alive()

    scenario(play)


@pytest.mark.parametrize("deed", [{"answer": 503}, {"drop": "before"}, {"malformed": "truncated"}], ids=str)
def test_demand_during_a_whole_outage_is_told_and_creates_nothing(deed: dict[str, Any]) -> None:
    async def play(world: World) -> None:
        world.configure("m1", extra='wait = "60s"')
        world.emulator.add_faults([{"match": {"path": "/v2/*"}, "do": deed}])
        async with world.box() as box:
            told = await box.chat(world)
            assert (told.status, told.error["code"]) == (503, "provider_unavailable")
            assert world.creates() == []
            world.emulator.clear_faults()
            assert (await box.chat(world, prefer="wait=300")).status in {200, 503}
            await world.until(lambda: bool(world.creates()), within=120)

    scenario(play)


@pytest.mark.parametrize(
    ("answer", "code", "reason"),
    [(402, "no_funds", "no_funds"), (422, "model_blocked", "invalid-request"), (401, "model_blocked", "credential")],
)
def test_refusal_that_only_an_operator_can_mend_blocks_the_model_and_is_told(
    answer: int, code: str, reason: str
) -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        world.emulator.add_faults([{"match": CREATE, "do": {"answer": answer}}])
        async with world.box() as box:
            first = await box.chat(world)
            assert first.status == 503
            assert first.at < 5
            for second in (60, 600, 1200):
                await world.at(second)
                told = await box.chat(world)
                assert (told.error["code"], told.error["reason"]) == (code, reason)
                assert told.at < second + 1
            assert len(world.creates()) == 1
            lines = (await box.operators.get("/v1/models/m1/explain"))["lines"]
            assert f"blocked: {reason} (HTTP {answer}: " in lines[0]["text"]
            (alarm,) = (await box.operators.get("/v1/status"))["alarms"]
            assert (alarm["name"], alarm["subject"]) == ("no-funds" if answer == 402 else "model-blocked", "m1")
            world.emulator.clear_faults()
            await box.operators.post("/v1/models/m1/unblock", {})
            assert (await box.chat(world)).status == 200
            assert (await box.operators.get("/v1/status"))["alarms"] == []
            assert len(world.creates()) == 2

    scenario(play)


@pytest.mark.parametrize("volumes", ["", 'volumes = { "US-TX-3" = "vol1" }'])
def test_a_machine_that_the_provider_ended_for_want_of_money_is_not_bought_again_and_again(volumes: str) -> None:
    """PF-11: with a volume it is shown as EXITED, without one it is gone."""

    async def play(world: World) -> None:
        world.emulator.put_volume({"id": "vol1", "name": "vol1", "size": 100, "dataCenter": "US-TX-3"})
        world.configure("m1", extra=volumes)
        async with world.box() as box:
            assert (await box.chat(world)).status == 200
            world.emulator.change_settings({"balance": 0.001})
            for second in range(200, 3000, 200):
                await world.at(second)
                await box.chat(world, prefer="wait=0")
            assert (await box.chat(world, prefer="wait=0")).error["code"] == "no_funds"
            assert [alarm["name"] for alarm in (await box.operators.get("/v1/status"))["alarms"]] == ["no-funds"]
            assert len(world.creates()) == 2
            assert world.alive() == []

    scenario(play)


def test_no_capacity_is_tried_in_rounds_while_somebody_waits_and_is_told_at_the_end() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            told = await box.chat(world)
            assert (told.status, told.error["code"]) == (503, "no_capacity")
            assert b"retry-after" in told.headers
            assert b"instances" not in told.body  # the provider's words are for operators
            lines = (await box.operators.get("/v1/models/m1/explain"))["lines"]
            assert any("no longer any instances" in line["text"] for line in lines)
            assert told.at >= 569
            assert 4 <= len(world.creates()) <= 20
            rounds = [call["s"] for call in world.creates()][::2]  # two types in each
            assert all(later - earlier >= 30 for earlier, later in pairwise(rounds))
            assert world.pods() == []
            assert box.daemon.store.book.memory("m1").failures == 0
            world.emulator.change_settings({"stock": {}})
            assert (await box.chat(world)).status == 200

    scenario(play, stock={L40S: 0, A40: 0})


@pytest.mark.parametrize("moves", [False, True], ids=["uptime falls back", "startedAt moves"])
def test_crash_loop_is_told_started_afresh_once_and_then_held(moves: bool) -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            first = world.soon(box.chat(world))
            await world.until(lambda: first.done, within=400)
            assert (first.got.status, first.got.error["code"]) == (503, "start_failed")
            assert first.got.error["reason"] == "crash-loop"
            second = world.soon(box.chat(world))
            await world.until(lambda: second.done, within=600)
            assert second.got.error["code"] in {"start_failed", "model_blocked"}
            asked_at = world.now_s
            third = await box.chat(world)
            assert (third.status, third.error["code"], third.error["reason"]) == (503, "model_blocked", "crash-loop")
            assert third.at - asked_at < 1
            assert len(world.creates()) == 2
            await world.until(lambda: not world.alive(), within=10)
            third_death = 20 + 3 * 40
            assert all(pod["billed_seconds"] <= third_death + 60 for pod in world.pods())

    scenario(play, ready_seconds=1e6, upstream={"crash_every_seconds": 40}, started_at_moves=moves)


def test_rate_limit_is_kept_and_stops_go_first_when_it_is_over() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            got = await box.chat(world)
            await world.at(got.at + 295)
            limit = {"answer": 429, "headers": {"Retry-After": "120"}}
            world.emulator.add_faults([{"match": {"path": "/v2/*"}, "times": 1, "do": limit}])
            await world.until(lambda: not world.alive(), within=200)
            calls = sorted([(call["s"], method) for method in ("GET", "DELETE") for call in world.calls(method)])
            limited_at = max(at for at, method in calls if at < world.now_s - 100 and method in {"GET", "DELETE"})
            after = [(at, method) for at, method in calls if at > limited_at]
            assert after[0][1] == "DELETE"
            assert 118 <= after[0][0] - limited_at <= 122

    scenario(play)
