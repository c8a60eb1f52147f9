"""Do `backup` and `restore` say what they did, and end with the right code where they may not?"""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from controller.store.database import FileLock, prepare
from tests.cli.conftest import Run


@pytest.fixture
def store(folder: Path) -> Path:
    """As a daemon left it that owes one stop."""
    path = folder / "state" / "gpuwarden.db"
    prepare(path)
    statements = (
        "INSERT INTO meta (id, owner, installation, provider, account, made_at_ms, epoch_latest, account_trusted,"
        " mark_ms) VALUES (1, 'acme-prod-7f3a', 'i1', 'runpod', 'main', 0, 4, 1, 1764417600000)",
        "INSERT INTO obligations (id, opened_at_ms, model, resource, epoch, stop_attempts, version, due_at_ms)"
        ' VALUES (\'o1\', 1, \'qwen\', \'["runpod","main","n","p1"]\', 1, 0, 1, 1)',
    )
    with closing(sqlite3.connect(path)) as rows, rows:
        for statement in statements:
            rows.execute(statement)
    return path


def test_a_backup_says_what_it_holds(run: Run, folder: Path, store: Path) -> None:
    copy = folder / "copy"
    ended = run("backup", str(copy))
    assert (ended.code, copy.stat().st_mode & 0o777) == (0, 0o600)
    assert "acme-prod-7f3a at runpod/main" in ended.out
    assert "o1  qwen" in ended.out
    told = json.loads(run("backup", f"{copy}-2", "--json").out)
    assert (told["schema"], told["holds"]["duties"][0]["id"], told["holds"]["epoch"]) == (1, "o1", 4)


def test_a_backup_overwrites_nothing(run: Run, folder: Path, store: Path) -> None:
    (folder / "copy").write_text("mine")
    ended = run("backup", str(folder / "copy"))
    assert (ended.code, (folder / "copy").read_text()) == (6, "mine")


def test_without_a_store_there_is_nothing_to_back_up(run: Run, folder: Path) -> None:
    assert run("backup", str(folder / "copy")).code == 5


def test_a_restore_puts_the_copy_in_place_and_says_where_the_former_store_is(
    run: Run, folder: Path, store: Path
) -> None:
    run("backup", str(folder / "copy"))
    ended = run("restore", str(folder / "copy"), "--yes", "--json")
    told = json.loads(ended.out)
    assert (ended.code, told["store"], Path(told["former"]).exists()) == (0, str(store), True)
    with closing(sqlite3.connect(store)) as rows:
        assert rows.execute("SELECT restored_at_ms IS NOT NULL FROM meta").fetchone() == (1,)


def test_a_restore_asks_and_without_anybody_to_ask_changes_nothing(run: Run, folder: Path, store: Path) -> None:
    run("backup", str(folder / "copy"))
    before = store.read_bytes()
    ended = run("restore", str(folder / "copy"))
    assert (ended.code, "--yes" in ended.err, store.read_bytes() == before) == (2, True, True)


def test_a_restore_beside_a_daemon_is_refused(run: Run, folder: Path, store: Path) -> None:
    run("backup", str(folder / "copy"))
    lock = FileLock(store)
    lock.take()
    ended = run("restore", str(folder / "copy"), "--yes")
    lock.give_back()
    assert (ended.code, "end the daemon first" in ended.err) == (6, True)


@pytest.mark.parametrize(
    ("statement", "code"),
    [("UPDATE meta SET owner = 'other'", 6), ("UPDATE alembic_version SET version_num = '9999'", 6), (None, 1)],
)
def test_a_restore_of_what_is_not_ours_newer_or_damaged_is_refused(
    run: Run, folder: Path, store: Path, statement: str | None, code: int
) -> None:
    copy = folder / "copy"
    run("backup", str(copy))
    if statement is None:
        copy.write_bytes(b"no database" * 1000)
    else:
        with closing(sqlite3.connect(copy)) as rows, rows:
            rows.execute(statement)
    before = store.read_bytes()
    assert (run("restore", str(copy), "--yes").code, store.read_bytes() == before) == (code, True)


def test_a_restore_of_no_file_or_of_the_store_itself_is_refused(run: Run, folder: Path, store: Path) -> None:
    assert run("restore", str(folder / "none"), "--yes").code == 5
    assert run("restore", str(store), "--yes").code == 2
