"""What does a peer do that an app cannot: reset, end early, or write nonsense?

A scripted server on a loopback socket.
"""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

Script = Callable[["RawExchange"], Coroutine[Any, Any, None]]


@dataclass
class RawServer:
    port: int = 0
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0
    open: int = 0
    left: int = 0
    """Connections that the client ended while a script ran."""


class RawExchange:
    """One request as it came, and the bare socket to answer on."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> None:
        self.reader = reader
        self.writer = writer
        self.request = request
        self.closed = False

    async def write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def chunk(self, data: bytes) -> None:
        await self.write(b"%x\r\n%s\r\n" % (len(data), data))

    def reset(self) -> None:
        """RST instead of FIN."""
        sock: socket.socket = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()
        self.closed = True

    def end(self) -> None:
        self.writer.close()
        self.closed = True


@asynccontextmanager
async def raw_server(script: Script) -> AsyncIterator[RawServer]:
    server = RawServer()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server.connections += 1
        server.open += 1
        try:
            while (request := await _request(reader)) is not None:
                server.requests.append(request)
                exchange = RawExchange(reader, writer, request)
                await _until_client_leaves(exchange, script, server)
                if exchange.closed:
                    return
        except (ConnectionError, asyncio.IncompleteReadError):
            server.left += 1
        finally:
            server.open -= 1
            writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()


async def _until_client_leaves(exchange: RawExchange, script: Script, server: RawServer) -> None:
    """Runs the script; a client that leaves meanwhile ends it."""
    work = asyncio.create_task(script(exchange))
    gone = asyncio.create_task(exchange.reader.read(1))
    await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
    if not work.done():
        work.cancel()
        exchange.closed = True
        server.left += 1
    elif work.exception() is not None:  # the client left while the script was writing
        exchange.closed = True
        server.left += 1
    if not gone.done():
        gone.cancel()
    await asyncio.gather(work, gone, return_exceptions=True)


async def _request(reader: asyncio.StreamReader) -> bytes | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length: "):
            return head + await reader.readexactly(int(line.removeprefix(b"content-length: ")))
    return head
