"""Is the file opened safely, and refused where it must not be used?"""

import errno
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text

from controller.store.database import FileLock
from controller.store.errors import StoreDamaged, StoreError, StoreInUse, StoreNewer, StoreUnwritable
from controller.store.migrate import upgrade
from tests.store.samples import declare, opened
from tests.support.clocks import HandClock
from tests.support.stores import open_store


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


async def made(folder: Path) -> Path:
    async with opened(folder, HandClock()):
        pass
    return folder / "store.db"


async def test_a_new_store_makes_its_identity_once(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock(), seed=1) as store:
        installation = store.book.owner.installation
    async with opened(tmp_path, HandClock(), seed=2) as store:
        assert store.book.owner.installation == installation


async def test_what_was_committed_is_there_after_reopening(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        planned = await store.write(declare)
    async with opened(tmp_path, HandClock()) as store:
        assert store.book.records == {planned.record.id: planned.record}


async def test_a_missing_file_is_migrated_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "state" / "store.db"
    path.parent.mkdir()
    upgrade(path)
    async with opened(path.parent, HandClock()) as store:
        assert store.book.epoch_latest == 0


async def test_an_empty_file_is_a_new_store_with_mode_0600(tmp_path: Path) -> None:
    (tmp_path / "store.db").touch(mode=0o644)
    path = await made(tmp_path)
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("threads", [True, False])
async def test_write_ahead_log_full_sync_and_foreign_keys_are_really_set(tmp_path: Path, threads: bool) -> None:
    asked = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
    async with opened(tmp_path, HandClock(), threads=threads) as store:
        found = [await store.read(lambda sql, p=p: sql.execute(text(f"PRAGMA {p}")).scalar_one()) for p in asked]  # type: ignore[misc]
    assert found == ["wal", 2, 1, 5000]


async def test_a_second_daemon_is_refused_with_the_first_one_s_process_number(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()):
        with pytest.raises(StoreInUse, match=f"by process {os.getpid()}:"):
            await open_store(tmp_path, HandClock())


async def test_a_refused_second_daemon_does_not_take_the_file_from_the_first(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()):
        for _ in range(2):
            with pytest.raises(StoreInUse):
                await open_store(tmp_path, HandClock())


@pytest.mark.process
def test_a_daemon_that_was_killed_leaves_no_lock_behind(tmp_path: Path) -> None:
    hold = (
        "import sys, pathlib; from controller.store.database import FileLock;"
        "FileLock(pathlib.Path(sys.argv[1])).take(); print('held', flush=True); sys.stdin.read()"
    )
    path = tmp_path / "store.db"
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(StoreInUse, match=f"by process {holder.pid}:"):
            FileLock(path).take()
        holder.kill()
    mine = FileLock(path)
    mine.take()
    mine.give_back()


async def test_a_newer_schema_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = await made(tmp_path)
    change(path, "UPDATE alembic_version SET version_num = '9999'")
    before = path.read_bytes()
    with pytest.raises(StoreNewer, match="schema 9999, this version knows "):
        await open_store(tmp_path, HandClock())
    assert path.read_bytes() == before


async def test_a_log_that_a_crash_left_beside_a_newer_schema_is_not_brought_into_the_file(tmp_path: Path) -> None:
    path = await made(tmp_path)
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.commit()
        for name in ("store.db", "store.db-wal"):
            shutil.copy(tmp_path / name, crashed / name)
    before = (crashed / "store.db").read_bytes()
    with pytest.raises(StoreNewer):
        await open_store(crashed, HandClock())
    assert (crashed / "store.db").read_bytes() == before


async def test_garbage_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_bytes(b"not a database, by any means" * 400)
    with pytest.raises(StoreDamaged, match="not a database"):
        await open_store(tmp_path, HandClock())


async def test_a_truncated_file_is_damaged(tmp_path: Path) -> None:
    path = await made(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(StoreDamaged):
        await open_store(tmp_path, HandClock())


async def test_an_overwritten_page_is_damaged(tmp_path: Path) -> None:
    path = await made(tmp_path)
    whole = bytearray(path.read_bytes())
    whole[4096 : 2 * 4096] = b"\xff" * 4096
    path.write_bytes(whole)
    with pytest.raises(StoreDamaged):
        await open_store(tmp_path, HandClock())


@pytest.mark.parametrize("statement", ["DROP TABLE alembic_version", "DELETE FROM alembic_version"])
async def test_tables_without_a_schema_version_are_damaged(tmp_path: Path, statement: str) -> None:
    change(await made(tmp_path), statement)
    with pytest.raises(StoreDamaged, match="no schema version"):
        await open_store(tmp_path, HandClock())


async def test_a_word_that_no_rule_knows_is_damaged(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        await store.write(declare)
    change(tmp_path / "store.db", "UPDATE deployments SET reason = 'boredom'")
    with pytest.raises(StoreDamaged, match="boredom"):
        await open_store(tmp_path, HandClock())


async def test_a_file_that_another_program_has_locked_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = await made(tmp_path)
    change(path, "PRAGMA journal_mode=DELETE")
    real = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda at, **how: real(at, **how | {"timeout": 0}))
    with closing(real(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreUnwritable, match="locked"):
            await open_store(tmp_path, HandClock())


@pytest.mark.parametrize(
    "identity", [("other", "runpod", "main"), ("acme", "verda", "main"), ("acme", "runpod", "second")]
)
async def test_another_owner_s_or_account_s_store_is_refused(tmp_path: Path, identity: tuple[str, str, str]) -> None:
    await made(tmp_path)
    with pytest.raises(StoreError, match="this store belongs to acme at runpod/main"):
        await open_store(tmp_path, HandClock(), identity=identity)


async def test_after_any_refusal_the_file_is_free_again(tmp_path: Path) -> None:
    await made(tmp_path)
    with pytest.raises(StoreError):
        await open_store(tmp_path, HandClock(), identity=("other", "runpod", "main"))
    async with opened(tmp_path, HandClock()) as store:
        assert store.book.owner.name == "acme"


def test_the_copy_made_before_an_upgrade_holds_what_only_the_log_had(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    upgrade(path)
    with closing(sqlite3.connect(path)) as crashed, crashed:
        crashed.execute("PRAGMA journal_mode=WAL")
        crashed.execute("INSERT INTO claims VALUES ('i0', 1)")
        crashed.commit()
        upgrade(path)
    with closing(sqlite3.connect(tmp_path / "store.db.before-upgrade")) as copy:
        assert copy.execute("SELECT installation FROM claims").fetchall() == [("i0",)]


def test_on_a_disk_that_turned_read_only_the_lock_is_taken_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that cannot begin there stops nothing of what is owed."""
    path, opening = tmp_path / "store.db", os.open

    def read_only(name: Path, flags: int, *mode: int) -> int:
        if flags & (os.O_RDWR | os.O_WRONLY | os.O_CREAT):
            raise OSError(errno.EROFS, "Read-only file system")
        return opening(name, flags, *mode)

    former = FileLock(path)
    former.take()
    former.give_back()
    monkeypatch.setattr(os, "open", read_only)
    mine = FileLock(path)
    mine.take()
    assert mine.held
    with pytest.raises(StoreInUse):
        FileLock(path).take()
    mine.give_back()
    (tmp_path / "store.db.lock").unlink()
    with pytest.raises(StoreUnwritable):
        FileLock(path).take()
