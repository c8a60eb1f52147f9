"""Is a machine that no record holds stopped and its duty ended, whatever step of that the daemon is killed at?

OU-1: the duty is committed before the stop, so that `kill -9` between the two leaves an owed stop that the next daemon
sends by itself; a kill before that commit leaves a machine that is found again.
"""

from typing import Any

import pytest

from tests.processes.box import TEST_LIMIT, Box, box
from tests.processes.children import until
from tests.processes.test_crashes_of_stops import MARK, killed, killed_in_it, slow

pytestmark = pytest.mark.process


async def orphan(world: Box) -> str:
    """A pod with all our marks that this store knows nothing of; returns its id."""
    ((installation,),) = world.rows("SELECT installation FROM meta")
    tags = {"OWNER": "acme-test", "INSTALLATION": installation, "EPOCH": "0", "REQUEST": "r0123456789abcdef"}
    body = {"name": "gpuwarden-m1-r0123456789abcdef", "env": {f"GPUWARDEN_{key}": tags[key] for key in tags}}
    return await world.put_pod(body)


def owed(world: Box) -> list[tuple[Any, ...]]:
    return world.rows("SELECT id, reason, stop_attempts FROM obligations WHERE ended_at_ms IS NULL")


async def test_orphan_outlives_no_kill_between_the_record_of_its_duty_and_the_proof_of_its_end() -> None:
    async with box(limit=2 * TEST_LIMIT) as world:
        await world.run_daemon()
        with slow(world, "1", event="INSERT ON obligations"):
            pod = await orphan(world)
            await until(lambda: world.rows("SELECT 1 FROM sightings WHERE times = 2"), within=10, what="sightings")
            await killed_in_it(world, within=15)
        assert (owed(world), world.rows("SELECT id FROM reservations")) == ([], [])

        with slow(world, MARK):  # on record, and the stop is not on its way
            await world.run_daemon()
            await until(lambda: owed(world), within=15, what="the orphan's duty on record")
            await killed_in_it(world)
        ((duty, reason, attempts),) = owed(world)
        assert (reason, attempts, await world.calls("DELETE")) == ("orphan", 0, [])
        assert world.rows("SELECT deployment, hold FROM reservations") == [(duty, "stop-required")]

        await world.fault({"hang": 60}, method="DELETE", path="/v2/pods/*")
        await world.run_daemon()
        assert (await world.status())["owed"] == 1
        assert [one["resource"]["incarnation"] for one in await world.obligations()] == [pod]
        await world.eventually(lambda: _asked(world), within=10, what="the stop, of itself")
        await killed(world)
        await world.clear_faults()

        await world.run_daemon()
        await world.all_ended()
        ended = await world.recorded("obligation.discharged")
        settled = await world.recorded("ledger.settled")
        assert [line["obligation"] for line in ended] == [line["reservation"].partition(".")[0] for line in settled]
        assert [line["obligation"] for line in ended] == [duty]
        assert len(world.lines("orphan.found")) == 1
        await world.require_whole_evidence()


async def _asked(world: Box) -> bool:
    return len(await world.calls("DELETE")) == 1
