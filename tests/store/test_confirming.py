"""Is an operator's word for a config kept where it is needed, found before the store is opened, and spent once?"""

import sqlite3
from contextlib import closing
from decimal import Decimal
from pathlib import Path

from controller.core.evidence import StopReason
from controller.core.removal import Confirmed, Machine
from controller.store import deployments
from controller.store.confirming import confirm
from controller.store.standing import Standing, standing
from tests.store.samples import accept, evidence_events, opened
from tests.support.clocks import HandClock

DIGEST = "d" * 64


async def test_a_word_for_a_config_that_would_stop_everything_is_kept_with_its_time(tmp_path: Path) -> None:
    clock = HandClock()
    async with opened(tmp_path, clock) as store:
        await store.write(accept)
        found = await store.write(lambda tx: confirm(tx, digest=DIGEST, configured=["other"]))
        assert found is not None
        assert (found.models, found.machines) == (("qwen",), 1)
        kept = Confirmed(digest=DIGEST, at=clock.now())
        assert store.book.confirmed == kept
        assert (await store.write(evidence_events))[-1] == "config.confirmed"
    async with opened(tmp_path, clock) as store:
        assert store.book.confirmed == kept


async def test_where_something_is_kept_or_nothing_runs_no_word_is(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        assert await store.write(lambda tx: confirm(tx, digest=DIGEST, configured=[])) is None
        record = await store.write(accept)
        assert await store.write(lambda tx: confirm(tx, digest=DIGEST, configured=["qwen"])) is None
        await store.write(lambda tx: deployments.require_stop(tx, tx.record(record.id), StopReason.IDLE))
        assert await store.write(lambda tx: confirm(tx, digest=DIGEST, configured=[])) is None
        assert store.book.confirmed is None


async def test_it_is_spent_by_whichever_config_is_taken_next(tmp_path: Path) -> None:
    clock = HandClock()
    async with opened(tmp_path, clock) as store:
        await store.write(accept)
        await store.write(lambda tx: confirm(tx, digest=DIGEST, configured=[]))
        await store.write(lambda tx: tx.put_accepted_config("{}"))
        assert store.book.confirmed is None
    async with opened(tmp_path, clock) as store:
        assert store.book.confirmed is None


async def test_what_runs_and_what_was_said_is_told_before_anybody_opens_the_store(tmp_path: Path) -> None:
    clock = HandClock()
    async with opened(tmp_path, clock) as store:
        await store.write(lambda tx: tx.put_accepted_config("{}"))
        record = await store.write(accept)
        await store.write(lambda tx: confirm(tx, digest=DIGEST, configured=[]))
        kept = Confirmed(digest=DIGEST, at=clock.now())
        machine = Machine(model="qwen", usd_per_hour=record.usd_per_hour)
        assert standing(tmp_path / "store.db") == Standing(machines=(machine,), accepted="{}", confirmed=kept)
        assert machine.usd_per_hour == Decimal("0.79")
        await store.write(lambda tx: deployments.require_stop(tx, tx.record(record.id), StopReason.IDLE))
        found = standing(tmp_path / "store.db")
        assert found is not None
        assert found.machines == ()


async def test_a_store_from_before_that_has_no_word_and_one_that_cannot_be_read_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    assert standing(path) is None
    async with opened(tmp_path, HandClock()) as store:
        await store.write(accept)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("ALTER TABLE meta DROP COLUMN confirmed_config")
    found = standing(path)
    assert found is not None
    assert (len(found.machines), found.confirmed) == (1, None)
    path.write_bytes(b"no database at all, whatever its name says")
    assert standing(path) is None
