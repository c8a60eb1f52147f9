"""How does a statement reach the driver's thread and come back, once?

aiosqlite makes a cursor, executes, fetches and closes by four trips to its thread, and each may find the interpreter
taken by other work for milliseconds. This connection is aiosqlite's, with a cursor that does all four in one. Rows are
fetched whole, as SQLAlchemy's own cursor does next anyway.
"""

import sqlite3
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import aiosqlite

Parameters = Sequence[Any] | dict[str, Any]
ROWS_AT_ONCE: Final = 64
"""Of an iteration over a cursor, which nothing here does; aiosqlite's own default."""


class _Told(NamedTuple):
    """What one statement came to."""

    description: Any = None
    rows: Sequence[Any] = ()
    rowcount: int = -1
    lastrowid: int | None = None


class OneTripCursor:
    """In aiosqlite's shape, as far as SQLAlchemy uses it."""

    def __init__(self, connection: "OneTripConnection") -> None:
        self._connection = connection
        self._told = _Told()
        self.arraysize = 1

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Its cursor was closed where its rows were fetched."""

    async def execute(self, sql: str, parameters: Parameters = ()) -> Self:
        self._told = await self._connection.told(lambda cursor: cursor.execute(sql, parameters))
        return self

    async def executemany(self, sql: str, parameters: Iterable[Parameters]) -> Self:
        self._told = await self._connection.told(lambda cursor: cursor.executemany(sql, parameters))
        return self

    async def fetchall(self) -> Sequence[Any]:
        rows, self._told = self._told.rows, self._told._replace(rows=())
        return rows

    async def close(self) -> None:
        """Its cursor was closed where its rows were fetched."""

    @property
    def description(self) -> Any:
        return self._told.description

    @property
    def rowcount(self) -> int:
        return self._told.rowcount

    @property
    def lastrowid(self) -> int | None:
        return self._told.lastrowid


class OneTripConnection(aiosqlite.Connection):
    """Each statement is one entry in the thread's queue. What aiosqlite raises, this raises."""

    def cursor(self) -> OneTripCursor:  # type: ignore[override]  # SQLAlchemy enters it, and awaits nothing
        return OneTripCursor(self)

    async def told(self, act: Callable[[sqlite3.Cursor], sqlite3.Cursor]) -> _Told:
        def run() -> _Told:
            cursor = self._conn.cursor()
            try:
                act(cursor)
                rows = () if cursor.description is None else cursor.fetchall()
                return _Told(cursor.description, rows, cursor.rowcount, cursor.lastrowid)
            finally:
                cursor.close()

        told: _Told = await self._execute(run)  # type: ignore[no-untyped-call]  # its author's own cursor calls it
        return told


def opening(path: Path) -> Callable[..., Awaitable[aiosqlite.Connection]]:
    """A creator for the engine: in autocommit mode, since the engine says BEGIN IMMEDIATE itself."""

    def open_one(*_: Any, **__: Any) -> Awaitable[aiosqlite.Connection]:
        made = OneTripConnection(lambda: sqlite3.connect(path, isolation_level=None), ROWS_AT_ONCE)
        made._thread.daemon = True  # as SQLAlchemy has it: a thread that hangs on a disk keeps no process from ending
        return made

    return open_one
