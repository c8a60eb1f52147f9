"""How does one HTTP/1.1 request reach a server without a library's weight?

A client on httptools for the gateway's hot path and for our own API over its sockets: `wire` is what callers see and
tests replace, `connection` one socket, `pool` the real thing. It imports nothing of ours.
"""

from controller.http1.pool import Pool
from controller.http1.wire import (
    Disconnected,
    Headers,
    Incoming,
    Later,
    NotConnected,
    Outgoing,
    Overdue,
    Sink,
    TooLarge,
    Wire,
    WireError,
)

__all__ = [
    "Disconnected",
    "Headers",
    "Incoming",
    "Later",
    "NotConnected",
    "Outgoing",
    "Overdue",
    "Pool",
    "Sink",
    "TooLarge",
    "Wire",
    "WireError",
]
