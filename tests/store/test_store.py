"""Is a transaction whole or nothing, whatever happens to the caller, the file or the clock?"""

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from sqlalchemy import text
from sqlalchemy.engine import Connection

from controller.core.deployment import CreateAnswer
from controller.core.errors import Refusal, RefusalCode
from controller.store import deployments
from controller.store.errors import Stale, StoreTaken, StoreUnreadable, StoreUnwritable
from controller.store.store import Store
from controller.store.transaction import Tx
from tests.store.samples import HOLDER, POLICY, accept, declare, opened, proof
from tests.support.clocks import NOON, HandClock
from tests.support.stores import open_store

S = timedelta(seconds=1)
SOON = timedelta(milliseconds=100)
REJECTED = CreateAnswer.REJECTED
MANY = replace(POLICY, max_active=64, usd_per_day=Decimal(1000))


async def count(store: Store, table: str) -> int:
    return int(await store.read(lambda sql: sql.execute(text(f"SELECT count(*) FROM {table}")).scalar_one()))


async def test_a_transaction_that_raises_keeps_nothing_in_book_and_file(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        before = store.book

        def fail(tx: Tx) -> None:
            declare(tx)
            raise RuntimeError("late")

        with pytest.raises(RuntimeError, match="late"):
            await store.write(fail)
        assert store.book is before
        assert [await count(store, table) for table in ("deployments", "evidence", "leases")] == [0, 0, 0]


async def test_a_refusal_keeps_nothing_and_the_next_write_works(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        await store.write(declare)
        with pytest.raises(Refusal):
            await store.write(declare)
        await store.write(lambda tx: declare(tx, "qwen-2", slot=1))
        assert set(store.book.records) == {"qwen-1", "qwen-2"}


async def test_a_decision_on_an_older_version_is_stale_and_keeps_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        first = await store.write(accept)
        await store.write(lambda tx: deployments.record_ready(tx, first))
        with pytest.raises(Stale):
            await store.write(lambda tx: deployments.record_unready(tx, first, since=NOON))
        assert store.book.records[first.id].unready_since is None


async def test_a_row_changed_under_the_book_is_stale(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        record = await store.write(accept)
        with closing(sqlite3.connect(tmp_path / "store.db")) as other, other:
            other.execute("UPDATE deployments SET version = version + 1")
        with pytest.raises(Stale, match="changed since"):
            await store.write(lambda tx: deployments.record_unready(tx, record, since=NOON))


async def test_those_who_watch_are_rung_after_a_commit_and_not_after_a_failure(tmp_path: Path) -> None:
    rung: list[int] = []
    async with opened(tmp_path, HandClock()) as store:
        store.on_change(lambda: rung.append(len(store.book.records)))
        await store.write(declare)
        with pytest.raises(Refusal):
            await store.write(declare)
    assert rung == [1]


@pytest.mark.parametrize(("lull_s", "rings"), [(0.001, [1]), (3600, [])])
async def test_those_who_watch_are_rung_a_lull_after_a_commit_where_one_is_asked_for(
    tmp_path: Path, lull_s: float, rings: list[int]
) -> None:
    rung: list[int] = []
    async with opened(tmp_path, HandClock()) as store:
        store.on_change(lambda: rung.append(len(store.book.records)))
        await store.write(declare, lull=timedelta(seconds=lull_s))
        assert rung == []
        with anyio.fail_after(2):
            while len(rung) < len(rings):
                await anyio.lowlevel.checkpoint()
        await store.write(lambda tx: declare(tx, "qwen-2", slot=1))
    assert rung == [*rings, 2]  # each commit tells of all that were before it


async def test_a_write_that_changes_nothing_leaves_the_mark_alone(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        await store.write(lambda tx: None)
        assert store.book.mark is None


# Callers that go away


async def test_a_cancelled_caller_loses_neither_the_commit_nor_the_connection(tmp_path: Path) -> None:
    begun: list[str] = []

    def begin(tx: Tx, slot: int) -> None:
        begun.append(declare(tx, f"q{slot}", slot=slot, policy=MANY).record.id)

    async with opened(tmp_path, HandClock()) as store:
        for slot in range(12):
            async with anyio.create_task_group() as group:
                group.start_soon(store.write, partial(begin, slot=slot))
                for _ in range(3 * slot):
                    await anyio.lowlevel.checkpoint()
                while slot % 2 and len(begun) <= slot // 2:  # every second caller goes away in the middle for sure
                    await anyio.lowlevel.checkpoint()
                group.cancel_scope.cancel()
        assert len(begun) >= 6
        assert set(store.book.records) == set(begun)
        assert await count(store, "deployments") == len(begun)


async def test_writers_at_once_take_turns(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:

        async def raise_epoch() -> None:
            epochs.append(await store.write(lambda tx: tx.next_epoch()))

        epochs: list[int] = []
        async with anyio.create_task_group() as group:
            for _ in range(8):
                group.start_soon(raise_epoch)
        assert sorted(epochs) == list(range(1, 9))


# A file that cannot be written


async def test_another_program_s_short_lock_only_delays(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            async with anyio.create_task_group() as group:
                group.start_soon(store.write, declare)
                with anyio.move_on_after(0.05):
                    await anyio.sleep_forever()
                assert store.book.records == {}
                other.execute("ROLLBACK")
        assert set(store.book.records) == {"qwen-1"}


async def test_a_lock_that_outlasts_the_limit_is_told_and_the_next_write_works(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnwritable, match="no commit within"):
                await store.write(declare, limit=SOON)
            other.execute("ROLLBACK")
        told = store.unwritable_since
        await store.write(declare)
        assert (told, store.unwritable_since) == (NOON, None)
        assert await count(store, "deployments") == 1


async def test_what_cannot_be_read_now_is_no_reason_to_end(tmp_path: Path) -> None:
    def locked(_: Connection) -> None:
        raise sqlite3.OperationalError("database is locked")

    async with opened(tmp_path, HandClock()) as store:
        with pytest.raises(StoreUnreadable, match="locked") as problem:
            await store.read(locked)
        assert problem.value.passing
        assert await count(store, "deployments") == 0


async def test_a_write_that_was_cut_off_leaves_no_task_that_would_keep_the_process_from_ending(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        before = asyncio.all_tasks()
        with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnwritable):
                await store.write(declare, limit=SOON)
        assert asyncio.all_tasks() == before


async def test_on_a_full_disk_nothing_is_kept_and_the_next_write_works(tmp_path: Path) -> None:
    def fill(tx: Tx) -> None:
        declare(tx)
        tx._connection.execute(text("PRAGMA max_page_count = 1"))
        for number in range(200):
            tx.line("alarm.raised", detail={"text": "x" * 4000, "number": number})

    async with opened(tmp_path, HandClock()) as store:
        with pytest.raises(StoreUnwritable, match="full"):
            await store.write(fill)
        assert (store.book.records, store.unwritable_since) == ({}, NOON)
        await store.write(declare)
        assert (await count(store, "deployments"), await count(store, "evidence")) == (1, store.book.seq_latest)


async def test_a_file_that_became_read_only_is_told(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:

        def forbid(tx: Tx) -> None:
            tx._connection.execute(text("PRAGMA query_only = ON"))
            declare(tx)

        with pytest.raises(StoreUnwritable, match="readonly"):
            await store.write(forbid)
        await store.write(declare)
        assert set(store.book.records) == {"qwen-1"}


async def test_a_commit_whose_end_was_not_seen_is_read_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(tmp_path, HandClock()) as store:
        real, before = store._write, store.book

        async def cut_off(work: Any) -> Any:
            await real(work)
            store.book = before
            await store._failed()
            raise StoreUnwritable("cut off after the commit")

        monkeypatch.setattr(store, "_write", cut_off)
        with pytest.raises(StoreUnwritable):
            await store.write(declare)
        monkeypatch.undo()
        await store.write(lambda tx: declare(tx, "qwen-2", slot=1))
        assert set(store.book.records) == {"qwen-1", "qwen-2"}
        assert await count(store, "evidence") == store.book.seq_latest


# The clock


async def test_time_never_runs_behind_what_was_witnessed_and_no_create_leaves_meanwhile(tmp_path: Path) -> None:
    clock = HandClock()
    async with opened(tmp_path, clock) as store:
        planned = await store.write(declare)
        clock.set_wall(NOON - 61 * S)
        assert (store.now, store.clock.sound) == (NOON, False)
        with pytest.raises(Refusal) as sending:
            await store.write(lambda tx: deployments.mark_submitting(tx, planned.create.request, holder=HOLDER))
        with pytest.raises(Refusal) as declaring:
            await store.write(lambda tx: declare(tx, "qwen-2", slot=1))
        codes = {sending.value.code, declaring.value.code}
        assert codes == {RefusalCode.CLOCK_REVERSED}


async def test_stops_and_proofs_are_taken_on_a_reversed_clock(tmp_path: Path) -> None:
    clock = HandClock()
    async with opened(tmp_path, clock) as store:
        record = await store.write(accept)
        clock.set_wall(NOON - timedelta(days=1))
        (duty,) = store.book.duties(record.id)
        await store.write(lambda tx: deployments.discharge(tx, duty.id, proof("x")))
        assert store.book.records[record.id].ended_at == NOON


async def test_a_wrong_year_moves_the_mark_by_the_boot_time_alone_unless_the_provider_agrees(tmp_path: Path) -> None:
    clock = HandClock()
    async with opened(tmp_path, clock) as store:
        await store.write(declare)
    async with opened(tmp_path, clock) as store:
        clock.move(10 * S)
        clock.set_wall(NOON + timedelta(days=365))
        await store.write(lambda tx: tx.next_epoch())
        assert store.book.mark == NOON + 10 * S
        store.clock.hear(clock.wall(), round_trip=S)
        await store.write(lambda tx: tx.next_epoch())
        assert store.book.mark == NOON + timedelta(days=365)


async def test_a_restart_within_a_boot_needs_no_wall_clock(tmp_path: Path) -> None:
    clock = HandClock()
    async with opened(tmp_path, clock) as store:
        await store.write(declare)
    clock.move(3600 * S)
    clock.set_wall(NOON + timedelta(days=365))
    async with opened(tmp_path, clock) as store:
        assert store.now == NOON + 3600 * S


async def test_after_a_reboot_time_begins_at_what_was_witnessed_until_the_provider_speaks(tmp_path: Path) -> None:
    clock = HandClock()
    async with opened(tmp_path, clock) as store:
        await store.write(declare)
    clock.reboot(3600 * S)
    async with opened(tmp_path, clock) as store:
        assert (store.now, store.clock.sound) == (NOON, False)
        with pytest.raises(Refusal):
            await store.write(lambda tx: declare(tx, "qwen-2", slot=1))
        store.clock.hear(clock.wall(), round_trip=S)
        assert (store.now, store.clock.sound) == (NOON + 3600 * S, True)
        await store.write(lambda tx: declare(tx, "qwen-2", slot=1))


async def test_what_was_never_settled_is_no_anchor_for_the_next_process(tmp_path: Path) -> None:
    clock = HandClock()
    async with opened(tmp_path, clock) as store:
        await store.write(declare)
    clock.reboot(3600 * S)
    async with opened(tmp_path, clock) as store:
        clock.move(10 * S)
        await store.write(lambda tx: tx.next_epoch())
    async with opened(tmp_path, clock) as store:
        assert (store.now, store.clock.sound) == (NOON + 10 * S, False)


@pytest.mark.parametrize("owing", [True, False])
async def test_a_lead_over_everybody_s_time_is_inherited_only_while_something_is_owed(
    tmp_path: Path, owing: bool
) -> None:
    clock = HandClock()
    async with opened(tmp_path, clock) as store:
        record = await store.write(accept)
        (duty,) = store.book.duties(record.id)
        clock.set_wall(NOON - timedelta(days=365))
        store.clock.hear(clock.wall(), round_trip=S)
        if not owing:
            await store.write(lambda tx: deployments.discharge(tx, duty.id, proof("x")))
        await store.write(lambda tx: tx.next_epoch())
        assert (store.now, store.clock.sound) == (NOON, False)
    async with opened(tmp_path, clock) as store:
        assert (store.now, store.clock.sound) == ((NOON, False) if owing else (clock.wall(), True))


# One daemon


async def taken_over(tmp_path: Path, store: Store) -> Store:
    """The lock's file is removed, as a cleaner of old files may do, and another daemon begins."""
    (tmp_path / "store.db.lock").unlink()
    second = await open_store(tmp_path, HandClock(), seed=2)
    await second.write(lambda tx: tx.line("daemon.started"))
    return second


async def test_a_store_that_another_daemon_took_over_is_written_and_read_no_more(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        record = await store.write(lambda tx: declare(tx).record)
        second = await taken_over(tmp_path, store)
        with pytest.raises(StoreTaken, match=r"store\.db"):
            await store.write(lambda tx: tx.raise_alarm("alarm", subject="it", detail="told by the first"))
        with pytest.raises(StoreTaken):
            await count(store, "evidence")
        assert await count(second, "alarms") == 0
        assert second.book.records[record.id].epoch == record.epoch
        await second.close()


async def test_a_commit_whose_end_was_not_seen_does_not_hide_that_another_took_over(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        await store.write(lambda tx: tx.line("daemon.started"))
        with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnwritable):
                await store.write(lambda tx: tx.line("clock.jumped"), limit=SOON)
        second = await taken_over(tmp_path, store)
        with pytest.raises(StoreTaken):
            await store.write(lambda tx: tx.line("clock.jumped"))
        await second.close()


async def test_who_holds_the_file_knows_whether_its_lock_is_still_there(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        lock, held = tmp_path / "store.db.lock", [store.holds_file]
        lock.unlink()
        held.append(store.holds_file)
        lock.touch()
        held.append(store.holds_file)
        assert held == [True, False, False]
