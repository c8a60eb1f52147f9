"""How does an app stand in for a server, in process and on any loop's time?

`AsgiWire` is a `Wire` that calls an ASGI app: bodies stream, a reader that stops stops the app, `close()` is seen by
the app as a disconnect within a turn of the loop, and the app can cut its answer through the extension that our
servers offer.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any, Self
from urllib.parse import unquote, urlsplit

import anyio

from controller.http1 import Disconnected, Headers, NotConnected, Outgoing, Overdue, Sink, Through, TooLarge

Message = MutableMapping[str, Any]
App = Callable[[Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]]

ABORT = "gpuwarden.abort"
LEAVE = "gpuwarden.leave"


class AsgiAnswer:
    def __init__(self, app: App, request: Outgoing) -> None:
        self._request = request
        self.status = 0
        self.headers: Headers = ()
        self._pieces: asyncio.Queue[bytes | None] = asyncio.Queue(maxsize=4)
        self._begun = asyncio.Event()
        self._left = asyncio.Event()
        self._when_left: Callable[[], None] | None = None
        self._asked = False
        self._got_piece = False
        self.cut = False
        self.ended = False
        self.failure: BaseException | None = None
        self.task = asyncio.get_running_loop().create_task(self._run(app))

    async def _run(self, app: App) -> None:
        try:
            await app(self._scope(), self._receive, self._send)
        except Exception as error:
            self.failure = error
            self.ended = not self._begun.is_set()  # a server makes a whole 500 of it, if it still can
            self._begin(500, ())
        finally:
            self.cut = self.cut or not self.ended
            self._begun.set()
            if not self._left.is_set():
                await self._pieces.put(None)

    def _scope(self) -> Message:
        url = self._request.url
        parts = urlsplit(f"http://socket{url.split(':', 2)[2]}" if url.startswith("unix:") else url)
        headers = [(name.lower(), value) for name, value in self._request.headers]
        headers += [(b"host", parts.netloc.encode()), (b"content-length", b"%d" % len(self._request.body))]
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": self._request.method,
            "scheme": parts.scheme,
            "path": unquote(parts.path) or "/",
            "raw_path": parts.path.encode(),
            "query_string": parts.query.encode(),
            "root_path": "",
            "headers": headers,
            "server": (parts.hostname, parts.port or 80),
            "client": ("127.0.0.1", 50_000),
            "state": {},
            "extensions": {ABORT: self._abort, LEAVE: self._on_leave},
        }

    def _abort(self) -> None:
        self.cut = True
        self._left.set()
        self._begun.set()
        while self._pieces.full():
            self._pieces.get_nowait()
        self._pieces.put_nowait(None)

    def _on_leave(self, left: Callable[[], None] | None) -> None:
        self._when_left = left

    async def _receive(self) -> Message:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": self._request.body, "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if self._left.is_set():
            return
        if message["type"] == "http.response.start":
            self._begin(message["status"], tuple((name.lower(), value) for name, value in message.get("headers", ())))
            return
        if message.get("body"):
            await self._pieces.put(message["body"])
        if not message.get("more_body", False):
            self.ended = True
            self._left.set()
            await self._pieces.put(None)

    def _begin(self, status: int, headers: Headers) -> None:
        if not self._begun.is_set():
            self.status, self.headers = status, headers
            self._begun.set()

    async def begun(self) -> None:
        limit = self._request.head_limit
        try:
            with anyio.fail_after(None if limit is None else limit.total_seconds()):
                await self._begun.wait()
        except TimeoutError:
            raise Overdue("no head") from None
        if not self.status:
            raise Disconnected("cut before the head")

    def chunks(self) -> AsyncIterator[bytes]:
        return self

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        limit = self._request.silence_limit if self._got_piece else self._request.head_limit
        try:
            with anyio.fail_after(None if limit is None else limit.total_seconds()):
                piece = await self._pieces.get()
        except TimeoutError:
            raise Overdue("silence", got_head=True) from None
        if piece is not None:
            self._got_piece = True
            return piece
        if self.cut:
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
        """The app sees a disconnect, and nothing it sends goes anywhere."""
        self._left.set()
        while not self._pieces.empty():
            self._pieces.get_nowait()
        if self._when_left is not None:
            asyncio.get_running_loop().call_soon(self._when_left)


class AsgiWire:
    """`apps` maps an authority (`host:port`, or `socket` for unix sockets) to an app; `None` refuses the connection."""

    def __init__(self, apps: MutableMapping[str, App | None]) -> None:
        self.apps = apps
        self.sent: list[Outgoing] = []
        self.answers: list[AsgiAnswer] = []

    async def send(self, request: Outgoing) -> AsgiAnswer:
        authority = "socket" if request.url.startswith("unix:") else urlsplit(request.url).netloc
        app = self.apps.get(authority)
        if app is None:
            raise NotConnected(f"nothing listens at {authority}")
        self.sent.append(request)
        answer = AsgiAnswer(app, request)
        self.answers.append(answer)
        try:
            await answer.begun()
        except BaseException:
            answer.close()
            raise
        return answer

    def kept(self, url: str) -> None:
        """There are no connections."""

    @property
    def open(self) -> int:
        """Apps that are still at work."""
        return sum(not answer.task.done() for answer in self.answers)
