"""What is lost, made or left running while the store cannot be written?

Case B17: nothing is created, what is not wanted any more is stopped all the same, what serves goes on, and afterwards
all of it is on record. The invariants of every scenario hold the file, the store and the truth together.
"""

import errno
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from controller.api.client import Problem
from controller.store.database import Creator
from tests.scenarios.world import Box, World, scenario
from tests.support.threadless_sqlite import ThreadlessConnection, ThreadlessCursor

BUSY_S = 5.0
"""So long SQLite waits for another's lock."""
FULL, LOCKED = "database or disk is full", "database is locked"


class Disk:
    """What the store's file meets: the words that SQLite has for it, or none."""

    def __init__(self, world: World) -> None:
        self.trouble: str | None = None
        world.connect = self.connect

    def connect(self, path: Path) -> Creator:
        async def made() -> Connection:
            return await Connection(path, self)

        return made


class Cursor(ThreadlessCursor):
    disk: Disk

    async def execute(self, sql: str, parameters: Any = ()) -> "Cursor":
        if sql.startswith("BEGIN") and self.disk.trouble == LOCKED:
            await anyio.sleep(BUSY_S)
            if self.disk.trouble == LOCKED:
                raise sqlite3.OperationalError(LOCKED)
        await super().execute(sql, parameters)
        return self


class Connection(ThreadlessConnection):
    def __init__(self, path: Path, disk: Disk) -> None:
        super().__init__(path)
        self._disk, self._changes = disk, 0

    def cursor(self) -> Cursor:
        cursor = Cursor(self._conn.cursor())
        cursor.disk = self._disk
        return cursor

    async def commit(self) -> None:
        changes = self._conn.total_changes
        if changes != self._changes and self._disk.trouble not in {None, LOCKED}:
            raise sqlite3.OperationalError(self._disk.trouble)
        await super().commit()
        self._changes = changes


def on_a_disk(play: Callable[[World, Disk], Any], **settings: Any) -> None:
    async def with_disk(world: World) -> None:
        await play(world, Disk(world))

    scenario(with_disk, **settings)


async def reasons(box: Box) -> str:
    try:
        await box.operators.get("/readyz")
    except Problem as problem:
        assert problem.status == 503
        return str(problem)
    return ""


@pytest.mark.parametrize("lasts", [20, 120])
@pytest.mark.parametrize("locked_at", [0.5, 3], ids=["before the create", "during the create"])
def test_a_lock_by_another_program_loses_no_row_and_makes_no_second_pod(locked_at: float, lasts: float) -> None:
    async def play(world: World, disk: Disk) -> None:
        world.configure("m1")
        world.emulator.add_faults([{"match": {"method": "POST", "path": "/v2/pods"}, "do": {"delay": 5}}])
        async with world.box() as box:
            await world.at(0.5 if locked_at < 1 else 1)
            if locked_at < 1:
                disk.trouble = LOCKED
            asked = world.soon(box.chat(world))
            await world.at(locked_at)
            disk.trouble = LOCKED
            await world.at(locked_at + lasts)
            assert len(world.creates()) == (locked_at > 1)
            disk.trouble = None
            await world.until(lambda: asked.done, within=300)
            assert (asked.got.status, len(world.creates()), len(world.pods())) == (200, 1, 1)
            assert [line["detail"]["answer"] for line in world.events("create.answered")] == ["accepted"]

    on_a_disk(play)


@pytest.mark.parametrize(
    ("trouble", "lasts"),
    [(FULL, 600), (LOCKED, 400), ("disk I/O error", 400), ("attempt to write a readonly database", 400)],
)
def test_an_idle_pod_is_stopped_in_time_though_nothing_can_be_written_and_nothing_is_created(
    trouble: str, lasts: float
) -> None:
    async def play(world: World, disk: Disk) -> None:
        world.configure("m1", "m2")
        async with world.box() as box:
            await box.chat(world)
            await world.at(100)
            disk.trouble = trouble
            begun = world.now_s
            used = await box.chat(world)
            assert used.status == 200, "what is ready serves on"
            told = await box.chat(world, "m2", prefer="wait=60")
            assert (told.status, told.error["code"]) == (503, "store_unavailable")
            assert "the store cannot be written" in await reasons(box)
            await world.until(lambda: not world.alive(), within=400)
            assert used.at + 299 <= world.now_s <= used.at + 360
            await world.at(begun + lasts)
            assert (len(world.creates()), len(world.deletes())) == (1, 1)
            assert world.events("obligation.discharged") == []
            disk.trouble = None
            await world.until(lambda: not box.daemon.store.book.owed(), within=300)
            await world.until(lambda: len(world.events("obligation.discharged")) == 1, within=30)
            late = [line["event"] for line in world.evidence() if (line.get("detail") or {}).get("late")]
            assert late == ["deployment.phase", "obligation.due", "stop.submitted"]
            assert (await box.chat(world, "m2")).status == 200
            assert await reasons(box) == ""

    on_a_disk(play)


def test_what_is_being_stopped_unrecorded_gets_no_new_request() -> None:
    async def play(world: World, disk: Disk) -> None:
        world.configure("m1", extra='wait = "20s"')
        world.emulator.add_faults([{"match": {"method": "DELETE"}, "times": 3, "do": {"answer": 500}}])
        async with world.box() as box:
            got = await box.chat(world)
            await world.at(100)
            disk.trouble = FULL
            await world.until(lambda: bool(world.deletes()), within=300)
            (pod,) = world.alive()
            before = pod["upstream"]["requests"]
            told = await box.chat(world)
            assert (told.status, told.error["code"]) == (503, "store_unavailable")
            assert world.pods()[0]["upstream"]["requests"] == before
            await world.until(lambda: not world.alive(), within=60)
            assert world.now_s <= got.at + 420
            assert len(world.deletes()) == 4, "it is asked again, though nobody can write that it was asked"
            disk.trouble = None
            await world.until(lambda: len(world.events("stop.answered")) == 4, within=60)
            assert [line["detail"]["attempt"] for line in world.events("stop.submitted")] == [1, 2, 3, 4]
            assert (await box.chat(world, prefer="wait=300")).status == 200

    on_a_disk(play)


def test_a_stop_that_fails_as_the_disk_fills_is_sent_again() -> None:
    async def play(world: World, disk: Disk) -> None:
        world.configure("m1")
        world.emulator.add_faults([{"match": {"method": "DELETE"}, "do": {"delay": 5, "answer": 500}}])
        async with world.box() as box:
            await box.chat(world)
            await box.operators.post("/v1/stop", {"now": True})
            await world.until(lambda: box.daemon.store.book.owed()[0].stop_in_flight, within=10)
            disk.trouble = FULL
            await world.until(lambda: len(world.deletes()) == 1, within=10)
            world.emulator.faults.clear()
            await world.until(lambda: not world.alive(), within=100)
            disk.trouble = None
            await world.until(lambda: not box.daemon.store.book.owed(), within=300)

    on_a_disk(play)


def test_a_stop_that_was_accepted_and_did_nothing_is_sent_again() -> None:
    async def play(world: World, disk: Disk) -> None:
        world.configure("m1")
        world.emulator.add_faults([{"match": {"method": "DELETE"}, "times": 1, "do": {"ignore": True}}])
        async with world.box() as box:
            await box.chat(world)
            await world.at(100)
            disk.trouble = FULL
            await box.operators.post("/v1/stop", {"now": True})
            await world.until(lambda: not world.alive(), within=400)
            disk.trouble = None
            await world.until(lambda: not box.daemon.store.book.owed(), within=300)

    on_a_disk(play)


def test_an_act_that_changes_nothing_is_no_sign_that_there_is_room() -> None:
    """A transaction that writes nothing is committed on a full disk too. Taken for the end of the trouble it cost the
    right to stop: the leases of before had run out by the time of what was then the next."""

    async def play(world: World, disk: Disk) -> None:
        world.configure("m1")
        async with world.box() as box:
            got = await box.chat(world)
            await world.at(30)
            disk.trouble = FULL
            for _ in range(8):
                await anyio.sleep(50)
                got = await box.chat(world)
            with pytest.raises(Problem, match=FULL):
                await box.operators.post("/v1/unblock")
            await world.until(lambda: not world.alive(), within=400)
            assert world.now_s <= got.at + 360
            disk.trouble = None
            await world.until(lambda: len(world.events("obligation.discharged")) == 1, within=300)

    on_a_disk(play)


def test_a_start_that_fails_while_nothing_can_be_written_is_stopped_at_its_deadline_and_told() -> None:
    async def play(world: World, disk: Disk) -> None:
        world.configure("m1")
        async with world.box() as box:
            await box.chat(world, prefer="wait=0")
            await world.at(500)
            disk.trouble = FULL
            asked = world.soon(box.chat(world))
            await world.until(lambda: not world.alive(), within=1000)
            assert 899 <= world.now_s <= 960
            await world.until(lambda: asked.done, within=5)
            assert asked.got.error["reason"] == "startup-deadline"
            await world.at(1000)
            disk.trouble = None
            await world.until(lambda: bool(world.events("obligation.discharged")), within=300)
            assert {line["reason"] for line in world.events("obligation.due")} == {"startup-deadline"}
            assert box.daemon.store.book.memory("m1").failures == 1

    on_a_disk(play, boot_seconds=1e6)


def test_what_was_killed_with_its_stop_unrecorded_is_found_gone_by_the_next() -> None:
    async def play(world: World, disk: Disk) -> None:
        world.configure("m1")
        world.excepted.add("unrecorded-stop")
        async with world.box(crash=True) as box:
            await box.chat(world)
            await world.at(100)
            disk.trouble = FULL
            await world.until(lambda: not world.alive(), within=300)
        disk.trouble = None
        async with world.box() as box:
            assert box.daemon.store.book.owed() == ()
            await world.until(lambda: not box.daemon.store.book.live(), within=400)
            assert (await box.chat(world)).status == 200
            assert len(world.creates()) == 2

    on_a_disk(play)


def test_a_full_disk_for_the_evidence_alone_holds_up_no_stop_and_loses_no_line() -> None:
    """B51: the log's own partition."""

    async def play(world: World) -> None:
        full = [False]

        async def limited(work: Callable[[], Any]) -> Any:
            if full[0]:
                raise OSError(errno.ENOSPC, "No space left on device")
            return work()

        world.blocking = limited
        world.configure("m1")
        async with world.box() as box:
            got = await box.chat(world)
            await world.at(100)
            full[0] = True
            await world.until(lambda: not world.alive(), within=300)
            assert world.now_s <= got.at + 320
            await world.until(lambda: not box.daemon.store.book.owed(), within=100)
            assert "evidence-file" in {name for name, _ in box.daemon.store.book.alarms}
            assert world.events("stop.submitted") == []
            full[0] = False
            await world.until(lambda: len(world.events("obligation.discharged")) == 1, within=60)
            await world.until(lambda: not box.daemon.store.book.alarms, within=60)

    scenario(play)
