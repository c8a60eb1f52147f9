"""How does the gateway stand on real sockets?

uvicorn in our loop: the composition root binds the sockets and owns the signals. The server adds one thing to a
request's scope, a way to end its connection without finishing the answer; the last bytes are still written out, for a
bounded time. A client that vanished without a word, as by a cut cable, is noticed by the kernel.
"""

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final, cast

import anyio
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from controller.gateway.app import App
from controller.gateway.config import CLIENT_LIMIT
from controller.gateway.reply import ABORT, LEAVE, WRITE

FLUSH_LIMIT: Final = timedelta(seconds=5)
GRACEFUL_S: Final = 2
KEEP_ALIVE_S: Final = 75
PROBE_AFTER_S: Final = 15
PROBE_EVERY_S: Final = 5


class GatewayProtocol(HttpToolsProtocol):
    """uvicorn's own, with a way to cut, and with word of a client that leaves."""

    _left: Callable[[], None] | None = None

    def on_message_begin(self) -> None:
        super().on_message_begin()
        scope = cast(dict[str, Any], self.scope)
        scope["extensions"] = {ABORT: self._cut, LEAVE: self._on_leave, WRITE: self._write}

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._left is not None:
            self._left()

    def _on_leave(self, left: Callable[[], None] | None) -> None:
        self._left = left

    def _write(self, data: bytes) -> bool:
        """A chunk of the answer that is being sent in chunks, past the messages, which were half the cost of an event.

        The next request of a client that does not wait for its answer may have replaced the cycle; no answer of that
        one has begun then.
        """
        cycle = self.cycle
        if not cycle.chunked_encoding or cycle.response_complete or cycle.disconnected or self.flow.write_paused:
            return False
        self.transport.write(b"%x\r\n%b\r\n" % (len(data), data))
        return True

    def _cut(self) -> None:
        if self.cycle is not None:
            self.cycle.disconnected = True  # so that uvicorn neither finishes the answer nor complains
        transport = self.transport
        if not transport.is_closing():
            transport.close()  # writes out what it holds, then ends without the final chunk
            self.loop.call_later(FLUSH_LIMIT.total_seconds(), transport.abort)


class Server(uvicorn.Server):
    """Leaves signals to the composition root: uvicorn would raise SIGTERM again after serving."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def server(app: App) -> Server:
    config = uvicorn.Config(
        cast(Any, app),
        http=GatewayProtocol,
        ws="none",
        loop="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=GRACEFUL_S,
        backlog=2048,
    )
    return Server(config)


def notice_the_vanished(listener: socket.socket) -> None:
    """Have the kernel end connections whose other side answers nothing any more: else one that waits for a plain answer
    is waited for as long as its answer takes, and one whose stream it still acknowledges nothing of for a quarter of an
    hour. What is accepted inherits it, so that it costs no request anything.

    One limit for the three ways not to take a byte: no word to a probe, none to data, or no room for it. A shorter one
    would end clients that pause in their reading.
    """
    if listener.family == socket.AF_UNIX:
        return
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, PROBE_AFTER_S)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PROBE_EVERY_S)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(CLIENT_LIMIT.total_seconds() * 1000))


async def serve(app: App, sockets: Sequence[socket.socket], stopped: anyio.Event) -> None:
    """Serves until `stopped`, then ends within the graceful limit. Takes the sockets."""
    made = server(app)
    for listener in sockets:
        notice_the_vanished(listener)
    async with anyio.create_task_group() as group:

        async def stop() -> None:
            await stopped.wait()
            made.should_exit = True

        group.start_soon(stop)
        await made.serve(sockets=list(sockets))
        group.cancel_scope.cancel()
