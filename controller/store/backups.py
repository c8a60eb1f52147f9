"""How is a copy of the store made, and how does one become the store again?

A copy is made by SQLite itself, from one consistent moment, while the daemon goes on writing. Putting one back needs
the daemon's file lock. The copy is checked, brought to today's schema and marked as restored under another name; then
the present store gets a second name, and one rename puts the copy in its place: at every moment there is one whole
store, and nothing is ever deleted.
"""

import os
import shutil
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from controller.clock import from_ms, to_ms
from controller.store.database import FileLock, schema_of
from controller.store.errors import StoreDamaged, StoreForeign, StoreNewer
from controller.store.read_only import read_only
from controller.store.schema import HEAD

SIDES = ("-wal", "-shm")


@dataclass(frozen=True, slots=True, kw_only=True)
class Duty:
    """An open obligation in a copy."""

    id: str
    model: str | None
    resource: str | None
    """Its key, as it is stored."""
    due: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What a store holds, as far as it matters to whoever keeps or restores it."""

    owner: str
    provider: str
    account: str
    installation: str
    schema: str
    latest: datetime | None
    """The latest instant that it has witnessed: how old a copy is."""
    seq: int
    epoch: int
    live: tuple[str, ...]
    """Models with a deployment."""
    duties: tuple[Duty, ...]


def contents(path: Path) -> Contents:
    """Check the file whole and read it. Raises StoreDamaged, StoreNewer, StoreUnwritable."""
    found = schema_of(path)
    if found is None:
        raise StoreDamaged(path, "it holds nothing")
    if found > HEAD:
        raise StoreNewer(path, found, HEAD)
    try:
        with closing(read_only(path)) as rows:
            _require_whole(rows, path)
            return _contents(rows, path, found)
    except sqlite3.DatabaseError as problem:
        raise StoreDamaged(path, str(problem)) from problem


def _require_whole(rows: sqlite3.Connection, path: Path) -> None:
    (problem,) = rows.execute("PRAGMA integrity_check(1)").fetchone()
    if problem != "ok":
        raise StoreDamaged(path, problem)


def _contents(rows: sqlite3.Connection, path: Path, schema: str) -> Contents:
    identity = rows.execute("SELECT owner, provider, account, installation, mark_ms, epoch_latest FROM meta").fetchone()
    if identity is None:
        raise StoreDamaged(path, "no daemon ever used it")
    owner, provider, account, installation, mark_ms, epoch = identity
    seq, at_ms = rows.execute("SELECT coalesce(max(seq), 0), max(at_ms) FROM evidence").fetchone()
    witnessed = [ms for ms in (mark_ms, at_ms) if ms is not None]
    live = rows.execute(
        "SELECT DISTINCT model FROM deployments WHERE phase NOT IN ('stopped', 'cancelled', 'disowned') ORDER BY model"
    )
    duties = rows.execute(
        "SELECT id, model, resource, due_at_ms IS NOT NULL FROM obligations WHERE ended_at_ms IS NULL"
        " ORDER BY opened_at_ms, id"
    )
    return Contents(
        owner=owner,
        provider=provider,
        account=account,
        installation=installation,
        schema=schema,
        latest=from_ms(max(witnessed)) if witnessed else None,
        seq=seq,
        epoch=epoch,
        live=tuple(model for (model,) in live),
        duties=tuple(Duty(id=row[0], model=row[1], resource=row[2], due=bool(row[3])) for row in duties),
    )


def back_up(store: Path, to: Path) -> Contents:
    """Write a whole copy, 0600 and on the disk when this returns. Raises FileExistsError, StoreError, OSError."""
    if os.path.lexists(to):
        raise FileExistsError(to)
    part = to.with_name(f".{to.name}.part-{os.getpid()}")
    try:
        _copy(store, part)
        held = contents(part)
        os.link(part, to)  # unlike a rename it never takes another file's place
        _sync_folder(to.parent)
    finally:
        part.unlink(missing_ok=True)
    return held


def _copy(store: Path, to: Path) -> None:
    """One file without a journal beside it."""
    os.close(os.open(to, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    try:
        with closing(read_only(store)) as source, closing(sqlite3.connect(to, isolation_level=None)) as copy:
            source.backup(copy)
            copy.execute("PRAGMA journal_mode=DELETE")
    except sqlite3.DatabaseError as problem:
        raise StoreDamaged(store, str(problem)) from problem
    _sync(to)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_sync_folder = _sync


def require_ours(copy: Path, held: Contents, *, identity: tuple[str, str, str]) -> None:
    """Raises StoreForeign unless it is this owner's at this provider and account."""
    if (held.owner, held.provider, held.account) != identity:
        raise StoreForeign(copy, f"{held.owner} at {held.provider}/{held.account}")


def put_back(copy: Path, store: Path, *, identity: tuple[str, str, str], now: datetime) -> Path | None:
    """Make the copy the store; returns where the present one is now, `None` if there was none.

    Raises StoreInUse while a daemon runs, StoreForeign, StoreError as `contents` does, OSError.
    """
    store.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file_lock = FileLock(store)
    file_lock.take()
    part = store.with_name(f"{store.name}.part-{os.getpid()}")
    try:
        require_ours(copy, contents(copy), identity=identity)
        _copy(copy, part)
        _mark(part, now)
        _belong(part, store)
        aside = _step_aside(store, now)
        os.replace(part, store)
        _sync_folder(store.parent)
    finally:
        part.unlink(missing_ok=True)
        part.with_name(f"{part.name}.before-upgrade").unlink(missing_ok=True)
        file_lock.give_back()
    return aside


def _mark(part: Path, now: datetime) -> None:
    from controller.store.migrate import upgrade  # as in `prepare`: not every command has to wait for it

    if schema_of(part) != HEAD:
        upgrade(part)
    with closing(sqlite3.connect(part, isolation_level=None)) as rows:
        # What an operator said of a config was for a start back then.
        rows.execute(
            "UPDATE meta SET restored_at_ms = ?, confirmed_config = NULL, confirmed_at_ms = NULL", (to_ms(now),)
        )
        rows.execute("PRAGMA journal_mode=DELETE")
    _sync(part)


def _belong(part: Path, store: Path) -> None:
    """Root restores for the daemon's user, who has to read it."""
    like = (store if store.exists() else store.parent).stat()
    if (like.st_uid, like.st_gid) != (os.geteuid(), os.getegid()) and os.geteuid() == 0:
        os.chown(part, like.st_uid, like.st_gid)
        with suppress(FileNotFoundError):  # the lock, if it is new, is the daemon's too
            os.chown(store.with_name(f"{store.name}.lock"), like.st_uid, like.st_gid)


def _step_aside(store: Path, now: datetime) -> Path | None:
    """Give the present store a second name, with what its journal holds."""
    if not store.exists():
        return None
    with suppress(sqlite3.DatabaseError), closing(sqlite3.connect(store, isolation_level=None)) as rows:
        rows.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    aside = _free(store, now)
    present = [side for side in SIDES if store.with_name(store.name + side).exists()]
    for side in ("", *present):
        _name_also(store.with_name(store.name + side), aside.with_name(aside.name + side))
    _sync_folder(store.parent)
    for side in present:  # a damaged store's: beside the copy it would be played into it
        store.with_name(store.name + side).unlink(missing_ok=True)
    return aside


def _free(store: Path, now: datetime) -> Path:
    stem = f"{store.name}.before-restore-{now:%Y%m%dT%H%M%SZ}"
    names = [stem, *(f"{stem}-{number}" for number in range(2, 100))]
    return next(path for path in map(store.with_name, names) if not os.path.lexists(path))


def _name_also(path: Path, other: Path) -> None:
    try:
        os.link(path, other)
    except FileExistsError:
        raise
    except OSError:  # a file system without second names
        shutil.copy2(path, other)
        _sync(other)
