"""Are those who wait for a cold model told to come back when their gateway is stopped, and does it end in time?"""

import signal
import time

import anyio
import httpx
import pytest

from controller.cli.exits import Exit
from tests.processes.box import Box, box

pytestmark = pytest.mark.process

CALLERS = 6


async def ask(world: Box, answers: list[httpx.Response], number: int) -> None:
    """Half of them for a stream, which nothing has come of yet."""
    body = {"model": "m1", "stream": number % 2 == 0, "messages": [{"role": "user", "content": "count"}]}
    async with httpx.AsyncClient(timeout=60, trust_env=False) as client:
        answers.append(await client.post(f"{world.address}/chat/completions", json=body))


async def test_a_gateway_that_is_stopped_sends_its_waiters_away_with_a_time_to_come_back() -> None:
    async with box(limit=90, boot_seconds=600) as world:
        await world.run_daemon()
        gateway = await world.run_gateway()
        answers: list[httpx.Response] = []
        async with anyio.create_task_group() as group:
            for number in range(CALLERS):
                group.start_soon(ask, world, answers, number)

            async def all_wait() -> bool:
                async with httpx.AsyncClient(trust_env=False) as client:
                    told = await client.get(f"{world.address.removesuffix('/v1')}/metrics")
                return f'waiting{{model="m1"}} {CALLERS}' in told.text

            await world.eventually(all_wait, within=20, what="the callers' wait")
            gateway.signal(signal.SIGTERM)
            begun = time.monotonic()
            code = await gateway.ended(within=20)
            took = time.monotonic() - begun
        assert (code, len(answers)) == (Exit.OK, CALLERS)
        assert {(answer.status_code, answer.json()["error"]["code"]) for answer in answers} == {(503, "model_starting")}
        assert all(1 <= int(answer.headers["retry-after"]) <= 60 for answer in answers)
        assert took < 10
        assert len(await world.creates()) == len(await world.alive()) == 1
