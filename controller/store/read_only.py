"""How is a store read by who must not change it?

Beside whoever has it open, as SQLite lets read. Readers of a log share an index, a file that a full disk has no room
for: then nobody has the store open, and where its log is empty too, the file alone is all of it, and is read as it
stands.
"""

import sqlite3
from pathlib import Path
from typing import Final

NO_INDEX: Final = frozenset(
    {
        "SQLITE_CANTOPEN",
        "SQLITE_FULL",
        "SQLITE_IOERR_SHMMAP",
        "SQLITE_IOERR_SHMOPEN",
        "SQLITE_IOERR_SHMSIZE",
        "SQLITE_READONLY_CANTINIT",
        "SQLITE_READONLY_DIRECTORY",
    }
)
"""What SQLite 3.40 says where it cannot make the index: on a full disk SHMSIZE, seen 2026-11-30."""


def read_only(store: Path, *, wait: float = 5.0) -> sqlite3.Connection:
    """A connection in autocommit mode that changes nothing; it waits up to so many seconds for a lock.

    Raises sqlite3.Error.
    """
    uri = f"{store.absolute().as_uri()}?mode=ro"
    rows = sqlite3.connect(uri, uri=True, timeout=wait, isolation_level=None)
    try:
        rows.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError as problem:
        rows.close()
        if problem.sqlite_errorname not in NO_INDEX or _logged(store):
            raise
        rows = sqlite3.connect(f"{uri}&immutable=1", uri=True, isolation_level=None)
    except sqlite3.Error:
        rows.close()
        raise
    return rows


def _logged(store: Path) -> bool:
    log = store.with_name(store.name + "-wal")
    return log.exists() and log.stat().st_size > 0
