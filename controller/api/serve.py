"""How does an app stand on a Unix socket?

Bound by us, under a umask, so that the file never exists with another mode than it should have; a file that a crash
left is taken away, one that somebody listens on is not. uvicorn in our loop leaves signals alone and sleeps until it
has to end; it ends within its grace, since those who wait are answered when `closing` is set.
"""

import errno
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import anyio
import uvicorn
from anyio.abc import TaskStatus

from controller.api.board import Closing

BACKLOG: Final = 128
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


def bind_unix(place: Path, *, mode: int) -> socket.socket:
    """A listening socket at `place`, with exactly `mode`. Raises OSError."""
    _clear_stale(place)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o777 & ~mode)
    try:
        listener.bind(str(place))
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except OSError as problem:
        listener.close()
        raise OSError(problem.errno, f"{place}: {problem.strerror or problem}") from problem
    finally:
        os.umask(before)
    return listener


def _clear_stale(place: Path) -> None:
    """Take away what a crash left; raises OSError for anything that is in use or is no socket."""
    try:
        found = place.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise FileExistsError(f"{place} is there and is no socket")
    if _listened_on(place):
        raise OSError(errno.EADDRINUSE, f"{place}: somebody listens there already")
    place.unlink(missing_ok=True)


def _listened_on(place: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
        try:
            caller.connect(str(place))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        return True


def _release(place: Path, listener: socket.socket) -> None:
    listener.close()
    place.unlink(missing_ok=True)
