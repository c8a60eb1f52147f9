"""How is an emulator put on a real socket?

uvicorn, with two changes: the application can reset its connection (a provider or a model server that dies does so),
and signals stay with whoever called. Ends when cancelled, after at most a second for answers that are still being
written.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import anyio
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from controller.emulators.exchange import ABORT, App

_BACKLOG = 512
_GRACE_SECONDS = 1


class _AbortableProtocol(HttpToolsProtocol):
    """Tells the application how to reset the connection it answers on."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        extensions: dict[str, Any] = {ABORT: self.transport.abort}
        self.scope["extensions"] = extensions


class _Server(uvicorn.Server):
    """Leaves signals alone (uvicorn would raise them again after the end and skip our clean-up) and ends at once."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for connection in tuple(self.server_state.connections):
            if isinstance(connection, _AbortableProtocol):
                connection.transport.abort()
        await super().shutdown(sockets)


def open_listener(host: str, port: int) -> socket.socket:
    """A bound socket; port 0 takes a free one. Raises OSError if the address is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


async def serve(app: App, *, listen: socket.socket) -> None:
    """Serve `app` on `listen` until cancelled; the socket is closed at the end."""
    config = uvicorn.Config(
        app,
        http=_AbortableProtocol,
        loop="none",
        lifespan="off",
        ws="none",
        access_log=False,
        log_config=None,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    server = _Server(config)
    async with anyio.create_task_group() as group:
        group.start_soon(_end_when_cancelled, server)
        # Shielded: uvicorn must end by its own rules, or its connections and their requests stay behind.
        with anyio.CancelScope(shield=True):
            await server.serve(sockets=[listen])
        group.cancel_scope.cancel()


async def _end_when_cancelled(server: uvicorn.Server) -> None:
    try:
        await anyio.sleep_forever()
    finally:
        server.should_exit = True
