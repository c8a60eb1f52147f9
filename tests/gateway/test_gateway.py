"""What the gateway is as a process: small, silent about keys, and quick to say that it stops."""

import subprocess
import sys

import anyio
import pytest

from controller.http1 import Outgoing
from tests.gateway.world import Answered, World, asking, in_world

HEAVY = ("httpx", "sqlalchemy", "pydantic", "starlette", "typer", "prometheus_client", "uvicorn")


@pytest.mark.process
def test_it_loads_no_library_that_it_does_not_need() -> None:
    program = (
        "import sys, controller.gateway.serve, controller.gateway.app, controller.api.client\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.strip() == "[]"


def test_a_request_that_is_shown_shows_neither_key_nor_prompt() -> None:
    request = Outgoing(method="POST", url="http://x/", headers=((b"authorization", b"Bearer K3Y"),), body=b"prompt")
    assert "K3Y" not in repr(request)
    assert "prompt" not in repr(request)


def test_a_gateway_that_stops_takes_no_new_request() -> None:
    async def scene(world: World) -> Answered:
        await world.ready()
        await world.gateway.drain()
        return await world.ask(asking())

    answer = in_world(scene)
    assert (answer.status, answer.code, answer.headers[b"retry-after"]) == (503, "model_starting", b"5")
    assert answer.headers[b"connection"] == b"close"


def test_whoever_is_answered_while_a_gateway_stops_is_told_that_the_connection_ends() -> None:
    async def scene(world: World) -> list[bytes | None]:
        await world.ready()
        world.server.think_s = 1
        found: list[Answered] = [await world.ask(asking())]

        async def ask() -> None:
            found.append(await world.ask(asking()))

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await anyio.sleep(0.5)
            await world.gateway.drain()
        found.append(await world.ask(b"", path="/healthz", method="GET"))
        assert [answer.status for answer in found] == [200, 200, 200]
        return [answer.headers.get(b"connection") for answer in found]

    assert in_world(scene) == [None, b"close", b"close"]


def test_a_changed_model_key_is_read_after_a_refusal() -> None:
    keys = iter(["old", "new"])

    async def scene(world: World) -> list[bytes]:
        await world.ready()
        world.server.status, world.server.complaint = 401, ([(b"content-type", b"application/json")], b'{"error":"x"}')
        await world.ask(asking())
        world.server.status = 200
        await world.ask(asking())
        return [headers[b"authorization"] for headers in world.server.headers]

    assert in_world(scene, models={"m1": lambda: next(keys)}) == [b"Bearer old", b"Bearer new"]


def test_metrics_count_requests_by_how_they_ended() -> None:
    async def scene(world: World) -> str:
        await world.changed(queue=0)
        await world.ask(asking(), headers=[(b"prefer", b"wait=0")])
        await world.ready()
        await world.ask(asking())
        await world.ask(asking("nope"))
        world.server.gap_s = 60
        with anyio.move_on_after(1):
            await world.ask(asking(stream=True))
        world.client.answers[-1].close()
        await anyio.sleep(0.1)
        return (await world.ask(b"", path="/metrics", method="GET")).body.decode()

    text = in_world(scene)
    for line in (
        'gpuwarden_gateway_requests_total{model="m1",outcome="served",wire="chat"} 1.0',
        'gpuwarden_gateway_requests_total{model="m1",outcome="model_starting",wire="chat"} 1.0',
        'gpuwarden_gateway_requests_total{model="m1",outcome="client_gone",wire="chat"} 1.0',
        'gpuwarden_gateway_requests_total{model="",outcome="unknown_model",wire="chat"} 1.0',
        'gpuwarden_gateway_open_requests{model="m1"} 0.0',
    ):
        assert line in text
