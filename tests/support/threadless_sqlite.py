"""How does SQLAlchemy's async engine run on SQLite without a thread?

aiosqlite gives each connection a thread; when its answers arrive is up to the machine, so no run could be repeated.
This connection has aiosqlite's shape and does its work on the loop itself. It yields to the loop once when it opens and
once before each commit: these are the points where another task can get in between, as it can with the real one.

Hand `threadless(path)` to `create_async_engine(..., async_creator=...)`. The engine's own connect arguments do not
reach a creator, so autocommit mode is set here; the engine says BEGIN IMMEDIATE itself, as in production.
"""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from pathlib import Path
from typing import Any, Self

from tests.support import statements  # noqa: F401 - whoever opens many stores compiles nothing twice

Parameters = Sequence[Any] | dict[str, Any]


class ThreadlessCursor:
    def __init__(self, cursor: sqlite3.Cursor) -> None:
        self._cursor = cursor

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._cursor.close()

    async def execute(self, sql: str, parameters: Parameters = ()) -> Self:
        self._cursor.execute(sql, parameters)
        return self

    async def executemany(self, sql: str, parameters: Iterable[Parameters]) -> Self:
        self._cursor.executemany(sql, parameters)
        return self

    async def fetchone(self) -> Any:
        return self._cursor.fetchone()

    async def fetchmany(self, size: int | None = None) -> list[Any]:
        return self._cursor.fetchmany(self.arraysize if size is None else size)

    async def fetchall(self) -> list[Any]:
        return self._cursor.fetchall()

    async def close(self) -> None:
        self._cursor.close()

    @property
    def description(self) -> Any:
        return self._cursor.description

    @property
    def lastrowid(self) -> int | None:
        return self._cursor.lastrowid

    @property
    def rowcount(self) -> int:
        return self._cursor.rowcount

    @property
    def arraysize(self) -> int:
        return self._cursor.arraysize

    @arraysize.setter
    def arraysize(self, value: int) -> None:
        self._cursor.arraysize = value


class ThreadlessConnection:
    """`_connection` is None once closed: SQLAlchemy looks at it, under this name, before a commit or rollback."""

    def __init__(self, path: Path | str) -> None:
        self._connection: sqlite3.Connection | None = sqlite3.connect(
            path, isolation_level=None, check_same_thread=False
        )

    def __await__(self) -> Generator[Any, Any, Self]:
        yield from asyncio.sleep(0).__await__()
        return self

    @property
    def _conn(self) -> sqlite3.Connection:
        if self._connection is None:
            raise ValueError("Connection closed")  # aiosqlite's words: SQLAlchemy compares them
        return self._connection

    @property
    def isolation_level(self) -> str | None:
        return self._conn.isolation_level

    def cursor(self) -> ThreadlessCursor:
        return ThreadlessCursor(self._conn.cursor())

    async def execute(self, sql: str, parameters: Parameters = ()) -> ThreadlessCursor:
        return ThreadlessCursor(self._conn.execute(sql, parameters))

    async def commit(self) -> None:
        await asyncio.sleep(0)
        self._conn.commit()

    async def rollback(self) -> None:
        self._conn.rollback()

    async def create_function(
        self, name: str, args: int, func: Callable[..., Any], deterministic: bool = False
    ) -> None:
        self._conn.create_function(name, args, func, deterministic=deterministic)

    async def close(self) -> None:
        self.stop()

    def stop(self) -> None:
        """Closes at once, without a loop; a crash in a simulation uses it too."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def threadless(path: Path | str) -> Callable[[], Awaitable[ThreadlessConnection]]:
    """A connection factory in the shape `async_creator` wants."""

    def connect() -> Awaitable[ThreadlessConnection]:
        return ThreadlessConnection(path)

    return connect
