"""Is each statement one trip to the driver's thread, and is what comes back what aiosqlite would say?"""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiosqlite
import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError, OperationalError
from sqlalchemy.ext.asyncio import AsyncEngine

from controller.store.connection import OneTripConnection, OneTripCursor, opening
from controller.store.database import open_engine

pytestmark = pytest.mark.anyio


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[AsyncEngine]:
    made = open_engine(tmp_path / "some.db")
    try:
        async with made.begin() as connection:
            await connection.execute(text("CREATE TABLE note (id INTEGER PRIMARY KEY, body TEXT UNIQUE)"))
        yield made
    finally:
        await made.dispose()


@pytest.fixture
def trips(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    made: list[str] = []
    real: Any = aiosqlite.Connection._execute

    async def counted(self: aiosqlite.Connection, act: object, *args: object, **options: object) -> object:
        made.append(getattr(act, "__qualname__", str(act)))
        return await real(self, act, *args, **options)

    monkeypatch.setattr(aiosqlite.Connection, "_execute", counted)
    return made


async def test_a_transaction_is_one_trip_for_each_of_its_statements_and_one_for_its_end(
    engine: AsyncEngine, trips: list[str]
) -> None:
    async with engine.connect() as connection:
        trips.clear()  # those of opening it
        async with connection.begin():
            await connection.execute(text("INSERT INTO note (body) VALUES ('one')"))
            await connection.execute(text("INSERT INTO note (body) VALUES (:body)"), [{"body": "two"}, {"body": "six"}])
            rows = (await connection.execute(text("SELECT id, body FROM note ORDER BY id"))).all()
            assert [tuple(row) for row in rows] == [(1, "one"), (2, "two"), (3, "six")]
        assert len(trips) == 5  # BEGIN, three statements, COMMIT


async def test_what_a_statement_came_to_is_told(engine: AsyncEngine) -> None:
    async with engine.begin() as connection:
        first = await connection.execute(text("INSERT INTO note (body) VALUES ('one')"))
        assert (first.rowcount, first.lastrowid) == (1, 1)
        await connection.execute(text("INSERT INTO note (body) VALUES (:body)"), [{"body": "two"}, {"body": "six"}])
        assert (await connection.execute(text("UPDATE note SET body = body || '!'"))).rowcount == 3
        found = await connection.execute(text("SELECT body FROM note WHERE id > 7"))
        assert (list(found.keys()), found.all()) == (["body"], [])


async def test_what_fails_in_the_thread_is_raised_and_nothing_of_its_transaction_is_kept(engine: AsyncEngine) -> None:
    with pytest.raises(IntegrityError, match="UNIQUE"):
        async with engine.begin() as connection:
            await connection.execute(text("INSERT INTO note (body) VALUES ('one')"))
            await connection.execute(text("INSERT INTO note (body) VALUES ('one')"))
    async with engine.begin() as connection:
        assert (await connection.execute(text("SELECT count(*) FROM note"))).scalar_one() == 0


async def test_rows_are_handed_out_once(tmp_path: Path) -> None:
    connection = await opening(tmp_path / "some.db")()
    assert isinstance(connection, OneTripConnection)
    cursor: OneTripCursor = connection.cursor()
    await cursor.execute("SELECT 1 UNION SELECT 2")
    assert (list(await cursor.fetchall()), list(await cursor.fetchall())) == ([(1,), (2,)], [])
    await connection.close()


async def test_a_connection_that_was_stopped_says_so(engine: AsyncEngine) -> None:
    with pytest.raises(OperationalError, match="closed"):
        async with engine.connect() as connection:
            raw = await connection.get_raw_connection()
            driver = raw.driver_connection
            assert isinstance(driver, aiosqlite.Connection)
            ended = driver.stop()
            assert ended is not None
            await ended
            await connection.execute(text("SELECT 1"))
