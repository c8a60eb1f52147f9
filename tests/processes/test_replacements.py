"""Is a machine replaced under load without anybody noticing?"""

import json
import signal
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import anyio
import httpx
import pytest
from anyio.abc import TaskGroup

from tests.processes.box import Box, box

pytestmark = pytest.mark.process

CLIENTS = 6
"""Half of them stream."""
STEADY_S = 2.0
"""So long everything goes on before the replacement begins, and after it has ended."""


@dataclass
class Load:
    """Clients that ask again as soon as they are answered, and what became of each request."""

    world: Box
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    most_alive: int = 0
    ending: bool = False

    def begin(self, group: TaskGroup) -> None:
        for number in range(CLIENTS):
            group.start_soon(self._client, number % 2 == 0)
        group.start_soon(self._count)

    async def _client(self, stream: bool) -> None:
        async with httpx.AsyncClient(timeout=30, trust_env=False) as client:
            while not self.ending:
                try:
                    await self._ask(client, stream)
                except (httpx.HTTPError, AssertionError, ValueError) as problem:
                    self.failures.append(f"{'stream' if stream else 'plain'}: {problem!r}")

    async def _ask(self, client: httpx.AsyncClient, stream: bool) -> None:
        asked: dict[str, Any] = {"model": "m1", "messages": [{"role": "user", "content": "count"}], "stream": stream}
        answer = await client.post(f"{self.world.address}/chat/completions", json=asked | {"max_tokens": 40})
        assert answer.status_code == 200, answer.text
        if stream:
            assert answer.text.rstrip().endswith("data: [DONE]"), answer.text[-200:]
            assert '"error"' not in answer.text
        else:
            assert json.loads(answer.text)["choices"]
        self.outcomes["stream" if stream else "plain"] += 1

    async def _count(self) -> None:
        while not self.ending:
            self.most_alive = max(self.most_alive, len(await self.world.alive()))
            await anyio.sleep(0.1)


async def test_a_replacement_under_load_fails_no_request_and_the_old_machine_is_discharged() -> None:
    async with box(ready_seconds=1.0, token_rate=80) as world:
        await world.run_daemon()
        await world.run_gateway()
        old = await world.serving()
        load = Load(world)
        async with anyio.create_task_group() as clients:
            load.begin(clients)
            await anyio.sleep(STEADY_S)
            restarted = await world.cli("restart", "m1", "--json", within=40)
            await anyio.sleep(STEADY_S)
            load.ending = True
        assert (restarted.code, load.failures) == (0, []), restarted.err
        assert min(load.outcomes["plain"], load.outcomes["stream"]) > 20
        assert (load.most_alive, len(await world.creates())) == (2, 2)
        (new,) = await world.alive()
        assert restarted.json["replaced"][old["id"]] in [entry["id"] for entry in await world.deployments()]
        assert new["id"] != old["resource"]["incarnation"]
        (duty,) = [duty for duty in await world.obligations() if duty["deployment"] == old["id"]]
        assert (duty["reason"], duty["ending"]) == ("replaced", "discharged")
        assert duty["evidence"]["kind"]
        await world.require_whole_evidence()


async def test_a_changed_image_is_taken_up_by_a_restart_of_the_daemon_while_the_old_machine_serves() -> None:
    async with box(ready_seconds=1.0, token_rate=80) as world:
        daemon = await world.run_daemon()
        await world.run_gateway()
        old = await world.serving()
        load = Load(world)
        async with anyio.create_task_group() as clients:
            load.begin(clients)
            daemon.signal(signal.SIGTERM)
            await daemon.ended(within=15)
            world.config.write_text(world.config.read_text().replace("vllm-openai:v0.31.0", "vllm-openai:v0.32.0"))
            await world.run_daemon()

            async def discharged() -> bool:
                return any(duty["ending"] == "discharged" for duty in await world.obligations())

            await world.eventually(discharged, within=40, what="the end of the old machine")
            load.ending = True
        assert load.failures == []
        assert (load.most_alive, len(await world.creates())) == (2, 2)
        assert world.rows("SELECT image FROM deployments WHERE phase = 'active'") == [("vllm/vllm-openai:v0.32.0",)]
        assert [entry["reason"] for entry in await world.deployments() if entry["id"] == old["id"]] == ["replaced"]


async def test_a_replacement_that_cannot_be_started_leaves_the_old_machine_serving() -> None:
    async with box() as world:
        await world.run_daemon()
        await world.run_gateway()
        old = await world.serving()
        await world.order({"stock": {"NVIDIA L40S": 0, "NVIDIA A40": 0}})
        restarted = await world.cli("restart", "m1", "--limit", "5s")
        assert restarted.code == 1
        assert "serves on" in restarted.err
        assert [pod["id"] for pod in await world.alive()] == [old["resource"]["incarnation"]]

        async def told() -> bool:
            lines = (await world.daemon.get("/v1/models/m1/explain"))["lines"]
            return any("waits for its successor" in line["text"] for line in lines)

        await world.eventually(told, within=20, what="why it is not replaced")
        await world.order({"stock": {}})

        async def replaced() -> bool:
            return [pod["id"] for pod in await world.alive()] != [old["resource"]["incarnation"]]

        await world.eventually(replaced, within=30, what="its successor")
