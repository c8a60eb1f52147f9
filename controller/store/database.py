"""How is the database file opened, and when is it refused?

One daemon a file (a lock that ends with the process), never a newer schema, never a damaged file. WAL with
`synchronous=FULL`: what was committed survives a power cut. Transactions begin IMMEDIATE, so that a writer waits for
another instead of failing half way.
"""

import asyncio
import errno
import fcntl
import os
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from controller.store.connection import opening
from controller.store.errors import StoreDamaged, StoreInUse, StoreNewer, StoreUnwritable
from controller.store.read_only import read_only
from controller.store.schema import HEAD

BUSY_MS: Final = 5000
PRAGMAS: Final = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",
    "PRAGMA foreign_keys=ON",
    f"PRAGMA busy_timeout={BUSY_MS}",
)

Creator = Callable[..., Awaitable[Any]]
"""Makes the driver's connection: the seam for tests that run without threads."""


class FileLock:
    """Held while a daemon uses the store; the operating system gives it back when the process ends, however it ends."""

    def __init__(self, store: Path) -> None:
        self.store = store
        self._path = store.with_name(store.name + ".lock")
        self._descriptor: int | None = None

    def take(self) -> None:
        """Raises StoreInUse, naming the process that holds it; StoreUnwritable where the file cannot be made."""
        try:
            descriptor = _opened(self._path)
        except OSError as problem:
            raise StoreUnwritable(f"{self._path}: {problem.strerror}") from problem
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as problem:
            holder = os.read(descriptor, 32).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise StoreInUse(self.store, holder or None) from problem
        with suppress(OSError):  # on a full disk the lock is held without a word on who holds it
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()}\n".encode())
        self._descriptor = descriptor

    @property
    def held(self) -> bool:
        """Is it still ours, and still the file that others would try? It may be removed, or lost with its disk."""
        if self._descriptor is None:
            return False
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # what is held is held again
            named, held = self._path.stat(), os.fstat(self._descriptor)
        except OSError:
            return False
        return (named.st_ino, named.st_dev) == (held.st_ino, held.st_dev)

    def give_back(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _opened(path: Path) -> int:
    """A disk that turned read-only after an error still keeps others away from what a daemon used on it before."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as problem:
        if problem.errno != errno.EROFS:
            raise
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def schema_of(path: Path) -> str | None:
    """The migration that the file is at; `None` for a file that is new. Raises StoreDamaged, or StoreUnwritable where
    it is locked or may not be opened. Reads only: a connection that may write brings the log into a file that is not
    ours to change."""
    if not path.exists() or path.stat().st_size == 0:
        return None
    try:
        with closing(read_only(path)) as connection:
            return _checked_schema(connection, path)
    except sqlite3.OperationalError as problem:
        raise StoreUnwritable(f"{path}: {problem}") from problem
    except sqlite3.DatabaseError as problem:
        raise StoreDamaged(path, str(problem)) from problem


def _checked_schema(connection: sqlite3.Connection, path: Path) -> str | None:
    if (problem := connection.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
        raise StoreDamaged(path, problem)
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not tables:
        return None
    versions = []
    if "alembic_version" in tables:
        versions = connection.execute("SELECT version_num FROM alembic_version").fetchall()
    if not versions:
        raise StoreDamaged(path, "it has tables and no schema version")
    return str(versions[0][0])


def prepare(path: Path) -> None:
    """Bring the file to the schema of this code. Raises StoreNewer, StoreDamaged."""
    found = schema_of(path)
    if found == HEAD:
        return
    if found is not None and found > HEAD:
        raise StoreNewer(path, found, HEAD)
    from controller.store.migrate import (
        upgrade,
    )  # half a second of imports, on the one start in a hundred that needs it

    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    upgrade(path)
    path.chmod(0o600)


def open_engine(path: Path, creator: Creator | None = None) -> AsyncEngine:
    """An engine whose transactions begin IMMEDIATE; one connection is all that is ever taken from it."""
    engine = create_async_engine(
        f"sqlite+aiosqlite:///{path}", poolclass=NullPool, async_creator=creator or opening(path)
    )
    event.listen(engine.sync_engine, "connect", _set_pragmas)
    engine.sync_engine.dialect.do_begin = _begin_immediate  # type: ignore[method-assign, assignment]
    return engine


def _set_pragmas(connection: Any, _: object) -> None:
    cursor = connection.cursor()
    for pragma in PRAGMAS:
        cursor.execute(pragma)
    cursor.close()


def _begin_immediate(connection: Any) -> None:
    """By the driver itself: through an event and SQLAlchemy's own statements it took as long as all else of an empty
    transaction. What is raised here SQLAlchemy makes an error of its own, as of every statement."""
    cursor = connection.cursor()
    cursor.execute("BEGIN IMMEDIATE")
    cursor.close()


def end_without_waiting(engine: AsyncEngine, endings: "list[asyncio.Future[Any]]") -> None:
    """A connection that was cut off is ended by its own thread: it finishes what it is at, then closes, and nothing of
    an open transaction is kept. What is to be waited for before the loop ends is added to `endings`.

    SQLAlchemy's own way waits, in a task of its own, for a thread that may have ended meanwhile; that task then never
    ends and keeps the process from exiting (SQLAlchemy 2.1.9 with aiosqlite 0.22.1, seen when a write was cut off).
    """

    def end(connection: Any) -> None:
        ended = connection.driver_connection.stop()
        endings[:] = [former for former in endings if not former.done()] + ([] if ended is None else [ended])

    engine.sync_engine.dialect.do_terminate = end  # type: ignore[method-assign, assignment]
