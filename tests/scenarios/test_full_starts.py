"""What does a daemon do that starts on a store that takes no writes?

A box that was rebooted, or an upgrade, with a full disk: what is owed is known and is stopped in time; nothing is
created, and that this run has begun is told first thing once there is room. Where nothing is owed it does not start.
"""

import pytest

from controller.store.errors import StoreUnwritable
from tests.scenarios.test_backups import PutBack, by_command, by_hand, copied
from tests.scenarios.test_disks import FULL, LOCKED, Disk, on_a_disk, reasons
from tests.scenarios.world import World

TROUBLES = [FULL, LOCKED, "disk I/O error", "attempt to write a readonly database"]


@pytest.mark.parametrize("crash", [False, True], ids=["ended", "died"])
@pytest.mark.parametrize("trouble", TROUBLES)
def test_what_is_idle_is_stopped_in_time_and_all_of_it_is_told_once_there_is_room(trouble: str, crash: bool) -> None:
    async def play(world: World, disk: Disk) -> None:
        world.configure("m1", "m2")
        async with world.box(crash=crash) as box:
            used = await box.chat(world)
            await world.at(100)
            first, epoch = box.daemon.run_id, box.daemon.store.epochs_known
            disk.trouble = trouble
        async with world.box() as box:
            await world.until(lambda: box.daemon.view.value.listing is not None, within=60)
            assert "the store cannot be written" in await reasons(box)
            told = await box.chat(world, "m2", prefer="wait=60")
            assert (told.status, told.error["code"]) == (503, "store_unavailable")
            await world.until(lambda: not world.alive(), within=400)
            assert used.at + 299 <= world.now_s <= used.at + 360
            await world.at(900)
            assert (len(world.creates()), len(world.deletes())) == (1, 1)
            assert len(world.events("daemon.started")) == 1
            disk.trouble = None
            await world.until(lambda: len(world.events("obligation.discharged")) == 1, within=300)
            begun = world.events("daemon.started")
            assert [line["detail"]["run"] for line in begun] == [first, box.daemon.run_id]
            late = [line for line in world.evidence() if (line.get("detail") or {}).get("late")]
            assert [line["event"] for line in late] == ["deployment.phase", "obligation.due", "stop.submitted"]
            assert min(line["seq"] for line in late) > begun[1]["seq"]
            assert box.daemon.store.book.epoch_latest > epoch
            assert (await box.chat(world, "m2", prefer="wait=300")).status == 200
            assert await reasons(box) == ""

    on_a_disk(play)


def test_what_serves_goes_on_serving_and_an_operator_stops_it() -> None:
    async def play(world: World, disk: Disk) -> None:
        world.configure("m1")
        async with world.box() as box:
            await box.chat(world)
            await world.at(100)
            disk.trouble = FULL
        async with world.box() as box:
            await world.at(150)
            assert (await box.chat(world)).status == 200
            answer = await box.operators.post("/v1/stop", {"now": True})
            assert answer["unrecorded"] == FULL
            await world.until(lambda: not world.alive(), within=10)
            disk.trouble = None
            await world.until(lambda: len(world.events("obligation.discharged")) == 1, within=300)
            assert [line["reason"] for line in world.events("obligation.due")] == ["operator-request"]

    on_a_disk(play)


@pytest.mark.parametrize(
    ("fault", "in_flight"), [({"answer": 500}, False), ({"hang": 20}, True)], ids=["refused", "on its way"]
)
def test_a_stop_that_was_owed_when_the_run_before_died_is_sent_by_the_next_run_too(
    fault: dict[str, int], in_flight: bool
) -> None:
    async def play(world: World, disk: Disk) -> None:
        world.configure("m1")
        world.emulator.add_faults([{"match": {"method": "DELETE"}, "do": fault}])
        async with world.box(crash=True) as box:
            await box.chat(world)
            await box.operators.post("/v1/stop", {"now": True})
            await world.until(
                lambda: bool(world.deletes()) or box.daemon.store.book.owed()[0].stop_in_flight, within=10
            )
            disk.trouble = FULL
            assert box.daemon.store.book.owed()[0].stop_in_flight is in_flight
        world.emulator.faults.clear()
        begun = world.now_s
        async with world.box() as box:
            await world.until(lambda: not world.alive(), within=100)
            assert world.now_s <= begun + 90
            disk.trouble = None
            await world.until(lambda: not box.daemon.store.book.owed(), within=300)
            assert len(world.events("stop.submitted")) == len(world.deletes()), "none is ended before it is told"

    on_a_disk(play)


def test_where_nothing_is_owed_it_does_not_start() -> None:
    async def play(world: World, disk: Disk) -> None:
        world.configure("m1")
        async with world.box():
            pass
        disk.trouble = FULL
        with pytest.raises(StoreUnwritable, match=FULL):
            async with world.box():
                pass

    on_a_disk(play)


@pytest.mark.parametrize("way", [by_command, by_hand])
def test_on_an_old_copy_it_does_not_start(way: PutBack) -> None:
    """What it says runs may be long gone, and what runs may not stand in it."""

    async def play(world: World, disk: Disk) -> None:
        world.configure("m1")
        async with world.box() as box:
            await box.chat(world)
            copy = copied(world)
            await world.at(100)
            await box.operators.post("/v1/stop", {"now": True})
            await world.until(lambda: not box.daemon.store.book.owed(), within=300)
        way(world, copy)
        disk.trouble = FULL
        with pytest.raises(StoreUnwritable, match=FULL):
            async with world.box():
                pass
        disk.trouble = None
        world.emulator.add_faults([{"match": {"method": "GET", "path": "/v2/pods"}, "do": {"answer": 500}}])
        async with world.box() as box:
            await world.at(world.now_s + 60)
            assert box.daemon.store.book.matching_since is not None
            disk.trouble = FULL
        with pytest.raises(StoreUnwritable, match=FULL):
            async with world.box():
                pass
        disk.trouble = None
        world.emulator.faults.clear()
        async with world.box() as box:
            await world.until(lambda: not box.daemon.store.book.live(), within=900)
            assert len(world.creates()) == 1

    on_a_disk(play)
