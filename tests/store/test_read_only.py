"""Is a store read, and not changed, also where the index of its log cannot be made?"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from controller.store.read_only import read_only
from tests.support.stores import template

COUNT = "SELECT count(*) FROM alembic_version"


@contextmanager
def without_an_index(store: Path) -> Iterator[None]:
    """A full disk has no room for it, which SQLite calls IOERR_SHMSIZE; what lies in its place here, CANTOPEN."""
    index = store.with_name(store.name + "-shm")
    index.symlink_to(index.with_name("nowhere") / "index")
    yield
    index.unlink()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "store.db"
    path.write_bytes(template())
    with closing(sqlite3.connect(path, isolation_level=None)) as rows:
        rows.execute("PRAGMA journal_mode=WAL")
        rows.execute("CREATE TABLE marks (mark)")
    return path


def test_nothing_is_changed(store: Path) -> None:
    with closing(read_only(store)) as rows, pytest.raises(sqlite3.OperationalError, match="readonly"):
        rows.execute("INSERT INTO marks VALUES (1)")


def test_what_another_has_written_and_keeps_in_the_log_is_read(store: Path) -> None:
    with closing(sqlite3.connect(store, isolation_level=None)) as other, closing(read_only(store)) as rows:
        other.execute("INSERT INTO marks VALUES (1)")
        assert rows.execute("SELECT count(*) FROM marks").fetchone() == (1,)


def test_a_file_with_an_empty_log_is_read_as_it_stands_where_no_index_can_be_made(store: Path) -> None:
    before = store.read_bytes()
    with without_an_index(store):
        with closing(sqlite3.connect(store)) as plain, pytest.raises(sqlite3.OperationalError):
            plain.execute(COUNT)
        with closing(read_only(store)) as rows:
            assert rows.execute(COUNT).fetchone() == (1,)
    assert store.read_bytes() == before


def test_what_stands_in_a_log_is_not_left_out(store: Path) -> None:
    """The file alone would be what was before."""
    store.with_name(store.name + "-wal").write_bytes(b"frames")
    with without_an_index(store), pytest.raises(sqlite3.OperationalError):
        read_only(store)


def test_a_lock_is_no_missing_index(store: Path) -> None:
    with closing(sqlite3.connect(store, isolation_level=None)) as other:
        other.execute("PRAGMA journal_mode=DELETE")
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            read_only(store, wait=0)


def test_where_there_is_no_file_none_is_made(tmp_path: Path) -> None:
    with pytest.raises(sqlite3.OperationalError):
        read_only(tmp_path / "store.db")
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_something_else_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_bytes(b"none" * 1000)
    with pytest.raises(sqlite3.DatabaseError, match="not a database"):
        read_only(tmp_path / "store.db")
