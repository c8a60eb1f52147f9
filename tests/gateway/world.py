"""A gateway, the daemon it asks and the model server it serves, in one process on virtual time."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import anyio

from controller.api.client import DaemonClient
from controller.gateway.app import Gateway, build
from controller.gateway.config import GatewayConfig
from controller.http1 import Headers, Outgoing, WireError
from controller.ids import SeededRandomness
from tests.gateway.stub_server import StubServer
from tests.support.asgi_wire import App, AsgiAnswer, AsgiWire
from tests.support.fake_daemon import FakeDaemon, route
from tests.support.virtual_time import run_virtual

T = TypeVar("T")

ENDPOINT = "https://one/v1/"
CLIENT_KEY = "client-key"
MODEL_KEY = "model-key"
CHAT = "/v1/chat/completions"
CONFIG = GatewayConfig(
    models={"m1": lambda: MODEL_KEY, "m2": lambda: MODEL_KEY},
    client_keys=frozenset({hashlib.sha256(CLIENT_KEY.encode()).hexdigest()}),
)


class LoopClock:
    """The loop's time as the machine's."""

    def now(self) -> datetime:
        return datetime(2026, 11, 29, tzinfo=UTC) + self.boot()

    def boot(self) -> timedelta:
        return timedelta(seconds=asyncio.get_running_loop().time())


@dataclass
class Answered:
    status: int
    headers: dict[bytes, bytes]
    body: bytes
    whole: bool
    at: float

    @property
    def error(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)["error"]
        return found

    @property
    def code(self) -> str:
        return str(self.error["code"])


class World:
    def __init__(
        self, config: GatewayConfig, *, daemon: FakeDaemon | None = None, machines: Mapping[str, App] | None = None
    ) -> None:
        self.daemon = daemon or FakeDaemon("m1", "m2")
        self.server = StubServer()
        self.upstream = AsgiWire(dict(machines or {"one": self.server.app}))
        self.gateway: Gateway = build(
            config,
            daemon=DaemonClient(AsgiWire({"socket": self.daemon.app}), "unix:/run/gateway.sock:"),
            upstream=self.upstream,
            clock=LoopClock(),
            randomness=SeededRandomness(1),
        )
        self.client = AsgiWire({"gateway": self.gateway.app})

    def make_ready(self, alias: str = "m1", *, proven: bool = True, deployment: str = "d1", epoch: int = 1) -> None:
        routes = [route(deployment, ENDPOINT, proven=proven, epoch=epoch)]
        self.daemon.change(alias, phase="ready", routes=routes, starting=None)

    async def changed(self, alias: str = "m1", **fields: Any) -> None:
        """The daemon says so, and the gateway has heard it."""
        self.daemon.change(alias, **fields)
        await anyio.sleep(0.01)

    async def ready(self, alias: str = "m1", **options: Any) -> None:
        self.make_ready(alias, **options)
        await anyio.sleep(0.01)

    async def open(self, body: object, **options: Any) -> AsgiAnswer:
        """A request whose answer has begun."""
        return await self.client.send(request_of(body, **options))

    def start(self, body: object, **options: Any) -> AsgiAnswer:
        """A request that was only sent."""
        return AsgiAnswer(self.gateway.app, request_of(body, **options))

    async def ask(self, body: object, **options: Any) -> Answered:
        answer = await self.open(body, **options)
        pieces = []
        whole = True
        try:
            async for piece in answer.chunks():
                pieces.append(piece)
        except WireError:
            whole = False
        return Answered(answer.status, dict(answer.headers), b"".join(pieces), whole, now())


def request_of(
    body: object,
    *,
    path: str = CHAT,
    headers: Sequence[tuple[bytes, bytes]] = (),
    method: str = "POST",
    key: str | None = CLIENT_KEY,
) -> Outgoing:
    own: Headers = () if key is None else ((b"authorization", f"Bearer {key}".encode()),)
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    url = f"http://gateway{path}"
    request = Outgoing(method=method, url=url, headers=(*own, *headers), body=raw, head_limit=None)
    return replace(request, silence_limit=None)


def now() -> float:
    return asyncio.get_running_loop().time()


def asking(alias: str = "m1", **fields: Any) -> dict[str, Any]:
    return {"model": alias, "messages": [{"role": "user", "content": "say"}], **fields}


@asynccontextmanager
async def running(**changes: Any) -> AsyncIterator[World]:
    world = World(replace(CONFIG, **changes))
    async with anyio.create_task_group() as group:
        group.start_soon(world.gateway.run)
        await anyio.sleep(0.1)
        yield world
        group.cancel_scope.cancel()


def in_world(scene: Callable[[World], Awaitable[T]], **changes: Any) -> T:
    """Plays `scene` on virtual time."""

    async def main() -> T:
        async with running(**changes) as world:
            return await scene(world)
        raise AssertionError("unreachable")

    return run_virtual(main)


async def together(*scenes: Callable[[], Awaitable[T]]) -> list[T]:
    """All at once; what each returned, in order."""
    results: dict[int, T] = {}

    async def run(number: int, scene: Callable[[], Awaitable[T]]) -> None:
        results[number] = await scene()

    async with anyio.create_task_group() as group:
        for number, scene in enumerate(scenes):
            group.start_soon(run, number, scene)
    return [results[number] for number in range(len(scenes))]
