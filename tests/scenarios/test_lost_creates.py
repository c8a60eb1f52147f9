"""What becomes of a create whose answer was lost, odd, or refused?

Cases B01 and B05: only a well-formed refusal, or a call that never left, may be followed by another create.
"""

from typing import Any, Final

import anyio
import pytest

from controller.daemon.built import Daemon
from tests.scenarios.world import A40, World, scenario

CREATE: Final = {"method": "POST", "path": "/v2/pods"}
LIST: Final = {"method": "GET", "path": "/v2/pods"}
READ_BACK_FAILED: Final = {"answer": 500, "body": {"error": "read-back failed"}, "effect": True}


def spoil_first_create(world: World, deed: dict[str, Any]) -> None:
    world.emulator.add_faults([{"match": CREATE, "times": 1, "do": deed}])


def alarms(daemon: Daemon) -> set[str]:
    return {name for name, _ in daemon.store.book.alarms}


def test_create_answered_5xx_whose_pod_exists_is_adopted_and_not_repeated() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        spoil_first_create(world, READ_BACK_FAILED)
        async with world.box() as box:
            asked = world.soon(box.chat(world))
            await world.at(130)
            (pod,) = world.alive()
            assert {key.incarnation for key in daemon_keys(box.daemon)} == {pod["id"]}
            assert asked.got.status == 200
            assert len(world.creates()) == 1
            assert world.deletes() == []

    scenario(play, list_lag_seconds=20)


def daemon_keys(daemon: Daemon) -> list[Any]:
    return [record.key for record in daemon.store.book.live() if record.key is not None]


@pytest.mark.parametrize("listing", [{"answer": 503}, {"malformed": "truncated"}, {"hang": 40.0}, {"answer": 401}])
def test_lost_create_stays_owed_and_alarmed_while_no_listing_is_complete(listing: dict[str, Any]) -> None:
    """B01, variant: the listing never works again."""

    async def play(world: World) -> None:
        world.configure("m1")
        spoil_first_create(world, READ_BACK_FAILED)
        async with world.box() as box:
            world.soon(box.chat(world))
            await world.until(lambda: bool(world.creates()), within=1)
            world.emulator.add_faults([{"match": LIST, "do": listing}])
            await world.at(299)
            assert "create-unresolved" not in alarms(box.daemon)
            await world.at(301)
            assert "create-unresolved" in alarms(box.daemon)
            await world.at(900)
            world.soon(box.chat(world))
            await world.at(1300)
            (duty,) = box.daemon.store.book.obligations.values()
            assert duty.open and duty.key is None
            assert len(world.creates()) == 1
            assert len(world.alive()) == 1

    scenario(play)


def test_partial_listing_resolves_a_lost_create_by_what_it_shows() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        spoil_first_create(world, READ_BACK_FAILED)
        world.emulator.put_pod({"name": "somebody-else"})
        async with world.box() as box:
            await world.at(1)
            second_page = {**LIST, "path": "/v2/pods"}
            world.emulator.add_faults([{"match": second_page, "skip": 1, "times": 1, "do": {"answer": 503}}])
            asked = world.soon(box.chat(world))
            await world.at(60)
            assert asked.got.status == 200
            assert len(world.creates()) == 1
            assert len(world.events("listing.failed")) <= 1

    scenario(play, page_size=1)


def test_lost_create_is_never_settled_by_listings_that_break_off() -> None:
    """Every listing shows its first page, with somebody else's pod, and then fails."""

    async def play(world: World) -> None:
        world.configure("m1")
        spoil_first_create(world, {"answer": 500})
        async with world.box() as box:
            await world.at(1)
            for _ in range(2):
                world.emulator.put_pod({"name": "somebody-else"})
            pages = [{"match": LIST, "skip": 1, "times": 1, "do": {"answer": 503}}, {"match": LIST, "times": 1}]
            for _ in range(300):
                world.emulator.add_faults([{**page, "do": page.get("do", {"delay": 0})} for page in pages])
            world.soon(box.chat(world))
            await world.at(1000)
            assert [duty.open for duty in box.daemon.store.book.obligations.values()] == [True]
            assert len(world.creates()) == 1

    scenario(play, page_size=1)


@pytest.mark.parametrize("lost", [False, True])
def test_provider_that_shows_no_environment_hides_no_pod_of_ours(lost: bool) -> None:
    """The request id in the name is enough: what is not found bills for ever."""

    async def play(world: World) -> None:
        world.configure("m1")
        if lost:
            spoil_first_create(world, READ_BACK_FAILED)
        async with world.box() as box:
            assert (await box.chat(world)).status == 200
            await world.until(lambda: not world.alive() and not box.daemon.store.book.owed(), within=400)
            assert len(world.creates()) == 1
            assert len(world.events("obligation.discharged")) == 1
            assert {line["detail"]["alarm"] for line in world.events("alarm.raised")} >= {"tags-hidden"}

    scenario(play, echo_env="none")


UNKNOWN: Final = {
    "timeout": {"delay": 45.0, "effect": True},
    "reset after sending": {"drop": "after"},
    "500": {"answer": 500, "effect": True},
    "502": {"answer": 502, "effect": True},
    "504": {"answer": 504, "effect": True},
    "408": {"answer": 408, "effect": True},
    "redirect": {"answer": 307, "effect": True},
    "a 400 that is no problem document": {"answer": 400, "body": {"error": "no instances available"}, "effect": True},
    "500 that speaks of no capacity": {
        "answer": 500,
        "body": {"error": "There are no longer any instances available"},
        "effect": True,
    },
    "truncated JSON": {"malformed": "truncated"},
    "HTML with 200": {"malformed": "html"},
    "null": {"malformed": "null"},
    "wrong types": {"malformed": "wrong-type"},
    "empty": {"malformed": "empty"},
}


@pytest.mark.parametrize("deed", UNKNOWN.values(), ids=UNKNOWN.keys())
def test_create_with_an_ambiguous_answer_is_sent_once_and_its_pod_serves(deed: dict[str, Any]) -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        spoil_first_create(world, deed)
        async with world.box() as box:
            asked = world.soon(box.chat(world))
            await world.at(180)
            assert asked.got.status == 200
            assert len(world.creates()) == 1
            assert len(world.alive()) == 1
            await world.until(lambda: not world.alive(), within=400)
            assert len(world.pods()) == 1

    scenario(play)


@pytest.mark.parametrize("answer", [400, 403])
def test_offer_that_was_refused_for_certain_is_followed_by_the_next_one_once(answer: int) -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        spoil_first_create(world, {"answer": answer})
        async with world.box() as box:
            got = await box.chat(world)
            assert got.status == 200
            assert len(world.creates()) == 2
            (pod,) = world.alive()
            assert pod["gpu"]["id"] == A40
            assert [line["detail"]["answer"] for line in world.events("create.answered")] == ["rejected", "accepted"]

    scenario(play)


def test_create_that_was_limited_is_repeated_when_its_time_has_come() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        spoil_first_create(world, {"answer": 429, "headers": {"Retry-After": "90"}})
        async with world.box() as box:
            got = await box.chat(world)
            assert got.status == 200
            first, second = world.creates()
            assert 90 <= second["s"] - first["s"] <= 120
            assert len(world.alive()) == 1

    scenario(play)


def test_create_that_never_left_is_repeated() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            await world.at(1)
            world.transport.refusing = True
            asked = world.soon(box.chat(world))
            await world.at(2)
            assert world.creates() == []
            world.transport.refusing = False
            await world.until(lambda: asked.done, within=300)
            assert asked.got.status == 200
            assert len(world.creates()) == 1
            submitted = world.events("create.submitted")
            assert len(submitted) >= 2

    scenario(play)


def test_lost_create_that_made_nothing_is_proven_so_and_started_again_on_demand() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        spoil_first_create(world, {"answer": 500})
        async with world.box() as box:
            asked = world.soon(box.chat(world))
            await world.until(lambda: len(world.creates()) == 2, within=200)
            (ended,) = world.events("obligation.discharged")
            assert ended["evidence"]["kind"] == "inventory-complete-absent"
            first, second = world.creates()
            assert second["s"] - first["s"] >= 120
            await world.until(lambda: asked.done, within=100)
            assert asked.got.status == 200
            assert len(world.pods()) == 1

    scenario(play)


@pytest.mark.parametrize("echo", ["full", "none"])
def test_pod_that_shows_after_its_create_was_proven_fruitless_is_stopped(echo: str) -> None:
    """The listing lagged longer than the settle time: two pods may live, and the late one is owed at once."""

    async def play(world: World) -> None:
        world.configure("m1")
        world.excepted |= {"two-at-once", "lying-provider"}
        spoil_first_create(world, READ_BACK_FAILED)
        async with world.box() as box:
            asked = world.soon(box.chat(world))
            await world.at(10)
            world.emulator.change_settings({"list_lag_seconds": 0, "get_lag_seconds": 0})
            await world.until(lambda: asked.done, within=300)
            late = world.pods()[0]
            await world.until(lambda: bool(world.deletes()), within=200)
            assert [call["pod"] for call in world.deletes()] == [late["id"]]
            assert len(world.alive()) == 1
            assert len(world.events("resource.reappeared")) == 1

    scenario(play, list_lag_seconds=200, get_lag_seconds=200, echo_env=echo)


def test_two_pods_of_one_request_leave_only_the_recorded_one_alive() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            assert (await box.chat(world)).status == 200
            (pod,) = world.alive()
            world.excepted.add("two-at-once")
            twin = world.emulator.put_pod({"name": pod["name"], "env": pod["env"], "image": "vllm/vllm-openai:v0.31.0"})
            await world.until(lambda: bool(world.deletes()), within=320)
            assert [call["pod"] for call in world.deletes()] == [twin]
            assert (await box.chat(world)).status == 200
            await anyio.sleep(60)
            assert [alive["id"] for alive in world.alive()] == [pod["id"]]
            assert len(world.creates()) == 1

    scenario(play)
