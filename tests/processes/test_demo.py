"""Does the demo play its story, and does nothing of it stay?"""

import json
import re
import signal
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx
import pytest

from tests.processes.box import Box
from tests.processes.children import Child, pids_mentioning, until

pytestmark = pytest.mark.process


@asynccontextmanager
async def folder() -> AsyncIterator[Box]:
    """Where the demo puts its own; nothing else runs."""
    with tempfile.TemporaryDirectory(prefix="gpuwarden-") as made:
        world = Box(Path(made))
        try:
            with anyio.fail_after(100):
                yield world
        except BaseException:
            print(world.told())
            raise
        finally:
            with anyio.CancelScope(shield=True):
                await world.close()


async def test_the_script_tells_what_came_out_and_leaves_nothing() -> None:
    async with folder() as world:
        child = world.spawn("demo", "demo", "--script", TMPDIR=str(world.folder))
        assert await child.ended(within=90) == 0, child.text()
        result = json.loads(child.text().splitlines()[-1])
        assert (result["created"], result["stopped"], result["owed"]) == (1, 1, 0)
        assert result["tokens"] > 0
        assert 0 <= result["seconds_after_due"] <= 5
        assert result["setup_seconds"] > 0
        require_nothing_left(world)


async def test_ctrl_c_in_the_middle_of_a_life_ends_all_of_it_in_seconds() -> None:
    async with folder() as world:
        child = world.spawn("demo", "demo", TMPDIR=str(world.folder))
        found = await until(lambda: address_in(child), within=30, what="the address")
        async with anyio.create_task_group() as group:
            group.start_soon(ask, found)
            await until(lambda: "provider: gpuwarden-" in child.text(), within=30, what="a live pod")
            child.signal(signal.SIGINT)
            asked = anyio.current_time()
            assert await child.ended(within=15) == 0, child.text()
            assert anyio.current_time() - asked < 10
        require_nothing_left(world)


async def test_ctrl_c_again_and_again_leaves_no_less_tidied_up() -> None:
    async with folder() as world:
        child = world.spawn("demo", "demo", TMPDIR=str(world.folder))
        await until(lambda: address_in(child), within=30, what="the address")
        for _ in range(4):
            child.signal(signal.SIGINT)
            await anyio.sleep(0.1)
        assert await child.ended(within=15) == 0, child.text()
        require_nothing_left(world)


def address_in(child: Child) -> str | None:
    assert child.running, child.text()
    found = re.search(r"The fixed address is (http://\S+)", child.text())
    return None if found is None else found[1]


async def ask(address: str) -> None:
    body = {"model": "tiny", "messages": [{"role": "user", "content": "hello"}]}
    async with httpx.AsyncClient(timeout=60, trust_env=False) as client:
        try:
            await client.post(f"{address}/chat/completions", json=body)
        except httpx.TransportError:
            return  # cut off by the end


def require_nothing_left(world: Box) -> None:
    assert [path for path in world.folder.iterdir() if path.is_dir()] == []
    assert pids_mentioning(str(world.folder)) == []
