"""How does HTTP/1.1 go over a socket without a library's weight?

On httptools, for the gateway's hot path and for our own API over its sockets; it imports nothing of ours. As a client:
`wire` is what callers see and tests replace, `connection` one socket, `chunks` what passes it without being parsed,
`pool` the real thing. As a server: `server` stands on listening sockets, `accepted` is one client's connection,
`reading` what it asks, `heads` what is known again of that, `asked` one request with its answer; an app sees ASGI, and
what `asked` adds to it, and whoever answers in a turn of the loop sees `asked` alone. Whoever serves imports it from
there: commands that only ask do not load it.
"""

from controller.http1.pool import Pool
from controller.http1.wire import (
    Disconnected,
    Exchanging,
    Headers,
    Incoming,
    Keeping,
    Later,
    NotConnected,
    Outgoing,
    Overdue,
    Sink,
    Through,
    TooLarge,
    Wire,
    WireError,
)

__all__ = [
    "Disconnected",
    "Exchanging",
    "Headers",
    "Incoming",
    "Keeping",
    "Later",
    "NotConnected",
    "Outgoing",
    "Overdue",
    "Pool",
    "Sink",
    "Through",
    "TooLarge",
    "Wire",
    "WireError",
]
