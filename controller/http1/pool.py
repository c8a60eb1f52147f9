"""Which connection carries a request?

Connections are kept for a few seconds after a whole answer was read. A kept one is looked at before it is used; what
dies after the write is never sent a second time from here. Addresses are `http://`, `https://` (verified) and
`unix:/path/to/socket:/target`.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from functools import lru_cache, partial
from typing import Final, NamedTuple, Self
from urllib.parse import urlsplit

import anyio

from controller.http1.connection import Connection
from controller.http1.wire import Headers, NotConnected, Outgoing, Sink, Through, TooLarge

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
    """An `Incoming` on one of the pool's connections, from before its request is written."""

    __slots__ = ("_connection", "_pool", "_target", "headers", "status")

    def __init__(self, connection: Connection, pool: "Pool", target: Target) -> None:
        self._connection: Connection | None = connection
        self._pool = pool
        self._target = target
        self.status = 0
        self.headers: Headers = ()
        pool.open += 1

    def write(self, request: Outgoing, body: bytes, told: Callable[[], None] | None = None) -> None:
        connection = self._open()
        connection.write(_head(request, body), body, request.limits_s)
        connection.told = told

    async def head(self) -> None:
        """Until status and headers are known. Raises `WireError`, and then it is closed."""
        connection = self._open()
        connection.told = None
        try:
            await connection.head()
        except BaseException:
            self.close()
            raise
        self.status, self.headers = connection.status, tuple(connection.headers)

    def ended_well(self) -> bool:
        """All of it came as it was announced: then status and headers are known, and all of the body is there."""
        connection = self._connection
        if connection is None or not connection.complete or connection.error is not None:
            return False
        self.status, self.headers = connection.status, tuple(connection.headers)
        return True

    def came_in_part(self) -> bool:
        """Some of its body is there: then status and headers are known."""
        connection = self._connection
        if connection is None or not connection.pieces:
            return False
        self.status, self.headers = connection.status, tuple(connection.headers)
        return True

    def taken(self) -> bytes:
        """What came of the body, and was not taken yet."""
        return self._open().take()

    @property
    def still_short(self) -> bool:
        """It is on its way, and so little of it came that it may be waited for whole."""
        connection = self._connection
        return connection is not None and connection.still_short

    def _open(self) -> Connection:
        if self._connection is None:
            raise RuntimeError("this answer was closed")
        return self._connection

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

    async def pour(self, sink: Sink, through: Through | None = None) -> None:
        if self._connection is not None:
            await self._connection.pour(sink, through)
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
            connection.told = None
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
        answer = self.kept(request.url)
        if answer is None:
            target, _, _ = parse_url(request.url)
            answer = Answer(await self._connect(target), self, target)
        try:
            answer.write(request, request.body)
        except BaseException:
            answer.close()
            raise
        await answer.head()
        return answer

    def kept(self, url: str) -> Answer | None:
        """On a connection that is kept, if there is one: nothing is written yet. Whoever gets it closes it."""
        target, _, _ = parse_url(url)
        connections = self._idle.get(target)
        while connections:
            connection = connections.pop()
            if connection.usable:
                return Answer(connection, self, target)
        return None

    def take_back(self, target: Target, connection: Connection) -> None:
        self.open -= 1
        if not connection.rest():
            connection.abort()
            return
        kept = self._idle.get(target)
        if kept is None:
            kept = self._idle[target] = []
        kept.append(connection)

    def close(self) -> None:
        """Drops what is kept; open exchanges are their holders'."""
        for connections in self._idle.values():
            for connection in connections:
                connection.abort()
        self._idle.clear()

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


def _head(request: Outgoing, body: bytes) -> bytes:
    if not request.lines:
        _, path, authority = parse_url(request.url)
        request.lines = _lines(request.method, path, authority, request.headers)
    if body or request.method in ("POST", "PUT", "PATCH"):
        return b"%bcontent-length: %d\r\n\r\n" % (request.lines, len(body))
    return request.lines + b"\r\n"


@lru_cache(maxsize=512)
def _lines(method: str, path: bytes, authority: bytes, headers: Headers) -> bytes:
    """All of a head but the body's length: the same for most requests to one server."""
    lines = [b"%b %b HTTP/1.1\r\nhost: %b\r\n" % (method.encode(), path, authority)]
    lines += [b"%b: %b\r\n" % header for header in headers]
    head = b"".join(lines)
    if head.count(b"\n") != len(lines) + 1 or head.count(b"\r") != len(lines) + 1:
        raise ValueError("a header value is one line")
    return head
