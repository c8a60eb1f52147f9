"""The gateway as it stands in production, on loopback sockets: our own server before it, our own client behind."""

import asyncio
import hashlib
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio

from controller.api.client import DaemonClient
from controller.clock import SystemClock
from controller.gateway.app import Gateway, build
from controller.gateway.config import GatewayConfig
from controller.gateway.serve import serve
from controller.http1 import Pool
from controller.ids import SystemRandomness
from tests.gateway.world import CLIENT_KEY, MODEL_KEY
from tests.support.asgi_wire import AsgiWire
from tests.support.fake_daemon import FakeDaemon, route


@dataclass
class Served:
    gateway: Gateway
    daemon: FakeDaemon
    pool: Pool
    port: int
    listening: socket.socket

    async def change(self, alias: str, **fields: Any) -> None:
        """The daemon says this of the model, and the gateway has heard it."""
        self.daemon.change(alias, **fields)
        await self.heard()

    async def heard(self) -> None:
        await eventually(lambda: self.gateway.table.version == self.daemon.version)


@asynccontextmanager
async def served(upstream_port: int, *, direct: bool = True, **changes: Any) -> AsyncIterator[Served]:
    """Not `direct`: each request has a task from its first moment on."""
    settings: Mapping[str, Any] = {
        "models": {"m1": lambda: MODEL_KEY},
        "client_keys": frozenset({hashlib.sha256(CLIENT_KEY.encode()).hexdigest()}),
        **changes,
    }
    daemon = FakeDaemon("m1")
    daemon.change("m1", wires=["chat", "completions", "embeddings", "responses", "messages"])
    daemon.change("m1", phase="ready", routes=[route("d1", f"http://127.0.0.1:{upstream_port}/v1/")])
    pool = Pool()
    gateway = build(
        GatewayConfig(**settings),
        daemon=DaemonClient(AsgiWire({"socket": daemon.app}), "unix:/run/gateway.sock:"),
        upstream=pool,
        clock=SystemClock(),
        randomness=SystemRandomness(),
    )
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    stopped = anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(gateway.run)
        group.start_soon(partial(serve, gateway.app, [listening], stopped, direct=gateway.direct if direct else None))
        await _until_listening(listening.getsockname()[1])
        running = Served(gateway, daemon, pool, listening.getsockname()[1], listening)
        await running.heard()
        yield running
        stopped.set()
        pool.close()
        await asyncio.sleep(0.15)
        group.cancel_scope.cancel()


async def go_cold(gateway: Served, upstream_port: int, *, start_s: float = 0.5) -> None:
    """The model runs nowhere, and does `start_s` after somebody asks for it."""
    loop = asyncio.get_running_loop()

    def ready() -> None:
        routes = [route("d2", f"http://127.0.0.1:{upstream_port}/v1/", proven=False)]
        gateway.daemon.change("m1", phase="ready", routes=routes, starting=None)

    def begin(alias: str) -> None:
        gateway.daemon.on_start = lambda alias: None
        starting = {"deployment": "d2", "phase": "loading", "eta_seconds": 1.0, "usd_so_far": "0.01"}
        gateway.daemon.change(alias, phase="starting", starting=starting)
        loop.call_later(start_s, ready)

    await gateway.change("m1", phase="off", routes=[])
    gateway.daemon.on_start = begin


async def fail_to_start(gateway: Served, reason: str, *, after_s: float = 0.3) -> None:
    """The model runs nowhere, and each start of it fails after a while."""
    loop = asyncio.get_running_loop()
    starting = {"deployment": "d2", "phase": "loading", "eta_seconds": 1.0, "usd_so_far": "0.01"}

    def begin(alias: str) -> None:
        gateway.daemon.change(alias, phase="starting", starting=starting)
        loop.call_later(after_s, gateway.daemon.fail, alias, reason)

    await gateway.change("m1", phase="off", routes=[])
    gateway.daemon.on_start = begin


async def _until_listening(port: int) -> None:
    for _ in range(200):
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except ConnectionError:
            await asyncio.sleep(0.01)
        else:
            writer.close()
            return
    raise AssertionError("the gateway does not listen")


async def eventually(happened: Callable[[], bool]) -> None:
    """Within the two seconds that an abandoned upstream may live."""
    for _ in range(200):
        if happened():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not happen within 2 s")


def request(body: bytes, *, key: str = CLIENT_KEY) -> bytes:
    return (
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer "
        + key.encode()
        + b"\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
    )
