"""What of a store that this version may not use must still be stopped, and where is that kept meanwhile?

The file itself is read and never written, moved or removed: a newer version, or a backup, goes on with it. What it
holds is copied, as far as both versions know the columns, to a store beside it, named after the last evidence it knew:
the same file leads to the same store again, and one that went on to a new one. Epochs go on far above all it granted.
Nothing readable, nothing copied: a store of its own, which the claim rule alone lets stop anything.
"""

import os
import sqlite3
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path
from typing import Final

from sqlalchemy import create_engine
from sqlalchemy.exc import SQLAlchemyError

from controller.ids import Randomness
from controller.store.database import prepare
from controller.store.load import load
from controller.store.read_only import read_only

EPOCHS_ABOVE: Final = 1_000_000
"""What was granted since this copy was made, by whoever goes on with the file, stays below."""
NEEDED: Final = ("meta", "deployments", "creates", "obligations")
"""In the order in which they refer to each other."""
USEFUL: Final = ("leases", "memories", "container_starts", "sightings", "reservations", "corroborations", "claims")
UNREAD: Final = ".stop-only"

Identity = tuple[str, str, str]


def salvage(store: Path, *, identity: Identity, now: datetime, randomness: Randomness) -> str | None:
    """Make the store beside `store`, or find it; returns what its name has more. `None`: nothing is owed.

    `identity` is owner, provider, account.
    """
    try:
        suffix = f"{UNREAD}-{_last_evidence(store)}"
        beside = store.with_name(store.name + suffix)
        if not beside.exists():
            _copy(store, beside, identity=identity, now=now, randomness=randomness)
        return suffix if _open_duties(beside) else None
    except (sqlite3.Error, SQLAlchemyError, ValueError, LookupError, TypeError):
        return UNREAD


def _last_evidence(store: Path) -> int:
    with closing(read_only(store)) as connection:
        return int(connection.execute("SELECT coalesce(max(seq), 0) FROM evidence").fetchone()[0])


def _open_duties(store: Path) -> int:
    with closing(read_only(store)) as connection:
        return int(connection.execute("SELECT count(*) FROM obligations WHERE ended_at_ms IS NULL").fetchone()[0])


def _copy(store: Path, to: Path, *, identity: Identity, now: datetime, randomness: Randomness) -> None:
    """Under another name until it is whole and can be read as a store."""
    draft = to.with_name(to.name + ".draft")
    draft.unlink(missing_ok=True)
    prepare(draft)
    with closing(sqlite3.connect(draft, uri=True)) as connection, connection:
        connection.execute("ATTACH ? AS old", (f"{store.absolute().as_uri()}?mode=ro",))
        for table in NEEDED:
            _copy_rows(connection, table)
        for table in USEFUL:
            with suppress(sqlite3.Error):
                _copy_rows(connection, table)
        connection.execute("UPDATE meta SET epoch_latest = epoch_latest + ?", (EPOCHS_ABOVE,))
    engine = create_engine(f"sqlite:///{draft}")
    try:
        with engine.begin() as opened:
            owner, provider, account = identity
            load(opened, owner=owner, provider=provider, account=account, now=now, draw=randomness)
    finally:
        engine.dispose()
    os.replace(draft, to)


def _copy_rows(connection: sqlite3.Connection, table: str) -> None:
    ours, theirs = ([row[1] for row in connection.execute(f"PRAGMA {name}.table_info({table})")] for name in _BOTH)
    columns = ", ".join(f'"{name}"' for name in ours if name in theirs)
    connection.execute(f"INSERT INTO main.{table} ({columns}) SELECT {columns} FROM old.{table}")  # noqa: S608 - names are ours


_BOTH: Final = ("main", "old")
