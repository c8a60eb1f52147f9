"""How does the gateway stand on real sockets?

On a server of our own: the composition root binds the sockets and owns the signals. What its clients are told when
there is no request to speak of is said here. A client that vanished without a word, as by a cut cable, is noticed by
the kernel.
"""

import socket
from collections.abc import Sequence
from typing import Final

import anyio

from controller.core.errors import Code
from controller.gateway.config import CLIENT_LIMIT
from controller.gateway.refusals import Refused
from controller.http1 import server
from controller.http1.asked import App, Direct

PROBE_AFTER_S: Final = 15
PROBE_EVERY_S: Final = 5


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


async def serve(
    app: App, sockets: Sequence[socket.socket], stopped: anyio.Event, *, direct: Direct | None = None
) -> None:
    """Serves until `stopped`, then ends within the graceful limit. Takes the sockets."""
    for listener in sockets:
        notice_the_vanished(listener)
    await server.serve(app, sockets, stopped, words=_words, direct=direct)


def _words(status: int, why: str) -> tuple[list[tuple[bytes, bytes]], bytes]:
    code = Code.BAD_REQUEST if status < 500 else Code.NOT_SERVED
    return [(b"content-type", b"application/json")], Refused(code, why, status=status).body()
