"""What does one more process in the way cost on this machine, whatever it does?

Hands bytes from one connection to another and back, and looks at none of them: the least that anything in front of a
model server can cost. What the gateway takes is told as a multiple of it, so that a slow or busy machine falls out.
"""

import argparse
import asyncio
import os
import sys
from typing import cast

import anyio
import uvloop


class Side(asyncio.Protocol):
    """One of the two connections; what comes in goes out at the other."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.other: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self.other is not None:
            self.other.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.other is not None:
            self.other.close()


async def _run(target: int) -> None:
    loop = asyncio.get_running_loop()
    waiting = asyncio.Queue[Side]()

    class Front(Side):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            cast(asyncio.Transport, transport).pause_reading()
            waiting.put_nowait(self)

    async def join() -> None:
        while True:
            front = await waiting.get()
            _, back = await loop.create_connection(Side, "127.0.0.1", target)
            back.other, front.other = front.transport, back.transport
            if front.transport is not None:
                front.transport.resume_reading()

    listening = await loop.create_server(Front, "127.0.0.1", 0, backlog=1024)
    async with anyio.create_task_group() as group:
        group.start_soon(join)
        print(listening.sockets[0].getsockname()[1], flush=True)
        await anyio.wait_readable(sys.stdin.fileno())
        os.read(sys.stdin.fileno(), 1)
        group.cancel_scope.cancel()
    listening.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--target", required=True, type=int, help="the port that it stands in front of")
    uvloop.run(_run(parser.parse_args().target))
