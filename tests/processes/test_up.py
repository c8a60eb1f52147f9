"""How does `up` end, with a machine alive?"""

import os
import re
import signal
from contextlib import suppress

import anyio
import httpx
import pytest

from tests.processes.box import Box, box
from tests.processes.children import Child, parent_of, pids_mentioning, until

pytestmark = pytest.mark.process


async def up(world: Box, *words: str) -> Child:
    """Both up, and a machine that serves."""
    child = world.spawn("up", "up", *words, "--config", str(world.config))

    async def serving() -> bool:
        assert child.running, child.text()
        return "serving at" in child.text()

    await world.eventually(serving, within=20, what="both up")
    await world.serving()
    return child


def children_of(child: Child) -> list[int]:
    """Their ids, the daemon's first."""
    return sorted(pid for pid in pids_mentioning("runpy.run_module") if parent_of(pid) == child.pid)


async def test_ctrl_c_stops_the_machine_waits_for_the_proof_and_starts_nothing_for_who_asks_on() -> None:
    async with box() as world:
        child = await up(world)
        async with anyio.create_task_group() as group:
            group.start_soon(ask_on, world)
            child.signal(signal.SIGINT)
            assert await child.ended(within=40) == 0, child.text()
            group.cancel_scope.cancel()
        assert "nothing is owed" in child.text()
        assert await world.alive() == [] and len(await world.creates()) == 1
        assert world.open_duties() == []
        assert pids_mentioning(str(world.config)) == []


async def ask_on(world: Box) -> None:
    """A caller that does not give up."""
    body = {"model": "m1", "max_tokens": 2, "messages": [{"role": "user", "content": "count"}]}
    async with httpx.AsyncClient(timeout=10, trust_env=False) as client:
        while True:
            with suppress(httpx.TransportError):
                await client.post(f"{world.address}/chat/completions", json=body)
            await anyio.sleep(0.02)


async def test_ctrl_c_waits_for_a_daemon_that_cannot_write_for_a_while() -> None:
    async with box() as world:
        child = await up(world)
        with world.write_lock():
            child.signal(signal.SIGINT)
            await until(lambda: "does not answer" in child.text(), within=20, what="word of the daemon's trouble")
        assert await child.ended(within=40) == 0, child.text()
        assert await world.alive() == []


async def test_leave_keeps_the_machine_and_says_what_bills() -> None:
    async with box() as world:
        child = await up(world, "--leave")
        child.signal(signal.SIGINT)
        assert await child.ended(within=30) == 0, child.text()
        assert re.search(r"left running and billing: m1 at [0-9.]+ USD an hour", child.text())
        assert len(await world.alive()) == 1 and len(world.open_duties()) == 1
        assert pids_mentioning(str(world.config)) == []


@pytest.mark.parametrize("which", [0, 1])
async def test_a_child_that_dies_ends_the_other_and_keeps_the_machine(which: int) -> None:
    async with box() as world:
        child = await up(world)
        pids = children_of(child)
        assert len(pids) == 2
        os.kill(pids[which], signal.SIGKILL)
        assert await child.ended(within=30) not in (0, None), child.text()
        assert pids_mentioning(str(world.config)) == []
        assert len(await world.alive()) == 1 and len(world.open_duties()) == 1


async def test_a_bad_config_ends_it_with_78_and_starts_nothing() -> None:
    async with box() as world:
        world.break_config()
        ran = await world.cli("up")
        assert (ran.code, "usd_per_day = -1" in ran.err) == (78, True)
        assert (await world.truth())["calls"] == []
