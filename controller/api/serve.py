"""How does an app stand on a Unix socket?

uvicorn in our loop leaves signals alone and sleeps until it has to end; it ends within its grace, since those who wait
are answered when `closing` is set.
"""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import anyio
import uvicorn
from anyio.abc import TaskStatus

from controller.api.binding import bind_unix
from controller.api.board import Closing

GRACEFUL_S: Final = 2
KEEP_ALIVE_S: Final = 75
"""Longer than a gateway's ten seconds between two renewals, so that it keeps its connection."""


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, ending: anyio.Event) -> None:
        super().__init__(config)
        self._ending = ending

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """uvicorn would raise SIGTERM again after serving, and nothing after it would run."""
        yield

    async def main_loop(self) -> None:
        """uvicorn's own wakes ten times a second."""
        await self._ending.wait()


async def serve_unix(
    app: Any,
    path: Path | str,
    *,
    mode: int,
    closing: Closing,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until `closing` is set or cancelled, then end within about two seconds; being cancelled sets `closing`.

    Started means that callers may connect. Raises OSError if somebody listens there already, or the place cannot be
    used.
    """
    place = Path(path)
    listener = bind_unix(place, mode=mode)
    ending = anyio.Event()
    server = _Server(_config(app), ending)
    task_status.started()
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_end_when_closing, ending, closing)
            # Shielded: uvicorn ends by its own rules, or its connections and their requests stay behind.
            with anyio.CancelScope(shield=True):
                await server.serve(sockets=[listener])
            group.cancel_scope.cancel()
    finally:
        _release(place, listener)


async def _end_when_closing(ending: anyio.Event, closing: Closing) -> None:
    try:
        await closing.wait()
    finally:
        closing.set()
        ending.set()


def _config(app: Any) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http="httptools",
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
    )


def _release(place: Path, listener: socket.socket) -> None:
    listener.close()
    place.unlink(missing_ok=True)
