"""How does one program of the simulation speak to another, and what do both see when one of them dies?

An exchange is one request and its answer. The app runs as a task of the server's program; the caller awaits in its own.
If the caller goes, the app sees a disconnect and runs on as behind a real server; if the server dies, the caller sees a
connection that was cut: without an answer, or in the middle of one. `Line` is what the caller dials: with a delay for
the way, and with the choice to refuse.
"""

import asyncio
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from datetime import timedelta
from typing import Any, Self
from urllib.parse import unquote, urlsplit

import httpx

from controller.http1 import Disconnected, Headers, NotConnected, Outgoing, Overdue, Sink, Through, TooLarge
from tests.simulation.kernel import Program
from tests.support.asgi_wire import ABORT, LEAVE

Message = MutableMapping[str, Any]
App = Callable[[Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]]
CALLER = b"x-simulated-program"
"""Says to the audit, behind the provider's back, whose call it is."""
PIECES = 4
"""So many pieces of a body are under way before the sender has to wait."""


class Signal:
    """Wakes whoever waits, in whichever program."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []

    def ring(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def until(self, holds: Callable[[], Any], *, within: timedelta | None = None) -> bool:
        """Does it hold before the time is over? One timer for all of the wait: scopes cost several times as much."""
        if holds():
            return True
        loop = asyncio.get_running_loop()
        deadline = None if within is None else loop.time() + within.total_seconds()
        timer = None if deadline is None else loop.call_at(deadline, self.ring)
        try:
            while not holds():
                if deadline is not None and loop.time() >= deadline:
                    return False
                future = loop.create_future()
                self._waiting.append(future)
                await future
        finally:
            if timer is not None:
                timer.cancel()
        return True


class Exchange:
    """One request and its answer."""

    def __init__(self, caller: Program, server: Program, scope: Message, body: bytes) -> None:
        self.caller, self.server = caller, server
        self.status = 0
        self.headers: Headers = ()
        self.pieces: list[bytes] = []
        self.whole = False
        self.cut = False
        self.left = False
        self.streaming = False
        """Its caller takes it piece by piece, and leaves by itself."""
        self.failure: BaseException | None = None
        self._scope, self._body = scope, body
        self._asked = False
        self._signal = Signal()
        self._when_left: Callable[[], None] | None = None
        scope["extensions"] = {ABORT: self.abort, LEAVE: self._on_leave}
        caller.at_death(self, self.leave)
        server.at_death(self, self.abort)

    def begin(self, app: App, delay: float) -> None:
        """Let the request reach the server after `delay` seconds."""
        if delay > 0:
            self.server.loop.call_later(delay, self._arrive, app)
        else:
            self._arrive(app)

    def _arrive(self, app: App) -> None:
        if self.server.alive and not self.cut:
            self.server.start(self._run(app))

    async def _run(self, app: App) -> None:
        try:
            await app(self._scope, self._receive, self._send)
        except Exception as error:
            self.failure = error
            self.server.problems.append("".join(traceback.format_exception(error)))
            if not self.status:
                self.status, self.whole = 500, True
        finally:
            self.cut = self.cut or not self.whole
            self.server.spare(self)
            self._signal.ring()

    async def _receive(self) -> Message:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": self._body, "more_body": False}
        await self._signal.until(lambda: self.left or self.whole or self.cut)
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if self.left or self.cut:
            return
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = tuple((name.lower(), value) for name, value in message.get("headers", ()))
        else:
            if message.get("body"):
                await self._signal.until(lambda: len(self.pieces) < PIECES or self.left or self.cut)
                self.pieces.append(bytes(message["body"]))
            self.whole = self.whole or not message.get("more_body", False)
        self._signal.ring()

    def abort(self) -> None:
        """The connection is cut from the server's side."""
        if not self.whole:
            self.cut = True
            self._signal.ring()

    def _on_leave(self, act: Callable[[], None] | None) -> None:
        self._when_left = act

    def leave(self) -> None:
        """The caller is gone: nothing that the app sends goes anywhere."""
        if self.left:
            return
        self.left = True
        self.caller.spare(self)
        self._signal.ring()
        if self._when_left is not None and self.server.alive:
            self.server.loop.call_soon(self._when_left)

    # The caller's side.

    async def begun(self, *, within: timedelta | None = None) -> bool:
        return await self._signal.until(lambda: self.status or self.cut, within=within)

    async def moved(self, *, within: timedelta | None = None) -> bool:
        """Is there a piece of the body to take, or its end?"""
        return await self._signal.until(lambda: self.pieces or self.whole or self.cut, within=within)

    def take(self) -> bytes | None:
        """The next piece of the body; `None` at its end or where it was cut."""
        if not self.pieces:
            return None
        taken = self.pieces.pop(0)
        self._signal.ring()
        return taken


class Line:
    """What a program dials. `app` is `None` while nobody listens."""

    def __init__(self, server: Program | None = None, app: App | None = None) -> None:
        self.server, self.app = server, app
        self.delay: Callable[[], float] = lambda: 0.0
        self.refusing = 0
        """How many troubles keep everybody from getting through."""

    def dial(self, caller: Program, scope: Message, body: bytes) -> Exchange | None:
        if self.refusing or self.app is None or self.server is None or not self.server.alive:
            return None
        exchange = Exchange(caller, self.server, scope, body)
        exchange.begin(self.app, self.delay())
        return exchange


class Outside(httpx.AsyncBaseTransport):
    """A daemon's way to the provider and to the machines: an httpx transport."""

    def __init__(self, caller: Program, line: Line, *, around: "Around | None" = None) -> None:
        self._caller, self._line = caller, line
        self._around = around

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        assert isinstance(request.stream, httpx.AsyncByteStream)
        body = b"".join([piece async for piece in request.stream])
        what = f"{request.method} {request.url.raw_path.decode()}"
        if self._around is not None:
            await self._around(self._caller, f"before {what}")
        scope = _of_httpx(request)
        scope["headers"].append((CALLER, self._caller.name.encode()))
        exchange = self._line.dial(self._caller, scope, body)
        if exchange is None:
            raise httpx.ConnectError("nobody listens", request=request)
        try:
            if self._around is not None:
                await self._around(self._caller, f"during {what}")
            stream = await _begun(exchange) if request.method == "GET" else await _all(exchange)
        finally:
            if not exchange.streaming:
                exchange.leave()
        if self._around is not None:
            await self._around(self._caller, f"after {what}")
        if exchange.failure is not None:
            raise exchange.failure
        if not exchange.status:
            raise httpx.RemoteProtocolError("disconnected without a response", request=request)
        return httpx.Response(exchange.status, headers=list(exchange.headers), stream=stream, request=request)


Around = Callable[[Program, str], Awaitable[None]]
"""Called before a call leaves, while it is on its way and after its answer came: where a harness ends the caller."""


async def _begun(exchange: Exchange) -> httpx.AsyncByteStream:
    """A stream of events, which may never end, is handed over as it begins."""
    await exchange.begun()
    exchange.streaming = (b"content-type", b"text/event-stream") in exchange.headers
    return _Events(exchange) if exchange.streaming else await _all(exchange)


class _Events(httpx.AsyncByteStream):
    """Piece by piece as they come, until it is closed."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        await self._exchange.moved()
        piece = self._exchange.take()
        if piece is not None:
            return piece
        if self._exchange.cut:
            raise httpx.RemoteProtocolError("the body ended early")
        raise StopAsyncIteration

    async def aclose(self) -> None:
        self._exchange.leave()


async def _all(exchange: Exchange) -> httpx.AsyncByteStream:
    pieces: list[bytes] = []
    while await exchange.moved() and (piece := exchange.take()) is not None:
        pieces.append(piece)
    return _Body(pieces, whole=exchange.whole and not exchange.cut)


class _Body(httpx.AsyncByteStream):
    def __init__(self, pieces: list[bytes], *, whole: bool) -> None:
        self._pieces, self._whole = pieces, whole

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece
        if not self._whole:
            raise httpx.RemoteProtocolError("the body ended early")


def _of_httpx(request: httpx.Request) -> Message:
    raw_path, _, query = request.url.raw_path.partition(b"?")
    return _scope(
        method=request.method,
        path=request.url.path,
        raw_path=raw_path,
        query=query,
        headers=[(name.lower(), value) for name, value in request.headers.raw],
        host=request.url.host,
    )


def _scope(
    *, method: str, path: str, raw_path: bytes, query: bytes, headers: list[tuple[bytes, bytes]], host: str
) -> Message:
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": raw_path,
        "root_path": "",
        "query_string": query,
        "headers": headers,
        "client": ("127.0.0.1", 50000),
        "server": (host, 80),
        "state": {},
    }


class Answer:
    """An answer as our own HTTP client gives it."""

    def __init__(self, exchange: Exchange, request: Outgoing) -> None:
        self._exchange, self._request = exchange, request

    @property
    def status(self) -> int:
        return self._exchange.status

    @property
    def headers(self) -> Headers:
        return self._exchange.headers

    async def begun(self) -> None:
        limit = self._request.head_limit
        if not await self._exchange.begun(within=limit):
            raise Overdue("no head")
        if not self.status:
            raise Disconnected("cut before the head")

    def chunks(self) -> AsyncIterator[bytes]:
        return self

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if not await self._exchange.moved(within=self._request.silence_limit):
            raise Overdue("silence", got_head=True)
        piece = self._exchange.take()
        if piece is not None:
            return piece
        if self._exchange.cut:
            raise Disconnected("cut", got_head=True)
        raise StopAsyncIteration

    async def pour(self, sink: Sink, through: Through | None = None) -> None:
        async for piece in self:
            full = sink(piece)
            if full is not None:
                await full()

    async def read(self, limit: int) -> bytes:
        body = b""
        async for piece in self:
            body += piece
            if len(body) > limit:
                raise TooLarge("too large", got_head=True)
        return body

    def close(self) -> None:
        self._exchange.leave()


class Wire:
    """Our own HTTP client's way to other programs: `lines` maps an authority, or `socket`, to a line."""

    def __init__(self, caller: Program, lines: MutableMapping[str, Line]) -> None:
        self._caller, self.lines = caller, lines

    async def send(self, request: Outgoing) -> Answer:
        authority = "socket" if request.url.startswith("unix:") else urlsplit(request.url).netloc
        exchange = self.lines[authority].dial(self._caller, _of_outgoing(request), request.body)
        if exchange is None:
            raise NotConnected(f"nothing listens at {authority}")
        answer = Answer(exchange, request)
        try:
            await answer.begun()
        except BaseException:
            answer.close()
            raise
        return answer

    def kept(self, url: str) -> None:
        """There are no connections."""


def _of_outgoing(request: Outgoing) -> Message:
    url = request.url
    parts = urlsplit(f"http://socket{url.split(':', 2)[2]}" if url.startswith("unix:") else url)
    headers = [(name.lower(), value) for name, value in request.headers]
    headers += [(b"host", parts.netloc.encode()), (b"content-length", b"%d" % len(request.body))]
    return _scope(
        method=request.method,
        path=unquote(parts.path) or "/",
        raw_path=parts.path.encode(),
        query=parts.query.encode(),
        headers=headers,
        host=parts.hostname or "",
    )
