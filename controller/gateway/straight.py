"""How does one event of a stream pass?

Most pass as they came: a chunk of whole events in which no sign of a failure or of the end can be found, between two
events, for a client that takes bytes. It is written as it was read. What is not sure goes the long way: out of its
frame, through `Events`, and framed anew.

Both ways keep the same accounts. With hundreds of streams nothing of one is in the processor's cache when its next
event comes, and to fetch it there takes longer than all that is done with it. So one object has what the short way
needs, the accounts that are read at times only are kept in one place, and neither asks the reply, the connection or
`Events`.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from controller.gateway.events import Events
from controller.gateway.reply import BOUNDARIES, Reply
from controller.gateway.stream_leases import NoUse, Use
from controller.http1 import Later

FRAMED_ENDS: Final = (b"\n\n\r\n", b"\r\n\r\n\r\n")
"""An event's end, and behind it its chunk's."""
SHORTEST: Final = 4
"""With fewer bytes in it, what frames a chunk may look like an event's end."""

Begin = Callable[[bytes], Awaitable[None]]


class Straight:
    """A `Through`; `take` is the sink beside it."""

    __slots__ = (
        "_begin",
        "_between",
        "_events",
        "_hints",
        "_lease",
        "_outlet",
        "_passage",
        "_reply",
        "_transport",
        "_use",
    )

    def __init__(self, events: Events, reply: Reply, use: Use | NoUse, begin: Begin) -> None:
        """`begin` passes the first events, with the answer's head."""
        self._events = events
        self._reply = reply
        self._use = use
        self._begin = begin
        self._hints = events.hints
        self._passage = reply.passage
        self._lease = use.lease
        self._outlet = reply.outlet
        self._transport = None if reply.outlet is None else reply.outlet.transport
        self._between = False
        """The client has whole events, and nothing is held."""

    def passed(self, chunk: bytes, size: int) -> bool:
        outlet, transport, lease = self._outlet, self._transport, self._lease
        if not self._between or size < SHORTEST or not chunk.endswith(FRAMED_ENDS):
            return False
        if outlet is None or transport is None or lease is None:
            return False
        for hint in self._hints:
            if chunk.find(hint) >= 0:
                return False
        if not outlet.flows or transport.get_write_buffer_size():
            return False
        transport.write(chunk)
        lease.last_byte_at = now = lease.now()
        self._passage.passed(size, now)
        return True

    @property
    def heard_at(self) -> float:
        return self._passage.last_at

    def take(self, piece: bytes) -> Later | None:
        self._use.byte_came()
        whole = self._events.take(piece)
        self._between = not self._events.held and whole.endswith(BOUNDARIES)
        if not whole:
            return None
        return self._reply.push(whole) if self._reply.begun else partial(self._begin, whole)
