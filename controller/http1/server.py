"""How does an app stand on sockets, and how does it end?

Sockets are bound by whoever calls. At the end nothing new is accepted, connections that rest are closed at once, and
those at work have a limit to end in; then their tasks are cancelled and they are aborted. Being cancelled ends
everything without that limit. Nothing outlives `serve`, but a task that swallows its cancellation.
"""

import asyncio
import socket
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Final

import anyio

from controller.http1.accepted import Accepted, Door, Limits, Words
from controller.http1.asked import App, Direct

BACKLOG: Final = 2048
DEFAULTS: Final = Limits()
ENDING_LIMIT: Final = timedelta(seconds=2)


async def serve(
    app: App,
    sockets: Sequence[socket.socket],
    stopped: anyio.Event,
    *,
    words: Words,
    direct: Direct | None = None,
    limits: Limits = DEFAULTS,
) -> None:
    """Until `stopped`, and then until all is answered or the graceful limit is over. Takes the sockets. What `direct`
    takes does not reach the app."""
    door = Door(app, words, limits, direct)
    servers: list[asyncio.Server] = []
    try:
        for listener in sockets:
            made = partial(Accepted, door)
            servers.append(await door.loop.create_server(made, sock=listener, backlog=BACKLOG))
        await stopped.wait()
        _close(door, servers, sockets)
        for connection in list(door.connections):
            connection.stop()
        with anyio.move_on_after(limits.graceful.total_seconds()):
            await door.none_left.wait()
    finally:
        _close(door, servers, sockets)
        for connection in list(door.connections):
            connection.abort()
        with anyio.move_on_after(ENDING_LIMIT.total_seconds(), shield=True):
            await door.none_left.wait()


def _close(door: Door, servers: Sequence[asyncio.Server], sockets: Sequence[socket.socket]) -> None:
    door.closing = True
    for server in servers:
        server.close()
    for listener in sockets:
        listener.close()
