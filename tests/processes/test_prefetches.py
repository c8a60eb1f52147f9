"""Are volumes filled by one command, and is what fills them stopped, whatever becomes of the daemon meanwhile?"""

import httpx
import pytest
from anyio import create_task_group

from tests.processes.box import Box, box
from tests.processes.commands import Ran

pytestmark = pytest.mark.process

VOLUMES = 'volumes = { "US-TX-3" = "vol1", "US-KS-2" = "vol2" }'


async def configure(world: Box) -> None:
    async with httpx.AsyncClient(trust_env=False) as client:
        for volume, place in (("vol1", "US-TX-3"), ("vol2", "US-KS-2")):
            shown = {"id": volume, "name": volume, "size": 100, "dataCenter": place}
            (await client.post(f"{world.provider}/_emulator/volumes", json=shown)).raise_for_status()
    world.configure(model=VOLUMES)


async def fills(world: Box) -> list[tuple[str, str]]:
    return [(entry["fills"], entry["reason"]) for entry in await world.deployments()]


async def test_one_command_fills_every_volume_and_ends_when_the_end_of_each_machine_is_proven() -> None:
    async with box() as world:
        await configure(world)
        await world.run_daemon()
        ended = await world.cli("prefetch", "m1", "--json", within=40)
        assert ended.code == 0, ended.err
        told = ended.json["prefetch"]
        assert [told[place]["filled"] for place in ("US-TX-3", "US-KS-2")] == [True, True]
        assert sorted(await fills(world)) == [("US-KS-2", "prefetched"), ("US-TX-3", "prefetched")]
        asked = [line["detail"]["offer"] for line in await world.recorded("create.submitted")]
        assert (asked, await world.alive()) == (["NVIDIA L40S @ US-TX-3", "NVIDIA L40S @ US-KS-2"], [])
        await world.require_whole_evidence()


async def test_what_is_under_way_when_the_daemon_is_killed_is_filled_and_stopped_by_the_next() -> None:
    async with box(ready_seconds=6.0) as world:
        await configure(world)
        daemon = await world.run_daemon()
        commands: list[Ran] = []

        async def command() -> None:
            commands.append(await world.cli("prefetch", "m1", "--place", "US-KS-2", within=50))

        async def made() -> bool:
            return len(await world.alive()) == 1

        async with create_task_group() as group:
            group.start_soon(command)
            await world.eventually(made, within=15, what="the machine beside the volume")
            await daemon.kill()
            await world.run_daemon()
        (ended,) = commands
        assert ended.code == 0, ended.err
        assert (await fills(world), len(await world.creates())) == ([("US-KS-2", "prefetched")], 1)
        await world.all_ended()
        await world.require_whole_evidence()


async def test_a_create_that_nobody_heard_the_answer_of_is_found_and_its_machine_stopped() -> None:
    async with box() as world:
        await configure(world)
        await world.fault({"hang": 60, "effect": True}, method="POST", path="/v2/pods")
        daemon = await world.run_daemon()
        ended = await world.cli("prefetch", "m1", "--place", "US-TX-3", "--no-wait")
        assert ended.code == 0, ended.err
        await world.marked()
        await daemon.kill()
        await world.clear_faults()
        await world.run_daemon()

        async def filled() -> bool:
            return await fills(world) == [("US-TX-3", "prefetched")]

        await world.eventually(filled, within=20, what="the volume, filled")
        await world.all_ended()
        assert len(await world.creates()) == 1
