"""Is a copy whole, private and never in another file's place, and is nothing lost by putting one back?"""

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from controller.core.deployment import CreateAnswer
from controller.core.evidence import StopReason
from controller.core.lifecycle import Phase
from controller.store import deployments, restoring
from controller.store.backups import back_up, contents, put_back
from controller.store.errors import StoreDamaged, StoreForeign, StoreInUse, StoreNewer
from controller.store.restoring import Older
from tests.store.samples import HOLDER, POLICY, accept, declare, opened
from tests.support.clocks import NOON, HandClock
from tests.support.stores import IDENTITY

LATER = NOON + timedelta(hours=1)


async def made(folder: Path) -> Path:
    """A store with a machine whose stop is owed, and a copy of it made while it was open."""
    async with opened(folder, HandClock()) as store:
        record = await store.write(accept)
        await store.write(lambda tx: deployments.require_stop(tx, record, StopReason.IDLE))
        back_up(folder / "store.db", folder / "copy")
    return folder / "copy"


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if "lock" not in path.name}


def change(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as rows, rows:
        rows.execute(statement)


async def test_a_copy_made_beside_a_running_daemon_is_one_private_file_that_tells_what_it_holds(tmp_path: Path) -> None:
    copy = await made(tmp_path)
    held = contents(copy)
    assert copy.stat().st_mode & 0o777 == 0o600
    assert [name for name in files(tmp_path) if "copy" in name] == ["copy"]
    assert (held.owner, held.live, held.latest) == ("acme", ("qwen",), NOON)
    assert [(duty.model, duty.due) for duty in held.duties] == [("qwen", True)]


async def test_a_copy_takes_no_other_files_place(tmp_path: Path) -> None:
    copy = await made(tmp_path)
    before = copy.read_bytes()
    with pytest.raises(FileExistsError):
        back_up(tmp_path / "store.db", copy)
    assert copy.read_bytes() == before


async def test_a_copy_that_is_put_back_is_marked_and_the_former_store_kept_whole(tmp_path: Path) -> None:
    copy = await made(tmp_path)
    async with opened(tmp_path, HandClock()) as store:
        await store.write(lambda tx: tx.line("clock.jumped"))
        latest = store.book.seq_latest
    aside = put_back(copy, tmp_path / "store.db", identity=IDENTITY, now=LATER)
    assert aside is not None
    assert contents(aside).seq == latest
    async with opened(tmp_path, HandClock()) as store:
        assert store.book.restored_at == LATER
        assert store.book.seq_latest == contents(copy).seq == latest - 1


async def test_nothing_is_put_back_beside_a_daemon(tmp_path: Path) -> None:
    copy = await made(tmp_path)
    async with opened(tmp_path, HandClock()):
        with pytest.raises(StoreInUse):
            put_back(copy, tmp_path / "store.db", identity=IDENTITY, now=LATER)


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("UPDATE alembic_version SET version_num = '9999'", StoreNewer),
        ("UPDATE meta SET owner = 'other'", StoreForeign),
        ("UPDATE meta SET account = 'other'", StoreForeign),
        ("DELETE FROM meta", StoreDamaged),
    ],
)
async def test_what_is_not_an_older_store_of_ours_is_refused_and_nothing_changed(
    tmp_path: Path, statement: str, error: type[Exception]
) -> None:
    copy = await made(tmp_path)
    change(copy, statement)
    before = files(tmp_path)
    with pytest.raises(error):
        put_back(copy, tmp_path / "store.db", identity=IDENTITY, now=LATER)
    assert files(tmp_path) == before


async def test_a_damaged_copy_is_refused(tmp_path: Path) -> None:
    copy = await made(tmp_path)
    copy.write_bytes(copy.read_bytes()[:9000] + b"\xff" * 30000)
    with pytest.raises(StoreDamaged):
        put_back(copy, tmp_path / "store.db", identity=IDENTITY, now=LATER)


async def test_a_damaged_store_gives_way_to_its_copy_and_is_kept(tmp_path: Path) -> None:
    copy = await made(tmp_path)
    (tmp_path / "store.db").write_bytes(b"no database" * 999)
    aside = put_back(copy, tmp_path / "store.db", identity=IDENTITY, now=LATER)
    assert aside is not None
    assert aside.read_bytes() == b"no database" * 999
    assert contents(tmp_path / "store.db").owner == "acme"


async def test_an_old_copy_is_taken_up_above_all_that_is_told(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        planned = await store.write(declare)
    async with opened(tmp_path, HandClock(LATER)) as store:
        before = store.book
        older = Older(why="told", seq=70, epoch=900)
        await store.write(lambda tx: restoring.take_up(tx, older))
        await store.write(lambda tx: restoring.restore(tx, policy=POLICY, holder=HOLDER))
        assert min(lease.epoch for lease in store.book.leases.values()) > 1_000_900
        assert store.book.seq_latest > 1_000_070 > before.seq_latest
        # It is no proof that the planned create was not sent.
        assert store.book.records[planned.record.id].phase is Phase.UNCERTAIN
        assert store.book.creates[planned.create.request].answer is CreateAnswer.UNKNOWN


async def test_an_epoch_that_somebody_was_seen_to_carry_is_below_the_next_grant(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        store.witness_epoch(500)
        planned = await store.write(declare)
        assert planned.record.epoch > 1_000_500
        store.witness_epoch(3)
        assert (await store.write(lambda tx: tx.next_epoch())) == planned.record.epoch + 1
