"""How does a test get a real store in a moment?

The schema is migrated once a session; each test gets its own copy of that file in its own folder. The file is opened as
the daemon opens it, on aiosqlite or, for tests on virtual time, without threads.
"""

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Final

from controller.clock import MachineClock
from controller.ids import SeededRandomness
from controller.store.migrate import upgrade
from controller.store.store import Store
from tests.support.threadless_sqlite import threadless

OWNER: Final = "acme"
PROVIDER: Final = "runpod"
ACCOUNT: Final = "main"
IDENTITY: Final = (OWNER, PROVIDER, ACCOUNT)


@cache
def template() -> bytes:
    """A migrated store that no daemon has used."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "template.db"
        upgrade(path)
        return path.read_bytes()


async def open_store(
    folder: Path,
    clock: MachineClock,
    *,
    identity: tuple[str, str, str] = IDENTITY,
    seed: int = 0,
    threads: bool = True,
) -> Store:
    """Open `folder`/store.db, made from the template if it is not there. The caller closes it."""
    path = folder / "store.db"
    if not path.exists():
        path.write_bytes(template())
    return await Store.open(
        path,
        identity=identity,
        clock=clock,
        randomness=SeededRandomness(seed),
        creator=None if threads else threadless(path),
    )


def overtake(folder: Path) -> None:
    """Somebody else writes into the file."""
    with closing(sqlite3.connect(folder / "store.db", isolation_level=None)) as other:
        other.execute("UPDATE meta SET epoch_latest = epoch_latest + 1")


@contextmanager
def unwritable(folder: Path) -> Iterator[None]:
    """No transaction that changes anything can be committed meanwhile; reading goes on."""
    with closing(sqlite3.connect(folder / "store.db", isolation_level=None)) as other:
        other.execute("CREATE TRIGGER full BEFORE UPDATE ON meta BEGIN SELECT RAISE(ABORT, 'disk full'); END")
        yield
        other.execute("DROP TRIGGER full")
