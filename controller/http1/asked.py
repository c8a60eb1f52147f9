"""How is one request that came in handed to the app, and its answer written?

The app speaks ASGI: `receive` gives the body as it comes, `send` takes the answer. A head is kept until its first
bytes follow, so that both go out in one write; so long as nothing went out, an app that fails is still a whole 500. In
the scope's extensions stand three calls beside: one writes a piece at once, one ends the connection without finishing
the answer, one takes what to call when the client leaves. Beside them stands what takes chunks that are framed already.

A request whose body is here may be taken without the app's task, by whoever answers it in some later turn of the loop:
a task takes longer than a short answer. It has to be said then that it is `done`; or it goes on in a task after all.

An answer's end is told by its length, by its last chunk, or, to HTTP/1.0, by the end of the connection.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, MutableMapping
from http import HTTPStatus
from typing import Any, Final, Protocol

import structlog

from controller.http1.heads import Head, Pairs

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Left = Callable[[], None]
Direct = Callable[["Asked"], bool]
"""Takes a request whose body is here, and answers it without the app; False if it does not."""

ABORT: Final = "gpuwarden.abort"
"""In a scope's extensions: ends the connection without finishing the answer."""
LEAVE: Final = "gpuwarden.leave"
"""In a scope's extensions: takes what to call when the client leaves, or None."""
OUTLET: Final = "gpuwarden.outlet"
"""In a scope's extensions: an `Outlet`."""
WRITE: Final = "gpuwarden.write"
"""In a scope's extensions: writes one piece of a begun answer at once; False if it has to be sent the long way."""

JOINED_BYTES: Final = 65_536
"""Two writes cost less than a longer copy."""
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
EMPTY: Final = frozenset({204, 304})
PHRASES: Final = {status.value: status.phrase for status in HTTPStatus}
LINES: Final = {code: f"HTTP/1.1 {code} {PHRASES.get(code, '')}\r\n".encode() for code in range(200, 600)}

_log = structlog.get_logger(__name__)


def answer(status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> bytes:
    """A whole one, the last of its connection."""
    lines = b"".join(b"%b: %b\r\n" % pair for pair in headers)
    return b"%b%bcontent-length: %d\r\nconnection: close\r\n\r\n%b" % (LINES[status], lines, len(body), body)


class Line(Protocol):
    """The connection, as its requests see it."""

    transport: asyncio.Transport
    scope: dict[str, Any]
    """What all its requests have in common, as an app sees it."""
    may_write: asyncio.Event | None
    """Set when its client takes bytes again; None while it does."""

    def taken(self) -> None:
        """The app took what had come of the body."""

    def cut(self, *, reset: bool) -> None: ...

    def end(self, asked: "Asked") -> None:
        """The app is done with it."""

    def failed(self) -> tuple[Pairs, bytes]:
        """What a client is told whose request nobody answered: headers and body of a 500."""
        ...


class Outlet(Protocol):
    """For whoever writes what is framed as a chunk already."""

    transport: asyncio.Transport
    flows: bool
    """It may be written: the answer goes out in chunks, has begun and not ended, and its client is there."""


class Asked:
    __slots__ = (
        "_begins",
        "_chunked",
        "_empty",
        "_expects",
        "_left",
        "_length",
        "_line",
        "_pieces",
        "_told",
        "_waiter",
        "begun",
        "complete",
        "flows",
        "gone",
        "head",
        "held",
        "keep",
        "task",
        "transport",
        "whole",
    )

    def __init__(self, line: Line, head: Head, body: bytes | None = None) -> None:
        """With its body, if that is here as a whole."""
        self._line = line
        self.transport = line.transport
        self.head = head
        self.task: asyncio.Task[None] | None = None
        self.keep = head.keep
        """Another request may follow."""
        self.whole = body is not None
        """Its body has come to its end."""
        self.held = 0
        """Bytes of its body that the app has not taken."""
        self.begun = False
        """Bytes of its answer were written."""
        self.complete = False
        """Its answer was written to its end."""
        self.gone = False
        """Nobody takes the answer any more."""
        self._pieces: list[bytes] = [] if body is None else [body]
        self._told = False
        self._expects = head.expects
        self._begins: bytes | None = None
        self._empty = head.method == "HEAD"
        self._chunked = False
        self.flows = False
        self._length: int | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._left: Left | None = None

    # What the connection tells it.

    async def run(self, app: App) -> None:
        length = sum(map(len, self._pieces)) if self.whole else None
        scope = self.head.scope(self._line.scope, length)  # not kept: they would know each other, and be garbage
        scope["extensions"] = {ABORT: self.cut, LEAVE: self.on_leave, WRITE: self.write, OUTLET: self}
        await self._guarded(app(scope, self.receive, self.send))

    async def _guarded(self, work: Awaitable[None]) -> None:
        try:
            await work
            if not self.complete and not self.gone:
                _log.error("request_unanswered", path=self.head.path)
                self._fail()
        except Exception:  # whatever an app raises, its client has to hear of it, and the next request is not touched
            _log.exception("request_failed", path=self.head.path)
            self._fail()
        finally:
            self.done()

    def take(self, piece: bytes) -> None:
        if not self.complete:
            self._pieces.append(piece)
            self.held += len(piece)
            self._wake()

    def end_of_body(self) -> None:
        self.whole = True
        self._wake()

    def leave(self) -> None:
        """The client left, or can no longer be understood."""
        self.gone, self.flows = True, False
        self._wake()
        if self._left is not None:
            self._left()

    # Where it is answered without the app's task.

    @property
    def outlet(self) -> Outlet:
        return self

    def body(self) -> bytes:
        """Takes it. It has to be here as a whole."""
        assert self.whole  # noqa: S101 - whoever takes a request looks first
        self._told = True
        pieces, self._pieces, self.held = self._pieces, [], 0
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def go_on(self, work: Coroutine[Any, Any, None]) -> None:
        """In a task of its own, as an app's."""
        self.task = asyncio.get_running_loop().create_task(self._guarded(work))

    def done(self) -> None:
        """Nothing more is answered."""
        if not self.complete:
            self.cut()
        self._left = None
        self._line.end(self)

    def answer(self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> bool:
        """Whole, and at once; False, with nothing done, where the client does not take it now."""
        if self.begun or self._begins is not None or self.gone or self._line.may_write is not None:
            return False
        head = self._begin(status, headers)
        if self._length != len(body) or self._empty or not self.keep or len(body) > JOINED_BYTES:
            self._put(body, more=False)
            return True
        self._begins, self.begun, self.complete = None, True, True
        self.transport.write(b"%b\r\n%b" % (head, body))
        if self._waiter is not None:
            self._wake()
        return True

    # The app's side.

    async def receive(self) -> Message:
        while not self.gone and not self.complete:
            if self._pieces or (self.whole and not self._told):
                body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
                self._told = self.whole
                self._pieces, self.held = [], 0
                if not self.whole:
                    self._line.taken()
                return {"type": "http.request", "body": body, "more_body": not self.whole}
            if self._expects:
                self._expects = False
                if not self.begun and not self.whole:
                    self.transport.write(CONTINUE)
            await self._wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        while self._line.may_write is not None and not self.gone:
            await self._line.may_write.wait()
        if self.gone:
            return
        if message["type"] == "http.response.start":
            self._begin(message["status"], message.get("headers", ()))
        else:
            self._put(message.get("body", b""), more=message.get("more_body", False))

    def write(self, piece: bytes) -> bool:
        """Once for each event of a stream."""
        if not self.begun or self.complete or self.gone or self._line.may_write is not None or not piece:
            return False
        if self._chunked:
            self.transport.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            return True
        return False

    def cut(self) -> None:
        """Ends the connection; what was written before still goes out, for a bounded time."""
        if not self.gone:
            self.gone, self.flows = True, False
            # To HTTP/1.0 the end of a connection is the end of an answer: only a reset says that it is none.
            self._line.cut(reset=self.begun and self._length is None and not self._chunked)

    def on_leave(self, left: Left | None) -> None:
        """Told at once of a client that left already."""
        self._left = left
        if self.gone and left is not None:
            left()

    # Its answer.

    def _begin(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
        """The head, but for how its end is told."""
        if self._begins is not None or self.begun:
            raise RuntimeError("an answer begins once")
        parts = [LINES[status]]
        for name, value in headers:
            if name == b"content-length":
                self._length = int(value)
            elif name == b"connection":
                self.keep = self.keep and value.lower() != b"close"
                continue
            elif name == b"transfer-encoding":
                continue
            parts += (name, b": ", value, b"\r\n")
        head = b"".join(parts)
        lines = 1 + len(parts) // 4
        if head.count(b"\n") != lines or head.count(b"\r") != lines:
            raise RuntimeError("a header's value is one line")
        self._empty = self.head.method == "HEAD" or status in EMPTY
        if self._empty:
            self._length = 0
        self._begins = head
        return head

    def _put(self, body: bytes, *, more: bool) -> None:
        if self.complete or (self._begins is None and not self.begun):
            raise RuntimeError("no answer has begun, or it has ended")
        if self._empty:
            body = b""
        if self._length is not None:
            self._count(len(body), more=more)
        head = b""
        if self._begins is not None:
            head, self._begins = self._framed(self._begins, len(body), more=more), None
            self.begun = True
        if self._chunked:
            body = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            if not more:
                body += b"0\r\n\r\n"
        self._out(head, body)
        if not more:
            self.complete, self.flows = True, False
            self._pieces, self.held = [], 0
            self._wake()

    def _framed(self, head: bytes, size: int, *, more: bool) -> bytes:
        """With how its end is told, and whether another request may follow."""
        if self._length is None:
            if not more:
                self._length = size
                head += b"content-length: %d\r\n" % size
            elif self.head.version == "1.0":
                self.keep = False
            else:
                self._chunked = self.flows = True
                head += b"transfer-encoding: chunked\r\n"
        if self._expects and not self.whole:  # a client that was not told to go on may, or may not, send its body
            self.keep = False
        return head + (b"\r\n" if self.keep else b"connection: close\r\n\r\n")

    def _count(self, size: int, *, more: bool) -> None:
        assert self._length is not None  # noqa: S101 - asked before
        self._length -= size
        if self._length < 0 or (self._length and not more):
            raise RuntimeError("the answer is not as long as its head says")

    def _out(self, head: bytes, body: bytes) -> None:
        if len(body) > JOINED_BYTES:
            self.transport.write(head)
            self.transport.write(body)
        elif head or body:
            self.transport.write(head + body)

    def _fail(self) -> None:
        """The app gave no answer, or not to its end."""
        if self.gone or self.complete:
            return
        if self.begun:
            self.cut()
            return
        headers, body = self._line.failed()
        self._begins, self._length, self.keep = None, None, False
        self._begin(500, headers)
        self._put(body, more=False)

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
