"""When is a stop sent, sent again, alarmed and believed?

Case B08: an accepted stop is watched until proof; what stays is asked to stop again, and is told.
"""

from itertools import pairwise
from typing import Any, Final

import pytest

from tests.scenarios.world import World, scenario

DELETE: Final = {"method": "DELETE", "path": "/v2/pods/*"}


def ignore_stops(world: World, *, times: int | None = None) -> None:
    world.emulator.add_faults([{"match": DELETE, "times": times, "do": {"ignore": True}}])


@pytest.mark.parametrize("shown", [None, "EXITED", "ERROR"])
def test_stop_is_repeated_until_it_takes_effect_and_only_then_discharged(shown: str | None) -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        ignore_stops(world, times=3)
        async with world.box() as box:
            await box.chat(world)
            await world.until(lambda: len(world.deletes()) == 1, within=320)
            (pod,) = world.alive()
            if shown is not None:
                world.emulator.change_pod(pod["id"], {"status": shown})
            await world.until(lambda: not world.alive(), within=400)
            gone_at = world.now_s
            assert world.events("obligation.discharged") == []
            await world.at(gone_at + 30)
            asked = [call["s"] for call in world.deletes()]
            assert len(asked) == 4
            assert all(60 <= later - earlier <= 76 for earlier, later in pairwise(asked))
            assert len(world.events("obligation.discharged")) == 1

    scenario(play)


@pytest.mark.parametrize(
    "deed",
    [
        {"ignore": True},
        {"answer": 500},
        {"answer": 401},
        {"answer": 404},
        {"answer": 409},
        {"drop": "before"},
        {"hang": 100.0},
        {"malformed": "html", "effect": False},
    ],
    ids=str,
)
def test_stop_that_stays_without_effect_is_alarmed_after_300_seconds_and_asked_for_ever(deed: dict[str, Any]) -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        world.emulator.add_faults([{"match": DELETE, "do": deed}])
        async with world.box() as box:
            await box.chat(world)
            await world.until(lambda: bool(world.deletes()), within=320)
            first_at = world.deletes()[0]["s"]
            await world.at(first_at + 299)
            assert not [name for name, _ in box.daemon.store.book.alarms if name == "stop-unproven"]
            await world.at(first_at + 301)
            assert [name for name, _ in box.daemon.store.book.alarms] == ["stop-unproven"]
            await world.at(first_at + 600)
            asked = [call["s"] for call in world.deletes()]
            assert max(later - earlier for earlier, later in pairwise(asked)) <= 100
            world.emulator.clear_faults()
            await world.until(lambda: not box.daemon.store.book.owed(), within=400)
            assert box.daemon.store.book.alarms == {}
            assert world.alive() == []

    scenario(play)


def test_provider_that_wants_a_day_of_patience_gets_five_minutes_of_it_from_a_stop() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        deed = {"answer": 429, "headers": {"Retry-After": "86400"}}
        world.emulator.add_faults([{"match": DELETE, "times": 2, "do": deed}])
        async with world.box() as box:
            await box.chat(world)
            await world.until(lambda: not world.alive(), within=1000)
            first, second, third = (call["s"] for call in world.deletes())
            assert 300 <= second - first <= 310
            assert 300 <= third - second <= 310
            assert [call["s"] for call in world.calls("GET") if call["path"] == "/v2/pods"][-1] < first
            (duty,) = box.daemon.store.book.owed()
            assert duty.open  # no look is allowed before the day is over, and so nothing is proven

    scenario(play)


def test_idle_stop_is_submitted_within_five_seconds_of_its_deadline() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            got = await box.chat(world)
            await world.until(lambda: bool(world.deletes()), within=320)
            assert got.at + 299.9 <= world.deletes()[0]["s"] <= got.at + 305

    scenario(play)


@pytest.mark.parametrize("born_at", [0, 7, 13.5, 700])
def test_orphan_is_stopped_within_fifteen_seconds_of_the_end_of_its_grace(born_at: float) -> None:
    """The grace counts from our first sighting; the listing's rhythm may add to what an orphan bills, not to it."""

    async def play(world: World) -> None:
        world.configure("m1")
        async with world.daemon() as daemon:
            await world.at(born_at)
            world.emulator.put_pod({"name": "gpuwarden-m1-r0123456789abcdef", "env": world.ours(daemon)})
            await world.until(lambda: bool(daemon.store.book.sightings), within=310)
            (sighting,) = daemon.store.book.sightings.values()
            seen_at = world.now_s - (world.clock.now() - sighting.first_at).total_seconds()
            await world.until(lambda: bool(world.deletes()), within=200)
            assert seen_at + 180 <= world.deletes()[0]["s"] <= seen_at + 195
            (found,) = world.events("orphan.found")
            assert found["reason"] == "orphan"
            assert seen_at - born_at <= 300

    scenario(play)


@pytest.mark.parametrize("echo", ["full", "none"])
def test_pod_that_is_seen_again_after_its_discharge_is_owed_and_stopped_again(echo: str) -> None:
    """By its exact key: also where the provider shows no environment."""

    async def play(world: World) -> None:
        world.configure("m1")
        world.excepted.add("two-at-once")
        async with world.box() as box:
            await box.chat(world)
            (pod,) = world.alive()
            await world.until(lambda: bool(world.events("obligation.discharged")), within=320)
            back = world.emulator.put_pod({"id": None, "name": pod["name"], "env": pod["env"]})
            world.emulator.pods[pod["id"]] = world.emulator.pods.pop(back)
            world.emulator.pods[pod["id"]].id = pod["id"]
            await world.until(lambda: len(world.deletes()) == 2, within=330)
            await world.until(lambda: not box.daemon.store.book.owed(), within=60)
            assert len(world.events("resource.reappeared")) == 1
            assert world.alive() == []

    scenario(play, echo_env=echo)


def test_operator_stop_during_a_cold_start_is_sent_at_once_and_the_next_caller_starts_anew() -> None:
    """Nobody can have an open request on what never served: there is nothing to drain."""

    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            await box.chat(world, prefer="wait=0")
            await world.at(10)
            await box.operators.post("/v1/models/m1/stop", {})
            await world.until(lambda: not world.alive(), within=1)
            await world.at(150)  # never seen in a listing: its absence counts from the settle time on
            assert len(world.creates()) == 1
            (line,) = world.events("obligation.discharged")
            assert line["reason"] == "operator-request"
            assert (await box.chat(world)).status == 200
            assert len(world.creates()) == 2

    scenario(play)


def test_callers_who_go_on_waiting_through_an_operator_stop_are_served_by_the_next_start() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            asked = world.soon(box.chat(world))
            await world.at(40)
            await box.operators.post("/v1/models/m1/stop", {})
            await world.until(lambda: asked.done, within=200)
            assert asked.got.status == 200
            assert len(world.creates()) == 2
            assert len(world.alive()) == 1

    scenario(play)
