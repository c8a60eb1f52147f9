"""What does a listing prove, and what does it cost?

Case B10: absence in one listing, or soon after the create, ends nothing; absence that lasts does. Listing allocates
nothing (HC-39).
"""

from typing import Any, Final

import anyio

from controller.core.lifecycle import Phase
from tests.scenarios.world import Box, Pending, World, scenario

LIST: Final = {"method": "GET", "path": "/v2/pods"}


def lose_from_listings(world: World, pods: list[str], *, times: int | None = 1) -> None:
    world.emulator.add_faults([{"match": LIST, "times": times, "do": {"omit": pods}}])


async def stream(world: World, box: Box, *, words: int) -> Pending:
    """A stream of so many seconds, one word each."""
    return world.soon(box.chat(world, stream=True, max_tokens=words))


def test_listing_that_lags_behind_the_create_delays_and_repeats_nothing() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            got = await box.chat(world)
            assert (got.status, got.at < 70) == (200, True)
            assert len(world.creates()) == 1
            assert world.deletes() == []

    scenario(play, list_lag_seconds=45, get_lag_seconds=45)


def test_one_empty_listing_in_the_middle_of_a_stream_changes_nothing() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            await box.chat(world)
            (pod,) = world.alive()
            streaming = await stream(world, box, words=200)
            await world.at(100)
            lose_from_listings(world, [pod["id"]])
            await world.until(lambda: streaming.done, within=250)
            assert streaming.got.status == 200
            assert streaming.got.body.endswith(b"data: [DONE]\n\n")
            (record,) = box.daemon.store.book.live()
            assert record.phase is Phase.ACTIVE
            assert len(world.creates()) == 1
            assert world.deletes() == []

    scenario(play, token_rate=1)


def test_listing_that_lacks_one_of_two_pods_once_loses_neither() -> None:
    async def play(world: World) -> None:
        world.configure("m1", "m2")
        async with world.box() as box:
            first, second = world.soon(box.chat(world, "m1")), world.soon(box.chat(world, "m2"))
            await world.until(lambda: first.done and second.done, within=100)
            lose_from_listings(world, [world.alive()[0]["id"]])
            await world.at(200)
            assert [(await box.chat(world, alias)).status for alias in ("m1", "m2")] == [200, 200]
            assert len(world.creates()) == 2
            assert world.deletes() == []
            assert world.events("obligation.discharged") == []

    scenario(play)


def test_daemon_killed_in_the_middle_of_its_create_adopts_what_it_made() -> None:
    """B10 (d): the create was sent, its answer was never recorded, and the listing shows nothing for 20 s."""

    async def play(world: World) -> None:
        world.configure("m1")
        world.emulator.add_faults([{"match": {"method": "POST"}, "times": 1, "do": {"delay": 2.0}}])
        async with world.front("m1") as front:
            async with world.box(front=front, crash=True) as box:
                asked = world.soon(box.chat(world))
                await world.at(1)
            async with world.box(front=front) as box:
                assert [record.phase for record in box.daemon.store.book.live()] == [Phase.UNCERTAIN]
                await world.until(lambda: asked.done, within=100)
                assert asked.got.status == 200
                assert len(world.creates()) == 1
                assert world.deletes() == []

    scenario(play, list_lag_seconds=20)


def test_pod_that_is_gone_is_proven_so_after_the_settle_time_and_replaced_on_demand() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            await box.chat(world)
            (pod,) = world.alive()
            await world.at(60)
            world.emulator.change_pod(pod["id"], {"vanish": True})
            await world.until(lambda: bool(world.events("obligation.discharged")), within=220)
            assert world.now_s >= 60 + 120
            assert len(world.creates()) == 1
            assert (await box.chat(world)).status == 200
            assert len(world.creates()) == 2

    scenario(play)


def test_pod_that_reappears_before_it_is_proven_gone_keeps_its_record() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            await box.chat(world)
            (record,) = box.daemon.store.book.live()
            (pod,) = world.alive()
            lose_from_listings(world, [pod["id"]], times=None)
            await world.at(400)
            world.emulator.clear_faults()
            await world.until(lambda: not world.alive(), within=90)
            assert len(world.pods()) == 1
            assert {line["deployment"] for line in world.events("deployment.phase")} == {record.id}

    scenario(play)


def test_storm_of_listings_allocates_nothing() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.daemon() as daemon:
            wrong: list[dict[str, Any]] = [
                {"answer": 500}, {"answer": 429}, {"answer": 401}, {"malformed": "html"}, {"malformed": "null"},
                {"malformed": "empty"}, {"malformed": "wrong-type"}, {"malformed": "truncated"}, {"drop": "after"},
            ]  # fmt: skip
            for deed in wrong:
                world.emulator.add_faults([{"match": {"method": "GET"}, "times": 3, "do": deed}])
            for _ in range(60):
                daemon.ring()
                await anyio.sleep(10)
            assert len(world.calls("GET")) >= 30
            assert world.pods() == []
            assert {call["path"] for call in world.calls("POST")} <= {"/graphql"}
            assert daemon.store.book.records == {}
            assert daemon.store.book.obligations == {}

    scenario(play)
