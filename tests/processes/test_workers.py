"""Do several workers at one address serve on when one is killed, and end as one gateway does?"""

import os
import re
import signal
from pathlib import Path

import anyio
import httpx
import pytest

from tests.processes.box import Box, box
from tests.processes.children import Child, until
from tests.processes.notifications import notify_socket
from tests.processes.test_restarts import WORDS, Stream

pytestmark = pytest.mark.process

STREAMS = 12


async def run_workers(world: Box, count: int = 2) -> Child:
    """Until systemd would take it for ready."""
    with notify_socket(world.folder / "gateway-notify.sock") as told:
        words = ("gateway", "--config", str(world.config), "--workers", str(count))
        child = world.fork("gateway", *words, NOTIFY_SOCKET=told.name)
        await until(lambda: told.said("READY=1") or not child.running, within=20, what="READY")
    assert child.running, child.text()
    return child


def workers_of(parent: Child) -> list[int]:
    return [int(each) for each in Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()]


def gone(pids: list[int]) -> bool:
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


async def ask(world: Box, outcomes: list[int | str]) -> None:
    """One short request on a connection of its own."""
    body = {"model": "m1", "max_tokens": 2, "messages": [{"role": "user", "content": "count"}]}
    async with httpx.AsyncClient(timeout=30, trust_env=False) as client:
        try:
            answer = await client.post(f"{world.address}/chat/completions", json=body)
        except httpx.TransportError as error:
            outcomes.append(type(error).__name__)
        else:
            outcomes.append(answer.status_code)


async def begun(world: Box, streams: list[Stream]) -> None:
    async def all_begun() -> bool:
        return all(stream.pieces > 2 for stream in streams)

    await world.eventually(all_begun, within=20, what="every stream's begin")


async def open_requests(world: Box) -> int:
    return int((await world.model()).get("open_requests", 0))


async def test_a_killed_worker_takes_its_own_streams_alone_and_no_new_request_is_lost() -> None:
    async with box(token_rate=6) as world:
        await world.run_daemon()
        parent = await run_workers(world)
        await world.serving()
        streams, outcomes = [Stream() for _ in range(STREAMS)], list[int | str]()
        first = workers_of(parent)
        async with anyio.create_task_group() as group:
            for stream in streams:
                group.start_soon(stream.take, world)
            await begun(world, streams)
            os.kill(first[0], signal.SIGKILL)
            for _ in range(30):
                group.start_soon(ask, world, outcomes)
                await anyio.sleep(0.02)
        cut = [stream for stream in streams if stream.cut]
        assert outcomes == [200] * 30
        assert 0 < len(cut) < STREAMS
        assert all(stream.pieces == WORDS for stream in streams if not stream.cut)
        second = workers_of(parent)
        assert (len(second), first[1] in second, first[0] in second) == (2, True, False)

        async def none_open() -> bool:
            return await open_requests(world) == 0

        await world.eventually(none_open, within=10, what="the end of the dead worker's stream lease")


async def test_sigterm_lets_the_streams_of_every_worker_finish() -> None:
    async with box(token_rate=12) as world:
        await world.run_daemon()
        parent = await run_workers(world)
        await world.serving()
        streams = [Stream() for _ in range(STREAMS)]
        pids = workers_of(parent)
        async with anyio.create_task_group() as group:
            for stream in streams:
                group.start_soon(stream.take, world)
            await begun(world, streams)
            parent.signal(signal.SIGTERM)
        assert await parent.ended(within=15) == 0
        assert [(stream.pieces, stream.cut) for stream in streams] == [(WORDS, False)] * STREAMS
        assert gone(pids)
        assert await open_requests(world) == 0


async def test_metrics_are_those_of_all_whoever_is_asked() -> None:
    async with box() as world:
        await world.run_daemon()
        await run_workers(world)
        await world.serving()
        outcomes: list[int | str] = []
        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(ask, world, outcomes)
        counts = set()
        for _ in range(6):
            async with httpx.AsyncClient(trust_env=False) as client:
                text = (await client.get(f"{world.address.removesuffix('/v1')}/metrics")).text
            served = re.findall(r'gpuwarden_gateway_requests_total\{[^}]*outcome="served"[^}]*\} (\S+)', text)
            counts.add(sum(map(float, served)))
            assert 'gpuwarden_gateway_worker_up{worker="1"} 1' in text
        assert outcomes == [200] * 20
        assert counts == {20.0}


async def test_workers_whose_parent_was_killed_end() -> None:
    async with box() as world:
        await world.run_daemon()
        parent = await run_workers(world, 3)
        pids = workers_of(parent)
        assert len(pids) == 3
        await parent.kill()
        await until(lambda: gone(pids), within=10, what="the end of the workers")
