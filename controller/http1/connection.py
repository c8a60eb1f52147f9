"""What is one socket doing, and how did its exchange end?

One exchange at a time. A task waits for it, or somebody is told in the turn of the loop in which something came: a
task costs more than all else that a short answer needs. What is poured goes on in that turn as well. Reading stops
while nobody takes the pieces, and that pause is not counted as the server's silence. A body without a length ends with
its connection; any other body that ends early is an error, whatever was received.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import Final, cast

import httptools

from controller.http1.chunks import END, size_of_chunk
from controller.http1.wire import Disconnected, Later, Overdue, Sink, Through, WireError

WRITE_LIMIT: Final = timedelta(seconds=120)
# Shorter than the 5 s after which uvicorn, and vLLM on it, close an idle connection: a request must not meet that
# close.
KEEP_ALIVE_S: Final = 4.0
BUFFER_BYTES: Final = 65_536
HEAD_BYTES: Final = 65_536


class Connection(asyncio.Protocol):
    """One socket, and on it one exchange at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._deadline: float | None = None
        self._parser = httptools.HttpResponseParser(self)
        self.told: Callable[[], None] | None = None
        """What to call, where no task waits, whenever bytes came or the exchange ended."""
        self._begin()
        self.busy = False

    def _begin(self) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.pieces: deque[bytes] = deque()
        self.error: WireError | None = None
        self.got_head = False
        self.complete = False
        self._head_bytes = 0
        self._buffered = 0
        self._paused = False
        self._framed = False
        self._announced = False
        self._body_seen = False
        self._reusable = False
        self._head_limit: float | None = None
        self._silence: float | None = None
        self._sink: Sink | None = None
        self._offered: Through | None = None
        self._through: Through | None = None
        """It is asked before the parser: only where the parser stands between two chunks, with a sink that waits."""
        self._between_chunks = False
        self._full: Later | None = None
        self._sink_raised: Exception | None = None

    # What a request does, in order.

    def write(self, head: bytes, body: bytes, limits_s: tuple[float | None, float | None]) -> None:
        """Limits: to the end of the answer's head, and between two pieces of its body."""
        self._begin()
        self.busy = True
        self._head_limit, self._silence = limits_s
        self._arm(self._head_limit)
        assert self._transport is not None  # noqa: S101 - connection_made came first
        if len(body) > BUFFER_BYTES:
            self._transport.write(head)
            self._transport.write(body)
        else:
            self._transport.write(head + body)

    async def head(self) -> None:
        while not self.got_head:
            if self.error is not None:
                raise self.error
            await self._wait()

    async def piece(self) -> bytes | None:
        """The next bytes of the body, or None at its announced end."""
        while True:
            if self.pieces:
                return self.take()
            if self.error is not None:
                raise self.error
            if self.complete:
                return None
            await self._wait()

    async def pour(self, sink: Sink, through: Through | None = None) -> None:
        """Hand every piece to `sink`, or `through`, up to the body's announced end."""
        full: Later | None = None
        while True:
            if full is not None:
                await full()
            if self._sink_raised is not None:
                raise self._sink_raised
            if self.pieces:
                full = sink(self.take())
                continue
            if self.error is not None:
                raise self.error
            if self.complete:
                return
            self._sink, self._offered = sink, through
            try:
                await self._wait()
            finally:
                self._sink = self._offered = self._through = None
            full, self._full = self._full, None

    def _pour_on(self, sink: Sink) -> None:
        try:
            self._full = sink(self.take())
        except Exception as error:  # a callback of the loop has nobody above it: whoever waits gets it
            self._sink_raised = error
        if self._full is not None or self._sink_raised is not None:
            self._sink = None
            self._wake()

    @property
    def still_short(self) -> bool:
        """It is on its way, its length is announced if its head came, and nobody has to take anything yet."""
        under_way = self.error is None and not self.complete and not self._paused
        return under_way and (self._announced or not self.got_head)

    def take(self) -> bytes:
        """What came of the body, and was not taken yet."""
        piece = self.pieces.popleft() if len(self.pieces) == 1 else b"".join(self.pieces)
        self.pieces.clear()
        self._buffered = 0
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
            self._arm(self._silence)
        return piece

    async def _wait(self) -> None:
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is None:
            if self.told is not None:
                self.told()
        elif not self._waiter.done():
            self._waiter.set_result(None)

    @property
    def usable(self) -> bool:
        return self._transport is not None and not self._transport.is_closing() and self.error is None

    def rest(self) -> bool:
        """Stay open for the next exchange, a little while; False if there can be none on it."""
        transport = self._transport
        if not self._reusable or not self.complete or self.pieces or self.error is not None or transport is None:
            return False
        if transport.get_write_buffer_size() or transport.is_closing():
            return False  # an answer may come before the whole request was written
        if self.busy:  # else nothing was written on it: the server has been waiting since the exchange before
            self.busy = False
            self._arm(KEEP_ALIVE_S)
        return True

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # Limits. One timer that looks when it fires: arming it anew for each piece would cost more than passing the piece
    # on.

    def _arm(self, seconds: float | None) -> None:
        if seconds is None:
            self._deadline = None
            return
        self._deadline = self._loop.time() + seconds
        if self._timer is not None:
            if self._timer.when() <= self._deadline:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(self._deadline, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._deadline is None or self._paused:
            return
        if self._through is not None and self._silence is not None:
            self._deadline = max(self._deadline, self._through.heard_at + self._silence)
        if self._loop.time() < self._deadline:
            self._timer = self._loop.call_at(self._deadline, self._look)
        elif self.busy and not self.complete:
            self._fail(Overdue("nothing came within the limit", got_head=self.got_head))
        elif not self.busy:
            self.abort()

    def _fail(self, error: WireError) -> None:
        if self.error is None and not self.complete:
            self.error = error
        self.abort()
        self._wake()

    # asyncio's side.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        through = self._through
        if through is not None:
            size = size_of_chunk(data)
            if size and through.passed(data, size):
                return  # which leaves the parser where it is: it need not see it
            self._through = None
        if self.busy:
            self._read(data)
        else:
            self.abort()

    def _read(self, data: bytes) -> None:
        self._between_chunks = False
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(Disconnected(f"no readable HTTP: {type(error).__name__}", got_head=self.got_head))
            return
        if self._body_seen and not self.complete:  # a head says nothing: vLLM sends it before its first token is due
            self._arm(self._silence)
        if self._sink is None or self.complete:
            self._wake()
        if self._sink is not None and self.pieces:
            self._pour_on(self._sink)
        if self._between_chunks and self._sink is not None and data.endswith(END):  # else the next one's size has begun
            self._through = self._offered

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if exc is None and self.got_head and not self._framed and self.error is None:
            self.complete = True  # a body without a length ends with its connection
        if not self.complete and self.error is None:
            self.error = Disconnected("the connection ended early", got_head=self.got_head)
        self._transport = None
        self._wake()

    def pause_writing(self) -> None:
        self._arm(WRITE_LIMIT.total_seconds())

    def resume_writing(self) -> None:
        if not self.got_head:
            self._arm(self._head_limit)

    # httptools' side.

    def on_message_begin(self) -> None:
        if self.complete:
            raise ValueError("a second answer to one request")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_bytes += len(name) + len(value)
        if self._head_bytes > HEAD_BYTES:
            raise ValueError("the head is too long")
        name = name.lower()
        if name == b"content-length":
            self._framed = self._announced = True
        elif name == b"transfer-encoding":
            self._framed = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:
            self.headers = []
            return
        self._framed = self._framed or status in (204, 304)
        self.status = status
        self.got_head = True

    def on_body(self, body: bytes) -> None:
        self._body_seen = True
        self.pieces.append(body)
        self._buffered += len(body)
        if self._buffered > BUFFER_BYTES and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def on_chunk_header(self) -> None:
        self._between_chunks = False

    def on_chunk_complete(self) -> None:
        self._between_chunks = True

    def on_message_complete(self) -> None:
        self._between_chunks = False
        if not self.got_head:
            return
        self.complete = True
        self._reusable = self._parser.should_keep_alive()
        self._deadline = None
