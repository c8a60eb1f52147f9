"""How does a test speak to an app without a socket, and still meet the faults of one?

An httpx transport that calls an ASGI app in its own task on the caller's loop, so that it runs on virtual time. The app
may call `scope["extensions"]["gpuwarden.abort"]()` to cut the connection: before its answer began the caller sees a
disconnect without a response, after that a body that ends early; the app itself runs on, as behind a real server. When
the caller gives up, the app's task is cancelled, and what still asks sees `http.disconnect`. Bodies are whole on both
ways, but for the event stream of a GET: it is handed over as it begins, and its app ends when it is closed.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any, Final

import httpx

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

ABORT: Final = "gpuwarden.abort"


class AsgiTransport(httpx.AsyncBaseTransport):
    """`refusing` stands for a port on which nobody listens; `stream_limit_s` bounds how long a stream may be read."""

    def __init__(
        self, app: App, *, client: tuple[str, int] = ("127.0.0.1", 50000), stream_limit_s: float | None = None
    ) -> None:
        self.refusing = False
        self._app = app
        self._client = client
        self._stream_limit_s = stream_limit_s
        self._running: set[asyncio.Future[None]] = set()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self.refusing:
            raise httpx.ConnectError("nobody listens", request=request)
        exchange = _Exchange(await request.aread(), may_stream=request.method == "GET")
        scope = _scope(request, client=self._client, abort=exchange.abort)
        task = asyncio.ensure_future(self._app(scope, exchange.receive, exchange.send))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        task.add_done_callback(lambda _: exchange.ended.set())
        try:
            await exchange.ended.wait()
        except asyncio.CancelledError:
            task.cancel()
            raise
        finally:
            if not exchange.streams:
                exchange.gone.set()
        return exchange.response(request, task, stream_limit_s=self._stream_limit_s)

    async def aclose(self) -> None:
        for task in self._running:
            task.cancel()


class _Exchange:
    """One request and its answer, as far as it came."""

    def __init__(self, body: bytes, *, may_stream: bool) -> None:
        self._may_stream = may_stream
        self.ended = asyncio.Event()
        self.gone = asyncio.Event()
        self._sent = asyncio.Event()
        self._body: bytes | None = body
        self._start: Message | None = None
        self._chunks: list[bytes] = []
        self._complete = False
        self._cut = False
        self.streams = False

    async def receive(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if self._cut or self._complete:
            return
        if message["type"] == "http.response.start":
            self._start = message
            if self._may_stream and (b"content-type", b"text/event-stream") in message.get("headers", []):
                self.streams = True
                self.ended.set()
        elif message["type"] == "http.response.body":
            self._chunks.append(bytes(message.get("body", b"")))
            self._sent.set()
            if not message.get("more_body", False):
                self._complete = True
                self.ended.set()

    def abort(self) -> None:
        if not self._complete:
            self._cut = True
            self.ended.set()
            self._sent.set()

    async def next_piece(self) -> bytes:
        """The next piece of a stream; raises StopAsyncIteration at its end."""
        while not self._chunks:
            if self._complete:
                raise StopAsyncIteration
            if self._cut:
                raise httpx.RemoteProtocolError("the body ended early")
            self._sent.clear()
            await self._sent.wait()
        return self._chunks.pop(0)

    def response(
        self, request: httpx.Request, task: "asyncio.Future[None]", *, stream_limit_s: float | None
    ) -> httpx.Response:
        if self._start is None:
            failure = task.exception() if task.done() else None
            if failure is not None and not self._cut:
                raise failure
            raise httpx.RemoteProtocolError("disconnected without a response", request=request)
        return httpx.Response(
            self._start["status"],
            headers=[(name, value) for name, value in self._start.get("headers", [])],
            stream=_Stream(self, task, limit_s=stream_limit_s)
            if self.streams
            else _Body(self._chunks, complete=self._complete),
            request=request,
        )


class _Stream(httpx.AsyncByteStream):
    """What may never end by itself, piece by piece as it is sent."""

    def __init__(self, exchange: _Exchange, task: "asyncio.Future[None]", *, limit_s: float | None) -> None:
        self._exchange = exchange
        self._task = task
        self._ends_at = None if limit_s is None else asyncio.get_running_loop().time() + limit_s

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            async with asyncio.timeout_at(self._ends_at):
                return await self._exchange.next_piece()
        except TimeoutError:
            raise httpx.ReadTimeout("the stream goes on: who reads it has to leave it") from None

    async def aclose(self) -> None:
        self._exchange.gone.set()
        self._task.cancel()


class _Body(httpx.AsyncByteStream):
    def __init__(self, chunks: list[bytes], *, complete: bool) -> None:
        self._chunks = chunks
        self._complete = complete

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            yield chunk
        if not self._complete:
            raise httpx.RemoteProtocolError("the body ended early")


def _scope(request: httpx.Request, *, client: tuple[str, int], abort: Callable[[], None]) -> Scope:
    raw_path, _, query = request.url.raw_path.partition(b"?")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": request.url.scheme,
        "path": request.url.path,
        "raw_path": raw_path,
        "root_path": "",
        "query_string": query,
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "client": client,
        "server": (request.url.host, request.url.port or 80),
        "extensions": {ABORT: abort},
        "state": {},
    }
