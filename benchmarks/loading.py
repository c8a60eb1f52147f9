"""How long does each answer take while so many are asked for at once?

Each connection asks again as soon as it has its answer, until the time is over; all of it happens in the callbacks of
a bare protocol, since what this side costs is lost to the measured one. An answer that is refused or breaks off counts
as an error and ends its connection.
"""

import asyncio
import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import cast

import anyio

from benchmarks.asking import END, EVENT, LENGTH, REST, connected_as


@dataclass(slots=True)
class Load:
    """What came of it so far. Times are seconds from a request's write to its answer's last byte."""

    request: bytes
    ends: float = 0.0
    """On the performance counter: who has an answer after that does not ask again."""
    times: list[float] = field(default_factory=list)
    events: int = 0
    errors: int = 0


class Asking(asyncio.Protocol):
    """One connection under a load."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._transport: asyncio.Transport | None = None
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._asked_at = 0.0
        self._head = b""
        self._left: int | None = None
        self._tail = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's own is not registered as one

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._done.done():
            self._load.errors += 1
            self._done.set_result(None)

    async def run(self) -> None:
        """Until the load ends."""
        self._ask()
        await self._done

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _ask(self) -> None:
        if self._transport is None:
            return
        self._head, self._left, self._tail = b"", None, b""
        self._asked_at = time.perf_counter()
        self._transport.write(self._load.request)

    def data_received(self, data: bytes) -> None:
        if self._left is None and not self._tail:
            self._head += data
            head, found, data = self._head.partition(b"\r\n\r\n")
            if not found:
                return
            if b" 200 " not in head[:16]:
                self.close()  # which counts as an error
                return
            length = LENGTH.search(head)
            self._left = int(length[1]) if length else None
            self._tail = b"\r\n"
        if self._left is not None:
            self._left -= len(data)
            if self._left <= 0:
                self._answered()
            return
        seen = self._tail + data
        self._load.events += seen.count(EVENT) - self._tail.count(EVENT)
        self._tail = seen[-REST:]
        if seen.endswith(END):
            self._answered()

    def _answered(self) -> None:
        now = time.perf_counter()
        self._load.times.append(now - self._asked_at)
        if now < self._load.ends:
            self._ask()
        elif not self._done.done():
            self._done.set_result(None)


async def put_on(port: int, request: bytes, *, connections: int, seconds: float, apart_s: float = 0.0) -> Load:
    """Ask at once over that many connections; they begin within `apart_s`, so that streams do not come in step."""
    load = Load(request)
    asking = [await connected_as(lambda: Asking(load), port) for _ in range(connections)]

    async def begin(at: int) -> None:
        if apart_s:
            await anyio.sleep(at / connections * apart_s)
        await asking[at].run()

    load.ends = time.perf_counter() + seconds
    try:
        with _no_collection():
            async with anyio.create_task_group() as group:
                for at in range(connections):
                    group.start_soon(begin, at)
    finally:
        for one in asking:
            one.close()
    return load


@contextmanager
def _no_collection() -> Iterator[None]:
    """A pause of this side's would be taken for the other's."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
