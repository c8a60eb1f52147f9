"""Does the engine on the threadless connection behave as it does on aiosqlite?"""

import sqlite3
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest
from sqlalchemy import Connection, event, text
from sqlalchemy.exc import IntegrityError, OperationalError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from tests.support.threadless_sqlite import ThreadlessConnection, threadless
from tests.support.virtual_time import run_virtual


def engine_on(path: Path) -> AsyncEngine:
    engine = create_async_engine(f"sqlite+aiosqlite:///{path}", async_creator=threadless(path))

    @event.listens_for(engine.sync_engine, "begin")
    def begin_immediate(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def run_with_engine(path: Path, body: Callable[[AsyncEngine], Awaitable[None]], *, seed: int | None = None) -> None:
    async def main() -> None:
        engine = engine_on(path)
        try:
            async with engine.begin() as connection:
                await connection.execute(text("CREATE TABLE IF NOT EXISTS note (id INTEGER PRIMARY KEY, body TEXT)"))
            await body(engine)
        finally:
            await engine.dispose()

    run_virtual(main, seed=seed)


def bodies(path: Path) -> list[str]:
    with sqlite3.connect(path) as connection:
        rows = [row[0] for row in connection.execute("SELECT body FROM note ORDER BY id")]
    connection.close()
    return rows


def insert(connection: Connection, *notes: str) -> int:
    connection.execute(text("INSERT INTO note (body) VALUES (:body)"), [{"body": note} for note in notes])
    return int(connection.execute(text("SELECT count(*) FROM note")).scalar_one())


def test_a_transaction_function_commits_without_any_thread(tmp_path: Path) -> None:
    threads: set[str] = set()

    async def body(engine: AsyncEngine) -> None:
        async with engine.begin() as connection:
            assert await connection.run_sync(insert, "one", "two") == 2
            threads.update(thread.name for thread in threading.enumerate())

    run_with_engine(tmp_path / "store.db", body)
    assert bodies(tmp_path / "store.db") == ["one", "two"]
    assert not [name for name in threads if "Thread-" in name]


def test_a_failing_transaction_leaves_nothing(tmp_path: Path) -> None:
    async def body(engine: AsyncEngine) -> None:
        with pytest.raises(IntegrityError):
            async with engine.begin() as connection:
                await connection.run_sync(insert, "lost")
                await connection.execute(text("INSERT INTO note (id, body) VALUES (1, 'twice')"))

    run_with_engine(tmp_path / "store.db", body)
    assert bodies(tmp_path / "store.db") == []


def test_a_second_writer_is_refused_from_its_begin_on(tmp_path: Path) -> None:
    async def body(engine: AsyncEngine) -> None:
        async with engine.begin(), engine.connect() as second:
            raw = (await second.get_raw_connection()).driver_connection
            assert isinstance(raw, ThreadlessConnection)
            await raw.execute("PRAGMA busy_timeout = 0")
            with pytest.raises(OperationalError, match="locked"):
                await second.begin()

    run_with_engine(tmp_path / "store.db", body)


def test_rows_stream_in_parts(tmp_path: Path) -> None:
    async def body(engine: AsyncEngine) -> None:
        async with engine.begin() as connection:
            await connection.run_sync(insert, *(f"note {number}" for number in range(250)))
        async with engine.connect() as connection:
            rows = [row.body async for row in await connection.stream(text("SELECT body FROM note ORDER BY id"))]
        assert rows == [f"note {number}" for number in range(250)]

    run_with_engine(tmp_path / "store.db", body)


def test_writers_in_turn_give_the_same_book_for_the_same_seed(tmp_path: Path) -> None:
    def book(name: str, seed: int) -> list[str]:
        async def body(engine: AsyncEngine) -> None:
            turn = anyio.Lock()

            async def write(note: str) -> None:
                async with turn, engine.begin() as connection:
                    await connection.run_sync(insert, note)

            async with anyio.create_task_group() as group:
                for number in range(8):
                    group.start_soon(write, f"note {number}")

        run_with_engine(tmp_path / name, body, seed=seed)
        return bodies(tmp_path / name)

    assert book("a.db", 3) == book("b.db", 3)
    assert len({tuple(book(f"{seed}.db", seed)) for seed in range(10, 16)}) > 1
