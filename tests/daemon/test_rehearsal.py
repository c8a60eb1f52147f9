"""Does the play of a start leave no trace?"""

import sqlite3
from contextlib import closing
from pathlib import Path

from controller.daemon.built import Daemon, Mode
from controller.daemon.rehearsal import rehearse
from tests.scenarios.world import World, scenario


def _rows(path: Path) -> dict[str, list[object]]:
    with closing(sqlite3.connect(path)) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {table: connection.execute(f"SELECT * FROM {table}").fetchall() for table in tables}


async def _played(world: World, daemon: Daemon) -> int:
    """Rehearse; returns how often readers were rung."""
    book, rows = daemon.store.book, _rows(world.state / "gpuwarden.db")
    rings: list[None] = []
    daemon.store.on_change(lambda: rings.append(None))
    await rehearse(daemon)
    assert daemon.store.book is book
    assert _rows(world.state / "gpuwarden.db") == rows
    return len(rings)


def test_nothing_of_it_is_kept_and_nobody_sees_it() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.daemon() as daemon:
            await world.at(100)
            assert await _played(world, daemon) == 0
            assert world.creates() == []

    scenario(play)


def test_it_reaches_the_end_of_the_play() -> None:
    seen: list[str] = []

    async def play(world: World) -> None:
        world.configure("m1")
        async with world.daemon() as daemon:
            await world.at(100)
            connection = await daemon.store._connected()
            raw = (await connection.get_raw_connection()).driver_connection
            assert raw is not None
            raw._connection.set_trace_callback(seen.append)
            await rehearse(daemon)
            raw._connection.set_trace_callback(None)

    scenario(play)
    assert any(statement.startswith("INSERT INTO evidence") and "deployment.phase" in statement for statement in seen)
    assert seen[-1] == "ROLLBACK"


def test_a_daemon_that_only_stops_plays_nothing() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.daemon(mode=Mode(stop_only=True)) as daemon:
            await world.at(100)
            assert await _played(world, daemon) == 0

    scenario(play)
