"""Which connection carries a request?

Connections are kept for a few seconds after a whole answer was read. A kept one is looked at before it is used; what
dies after the write is never sent a second time from here. Addresses are `http://`, `https://` (verified) and
`unix:/path/to/socket:/target`.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator
from datetime import timedelta
from functools import lru_cache, partial
from typing import Final, NamedTuple, Self
from urllib.parse import urlsplit

import anyio

from controller.http1.connection import Connection
from controller.http1.wire import Headers, NotConnected, Outgoing, Sink, TooLarge

CONNECT_LIMIT: Final = timedelta(seconds=10)


class Target(NamedTuple):
    """A key of every request: a tuple is hashed without a call of ours."""

    host: str
    port: int
    tls: bool
    socket: str | None


@lru_cache(maxsize=512)
def parse_url(url: str) -> tuple[Target, bytes, bytes]:
    """Where to connect, the request target, and the authority for the Host header."""
    if url.startswith("unix:"):
        path, _, target = url.removeprefix("unix:").partition(":")
        return Target("", 0, False, path), (target or "/").encode(), b"localhost"
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise ValueError("an address begins with http://, https:// or unix:/")
    tls = parts.scheme == "https"
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(parts.hostname, parts.port or (443 if tls else 80), tls, None), target.encode(), parts.netloc.encode()


class Answer:
    """An `Incoming` on one of the pool's connections."""

    def __init__(self, connection: Connection, pool: "Pool", target: Target) -> None:
        self._connection: Connection | None = connection
        self._pool = pool
        self._target = target
        self.status = connection.status
        self.headers: Headers = tuple(connection.headers)

    def chunks(self) -> AsyncIterator[bytes]:
        return self

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        piece = None if self._connection is None else await self._connection.piece()
        if piece is None:
            self.close()
            raise StopAsyncIteration
        return piece

    async def pour(self, sink: Sink) -> None:
        if self._connection is not None:
            await self._connection.pour(sink)
            self.close()

    async def read(self, limit: int) -> bytes:
        pieces: list[bytes] = []
        size = 0
        async for piece in self:
            size += len(piece)
            if size > limit:
                self.close()
                raise TooLarge(f"more than {limit} bytes", got_head=True)
            pieces.append(piece)
        return b"".join(pieces)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._pool.take_back(self._target, connection)


class Pool:
    """A `Wire` over real sockets."""

    def __init__(self, *, tls: ssl.SSLContext | None = None, connect_limit: timedelta = CONNECT_LIMIT) -> None:
        self._tls = tls
        self._connect_limit = connect_limit.total_seconds()
        self._idle: dict[Target, list[Connection]] = {}
        self.open = 0
        """Exchanges that are not closed yet."""

    async def send(self, request: Outgoing) -> Answer:
        target, path, authority = parse_url(request.url)
        connection = self._kept(target) or await self._connect(target)
        self.open += 1
        try:
            connection.write(
                _head(request, path, authority),
                request.body,
                head_limit=request.head_limit,
                silence_limit=request.silence_limit,
            )
            await connection.head()
        except BaseException:
            self.open -= 1
            connection.abort()
            raise
        return Answer(connection, self, target)

    def take_back(self, target: Target, connection: Connection) -> None:
        self.open -= 1
        if connection.reusable:
            connection.rest()
            self._idle.setdefault(target, []).append(connection)
        else:
            connection.abort()

    def close(self) -> None:
        """Drops what is kept; open exchanges are their holders'."""
        for connections in self._idle.values():
            for connection in connections:
                connection.abort()
        self._idle.clear()

    def _kept(self, target: Target) -> Connection | None:
        connections = self._idle.get(target, [])
        while connections:
            connection = connections.pop()
            if connection.usable:
                return connection
        return None

    async def _connect(self, target: Target) -> Connection:
        if target not in self._idle:
            self._forget_ended()
        loop = asyncio.get_running_loop()
        made = partial(Connection, loop)
        try:
            with anyio.fail_after(self._connect_limit):
                if target.socket is not None:
                    return (await loop.create_unix_connection(made, target.socket))[1]
                tls = self._context() if target.tls else None
                return (await loop.create_connection(made, target.host, target.port, ssl=tls))[1]
        except (OSError, UnicodeError) as error:  # TimeoutError and TLS failures are OSErrors
            raise NotConnected(f"no connection: {type(error).__name__}") from error

    def _forget_ended(self) -> None:
        """Each machine has an address of its own: those of machines that are gone are asked for no more, and kept what
        they once held. So they are looked for as a new one comes."""
        for target, connections in list(self._idle.items()):
            left = self._idle[target] = [connection for connection in connections if connection.usable]
            if not left:
                del self._idle[target]

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = ssl.create_default_context()
        return self._tls


def _head(request: Outgoing, path: bytes, authority: bytes) -> bytes:
    head = _lines(request.method, path, authority, request.headers)
    if request.body or request.method in ("POST", "PUT", "PATCH"):
        return b"%bcontent-length: %d\r\n\r\n" % (head, len(request.body))
    return head + b"\r\n"


@lru_cache(maxsize=512)
def _lines(method: str, path: bytes, authority: bytes, headers: Headers) -> bytes:
    """All of a head but the body's length: the same for most requests to one server."""
    lines = [b"%b %b HTTP/1.1\r\nhost: %b\r\n" % (method.encode(), path, authority)]
    lines += [b"%b: %b\r\n" % header for header in headers]
    head = b"".join(lines)
    if head.count(b"\n") != len(lines) + 1 or head.count(b"\r") != len(lines) + 1:
        raise ValueError("a header value is one line")
    return head
