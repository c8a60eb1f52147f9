"""What becomes of a daemon whose store is of a newer version, or damaged, while machines run?

It stops what it owes, on a copy beside the file; of what it cannot read it stops nothing that was not claimed.
"""

import sqlite3
from contextlib import closing

import pytest

from tests.processes.box import box

pytestmark = pytest.mark.process


async def test_beside_a_newer_store_it_stops_what_is_owed_creates_nothing_and_then_refuses_with_78() -> None:
    async with box() as world:
        daemon = await world.run_daemon()
        await world.serving()
        await daemon.kill()
        with closing(sqlite3.connect(world.store)) as connection, connection:
            connection.execute("UPDATE alembic_version SET version_num = '0099'")
        before = world.store.read_bytes()

        daemon = await world.run_daemon()
        status = await world.status()
        assert (status["mode"], status["ready"]) == ("stop-only", False)
        assert "stop-only" in [alarm["name"] for alarm in status["alarms"]]
        assert len(await world.alive()) == 1
        await world.daemon.post("/v1/models/m1/stop", {"now": True})
        await world.all_ended()
        await world.start_model()
        assert len(await world.creates()) == 1
        await daemon.kill()
        assert world.store.read_bytes() == before
        assert (await world.cli("run")).code == 78


async def test_beside_a_damaged_store_a_machine_is_told_and_stopped_only_when_it_is_claimed() -> None:
    async with box() as world:
        daemon = await world.run_daemon()
        await world.serving()
        (pod,) = await world.alive()
        await daemon.kill()
        world.store.write_bytes(b"no database at all, whatever its name says" * 100)

        await world.run_daemon()
        status = await world.status()
        assert (status["mode"], "is damaged" in "".join(status["problems"])) == ("stop-only", True)

        async def alarmed() -> bool:
            return "copied-installation" in [alarm["name"] for alarm in (await world.status())["alarms"]]

        await world.eventually(alarmed, within=10, what="the alarm")
        assert (await world.calls("DELETE"), len(await world.alive())) == ([], 1)
        installation = pod["env"]["GPUWARDEN_INSTALLATION"]
        assert (await world.cli("claim", installation)).code == 0
        assert (await world.cli("stop", "m1", "--now")).code == 0
        assert await world.alive() == []
        assert world.store.read_bytes().startswith(b"no database")
