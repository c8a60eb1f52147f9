"""What falls due while nothing can be written: does everybody read it, and does the file tell it afterwards, once?"""

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from controller.core.errors import Refusal
from controller.core.evidence import StopReason
from controller.core.identity import DeploymentId
from controller.core.lifecycle import Phase
from controller.store import deployments, owing
from controller.store.errors import Stale, StoreUnwritable
from controller.store.outbox import lines_after
from controller.store.store import Store
from controller.store.unwritten import Unwritten, news_of
from tests.core.samples import record as sample
from tests.store.samples import PROOF, accept, opened, submit
from tests.support.clocks import NOON, HandClock
from tests.support.stores import unwritable

NAME = DeploymentId("qwen-1")


async def running(store: Store) -> None:
    await store.write(accept)


async def told(store: Store, after: int) -> list[tuple[str, bool]]:
    """Event, and whether it is marked as late, of each line since."""
    lines = [json.loads(text) for _, text in await store.read(lambda found: lines_after(found, after, limit=1000))]
    return [(line["event"], (line.get("detail") or {}).get("late", False)) for line in lines]


def phase_in(folder: Path) -> str:
    with closing(sqlite3.connect(folder / "store.db")) as connection:
        return str(connection.execute("SELECT phase FROM deployments").fetchone()[0])


def drain_in(folder: Path) -> int | None:
    with closing(sqlite3.connect(folder / "store.db")) as connection:
        (found,) = connection.execute("SELECT drain_until_ms FROM deployments").fetchone()
    return None if found is None else int(found)


async def test_it_is_owed_to_all_who_read_and_told_before_anything_else_when_writing_works(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        await running(store)
        before = store.book
        with unwritable(tmp_path):
            await owing.oblige(store, before.records[NAME], StopReason.IDLE)
            for _ in range(2):  # whatever else is tried meanwhile
                assert store.book.records[NAME].phase is Phase.STOP_REQUIRED
                assert [(duty.due, duty.reason) for duty in store.book.owed()] == [(True, StopReason.IDLE)]
                assert (store.book.seq_latest, phase_in(tmp_path)) == (before.seq_latest, "requested")
                with pytest.raises(StoreUnwritable):
                    await store.write(lambda tx: tx.line("clock.jumped"))
        await store.write(lambda tx: tx.line("clock.jumped"))
        assert (store.book.records[NAME].phase, phase_in(tmp_path)) == (Phase.STOP_REQUIRED, "stop-required")
        assert await told(store, before.seq_latest) == [
            ("deployment.phase", True),
            ("obligation.due", True),
            ("clock.jumped", False),
        ]


async def test_a_transaction_that_writes_nothing_proves_no_room(tmp_path: Path) -> None:
    clock = HandClock()
    async with opened(tmp_path, clock) as store:
        await running(store)
        with unwritable(tmp_path):
            for _ in range(2):
                with pytest.raises(StoreUnwritable):
                    await store.write(lambda tx: tx.line("clock.jumped") if store.unwritable_since is None else None)
                assert store.unwritable_since == NOON
                clock.move(timedelta(hours=1))
        await store.write(lambda tx: None)
        assert store.unwritable_since is None


async def test_where_it_can_be_written_it_is_written(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        await running(store)
        before = store.book
        await owing.oblige(store, before.records[NAME], StopReason.IDLE)
        assert await told(store, before.seq_latest) == [("deployment.phase", False), ("obligation.due", False)]
        with pytest.raises(Stale):
            await owing.oblige(store, before.records[NAME], StopReason.IDLE)


async def test_it_is_owed_once_and_for_the_reason_that_came_first(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        await running(store)
        record, before = store.book.records[NAME], store.book.seq_latest
        with unwritable(tmp_path):
            for reason in (StopReason.IDLE, StopReason.HUNG):
                await owing.oblige(store, record, reason)
            await owing.oblige(store, store.book.records[NAME], StopReason.HUNG)
            assert store.book.records[NAME].reason is StopReason.IDLE
        await store.write(lambda tx: tx.line("clock.jumped"))
        assert [event for event, _ in await told(store, before)].count("deployment.phase") == 1


EARLY, LATE = datetime(2026, 11, 30, 12, tzinfo=UTC), datetime(2026, 11, 30, 13, tzinfo=UTC)


@pytest.mark.parametrize(
    ("phase", "left", "drain_until", "news"),
    [
        (Phase.DECLARED, None, None, False),
        (Phase.REQUESTED, None, None, True),
        (Phase.ACTIVE, None, LATE, True),
        (Phase.UNCERTAIN, None, None, False),
        (Phase.STOPPED, None, None, False),
        (Phase.STOP_REQUIRED, None, None, False),
        (Phase.STOP_REQUIRED, None, EARLY, False),
        (Phase.STOP_REQUIRED, LATE, None, True),
        (Phase.STOP_REQUIRED, LATE, EARLY, True),
        (Phase.STOP_REQUIRED, LATE, LATE, False),
        (Phase.STOP_REQUIRED, EARLY, LATE, False),
    ],
)
def test_news_is_what_serves_and_is_to_be_stopped_or_is_to_be_stopped_sooner(
    phase: Phase, left: datetime | None, drain_until: datetime | None, news: bool
) -> None:
    owed = Unwritten(deployment=NAME, reason=StopReason.IDLE, drain_until=drain_until, at=EARLY)
    assert news_of(sample(phase=phase, drain_until=left), owed) is news


@pytest.mark.parametrize("written", [True, False], ids=["drain on record", "drain in the book"])
async def test_a_drain_that_runs_may_be_shortened_and_is_never_put_off(tmp_path: Path, written: bool) -> None:
    clock = HandClock()
    async with opened(tmp_path, clock) as store:
        await running(store)
        sooner, later = store.now + timedelta(minutes=5), store.now + timedelta(minutes=10)
        record, before = store.book.records[NAME], store.book.seq_latest
        if written:
            await owing.oblige(store, record, StopReason.IDLE, drain_until=sooner)
        with unwritable(tmp_path):
            if not written:
                await owing.oblige(store, record, StopReason.IDLE, drain_until=sooner)
            for drain_until, left in [(later, sooner), (sooner, sooner), (None, None), (later, None)]:
                store.owe_unwritten(store.book.records[NAME], StopReason.OPERATOR_REQUEST, drain_until=drain_until)
                assert store.book.records[NAME].drain_until == left
        await store.write(lambda tx: tx.line("clock.jumped"))
        assert (store.book.records[NAME].drain_until, drain_in(tmp_path)) == (None, None)
        assert [event for event, _ in await told(store, before)].count("deployment.phase") == 1


async def test_what_is_over_by_then_is_owed_no_more_and_keeps_nobody_from_writing(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        await running(store)
        (duty,) = store.book.obligations.values()
        record = store.book.records[NAME]
        await owing.oblige(store, record, StopReason.OPERATOR_REQUEST)
        await store.write(lambda tx: deployments.discharge(tx, duty.id, PROOF))
        ended = store.book
        store.unwritable_since = store.now
        store.owe_unwritten(record, StopReason.IDLE)  # decided on what is no more
        assert store.book is ended
        store.owe_unwritten(ended.records[NAME], StopReason.IDLE)
        await store.write(lambda tx: tx.line("clock.jumped"))
        assert store.book.records[NAME].phase is Phase.STOPPED
        assert store.book.owed() == ()


async def test_what_was_not_sent_yet_is_owed_no_stop(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        await store.write(submit)
        record = store.book.records[NAME]
        assert record.phase is Phase.DECLARED
        with pytest.raises(Refusal):
            await owing.oblige(store, record, StopReason.IDLE)
        with unwritable(tmp_path):
            store.owe_unwritten(record, StopReason.IDLE)
            assert store.book.owed() == ()
        await store.write(lambda tx: tx.line("clock.jumped"))
        assert store.book.records[NAME].phase is Phase.DECLARED
