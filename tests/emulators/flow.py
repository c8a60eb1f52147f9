"""How does a test speak to an emulator in streams, and leave in the middle, on virtual time?"""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeVar

import anyio

from controller.emulators.runpod import Emulator, Settings, build_app
from tests.emulators.world import START
from tests.support.virtual_time import run_virtual

T = TypeVar("T")


class Flow:
    """One request whose answer is read while it comes."""

    def __init__(self) -> None:
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.pieces: list[tuple[float, bytes]] = []
        self.ended = anyio.Event()
        self.cut = False
        self._gone = anyio.Event()
        self._body: bytes | None = None

    @property
    def body(self) -> bytes:
        return b"".join(piece for _, piece in self.pieces)

    def events(self) -> list[Any]:
        lines = [line[6:] for line in self.body.decode().splitlines() if line.startswith("data: ")]
        return [line if line == "[DONE]" else json.loads(line) for line in lines]

    def leave(self) -> None:
        self._gone.set()

    async def run(
        self, emulator: Emulator, method: str, path: str, *, key: str, body: Any = None, last_event: str = ""
    ) -> None:
        self._body = b"" if body is None else json.dumps(body).encode()
        path, _, query = path.partition("?")
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": query.encode(),
            "headers": [(b"authorization", f"Bearer {key}".encode()), (b"user-agent", b"tests")]
            + ([(b"last-event-id", last_event.encode())] if last_event else []),
            "client": ("127.0.0.1", 1),
            "extensions": {"gpuwarden.abort": self._break_off},
        }
        await build_app(emulator)(scope, self._receive, self._send)
        self.ended.set()

    def _break_off(self) -> None:
        self.cut = True

    async def _receive(self) -> MutableMapping[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        elif message["body"]:
            self.pieces.append((asyncio.get_running_loop().time(), message["body"]))


def on_virtual_time(main: Callable[[Emulator], Awaitable[T]], **settings: Any) -> T:
    """Run `main` with an emulator whose clock is the loop's."""

    async def run() -> T:
        loop = asyncio.get_running_loop()
        chosen = Settings(**({"secrets": {"key": "open-sesame"}} | settings))
        return await main(Emulator(clock=lambda: START + loop.time(), rng=random.Random(1), settings=chosen))

    return run_virtual(run)


async def until(true: Callable[[], bool]) -> None:
    """Real seconds: for what sockets and processes do in their own time."""
    with anyio.fail_after(10):
        while not true():  # noqa: ASYNC110 - a process that ends sets no event of ours
            await anyio.sleep(0.005)
