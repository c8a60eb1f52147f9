"""How is a server asked as fast as it answers?

A client on a bare protocol, one kept connection each, that does no more than find the end of an answer: what it costs
itself is the same for both sides of a comparison.
"""

import asyncio
import re
import time
from collections.abc import Callable
from typing import Final, TypeVar, cast

import anyio

LENGTH: Final = re.compile(rb"content-length:\s*(\d+)", re.IGNORECASE)
END: Final = b"\r\n0\r\n\r\n"
EVENT: Final = b"data: "
REST: Final = len(END) + len(EVENT)
CONNECT_TRIES: Final = 100

P = TypeVar("P", bound=asyncio.Protocol)


class Asker(asyncio.Protocol):
    """One connection. `ask` once at a time; raises ConnectionError when the server leaves or refuses."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._answered: asyncio.Future[None] | None = None
        self._head = b""
        self._left: int | None = None
        self._tail = b""
        self.events = 0
        """Lines that begin an event, over all answers."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's own is not registered as one

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(exc or ConnectionError("the server left"))

    async def ask(self, request: bytes) -> float:
        """Seconds from the request's write to the answer's last byte."""
        if self._transport is None:
            raise ConnectionError("the server left")
        self._head, self._left, self._tail = b"", None, b""
        self._answered = self._loop.create_future()
        began = time.perf_counter()
        self._transport.write(request)
        await self._answered
        return time.perf_counter() - began

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._left is None and not self._tail:
            self._head += data
            head, found, data = self._head.partition(b"\r\n\r\n")
            if not found:
                return
            self._begin(head)
        if self._left is not None:
            self._left -= len(data)
            if self._left <= 0:
                self._end()
            return
        seen = self._tail + data
        self.events += seen.count(EVENT) - self._tail.count(EVENT)
        self._tail = seen[-REST:]
        if seen.endswith(END):
            self._end()

    def _begin(self, head: bytes) -> None:
        if b" 200 " not in head[:16]:
            self._fail(ConnectionError(f"refused: {head[:40].decode(errors='replace')}"))
        length = LENGTH.search(head)
        self._left = int(length[1]) if length else None
        self._tail = b"\r\n"

    def _end(self) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_result(None)

    def _fail(self, why: Exception) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(why)


async def connected(port: int) -> Asker:
    """A connection; a server that is only about to listen gets some seconds."""
    return await connected_as(Asker, port)


async def connected_as(kind: Callable[[], P], port: int) -> P:
    """The same, with a protocol of that kind."""
    loop = asyncio.get_running_loop()
    for _ in range(CONNECT_TRIES):
        try:
            return (await loop.create_connection(kind, "127.0.0.1", port))[1]
        except ConnectionError:
            await anyio.sleep(0.05)
    raise ConnectionError(f"nothing listens on port {port}")


def post(path: str, body: bytes, *, key: str) -> bytes:
    """A whole request with the headers that clients send."""
    head = (
        f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: application/json\r\nuser-agent: benchmarks\r\n"
        f"authorization: Bearer {key}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
