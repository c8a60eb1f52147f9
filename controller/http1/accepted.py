"""In which order is what one client asks answered, and when does its connection end?

One request at a time is with the app. What a client asks before its turn waits; while much waits nothing more is read,
nor while nobody takes a body. What cannot be read is refused in its turn, after what was asked before it, and is the
connection's last. A head has to come within a limit, a kept connection rests for a limit, and whoever is told that its
connection ends gets the time to read it.
"""

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, cast

from controller.http1.asked import App, Asked, Direct, answer
from controller.http1.heads import Pairs
from controller.http1.reading import Misread, Reading

BUFFER_BYTES: Final = 65_536
WAITING_MOST: Final = 8
"""Requests before their turn. While it is read on, it is seen that a client leaves."""
RESET: Final = struct.pack("ii", 1, 0)

Words = Callable[[int, str], tuple[Pairs, bytes]]
"""Headers and body of a refusal: by its status and its reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    keep_alive: timedelta = timedelta(seconds=75)
    """For a connection that rests, and for a client that takes nothing of an answer's end."""
    patience: timedelta = timedelta(seconds=30)
    """For a head from its first byte, for the rest of a body that nobody wants, for a client to hear its refusal."""
    flush: timedelta = timedelta(seconds=5)
    """For what was written before a cut."""
    graceful: timedelta = timedelta(seconds=2)
    """For what is open when the server ends."""


class Door:
    """What all connections of a server share."""

    def __init__(self, app: App, words: Words, limits: Limits, direct: Direct | None = None) -> None:
        self.app = app
        self.direct = direct
        self.words = words
        self.keep_alive_s = limits.keep_alive.total_seconds()
        self.patience_s = limits.patience.total_seconds()
        self.flush_s = limits.flush.total_seconds()
        self.loop = asyncio.get_running_loop()
        self.connections: set[Accepted] = set()
        self.closing = False
        self.none_left = asyncio.Event()
        self.none_left.set()

    def entered(self, connection: "Accepted") -> None:
        self.connections.add(connection)
        self.none_left.clear()

    def left(self, connection: "Accepted") -> None:
        self.connections.discard(connection)
        if not self.connections:
            self.none_left.set()


class Accepted(asyncio.Protocol):
    def __init__(self, door: Door) -> None:
        self._door = door
        self.transport: asyncio.Transport
        self.scope: dict[str, Any]
        self.may_write: asyncio.Event | None = None
        self._next: deque[Asked] = deque()
        self._reading: Reading
        self._asked: Asked | None = None
        """It is with the app."""
        self._deaf = False
        """Nothing that comes is read any more."""
        self._fault: Misread | None = None
        self._lost = False
        self._paused = False
        self._hurried = False
        """It is counted how long a head takes."""
        self._discarding = False
        """A body goes on coming whose request was answered."""
        self._ending = False
        """Its client is given the time to close."""
        self._cut = False
        self._unsent = 0
        self._timer: asyncio.TimerHandle | None = None
        self._deadline: float | None = None

    # The server's side.

    def stop(self) -> None:
        """Ends it after the request that is with the app; at once if there is none."""
        self._next.clear()
        self._fault = None
        if self._asked is None:
            self._deaf = True
            self.transport.close()
        else:
            self._asked.keep = False
            self._deaf = self._reading.coming is not self._asked  # else the rest of its body is waited for

    def abort(self) -> None:
        self.transport.abort()
        asked = self._asked
        if asked is not None and asked.task is not None:
            asked.task.cancel()
            asked.task.add_done_callback(lambda _: self.end(asked))  # it may be cancelled before it began

    # asyncio's side.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._door.entered(self)
        self.scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "scheme": "http",
            "root_path": "",
            "server": _address(transport.get_extra_info("sockname")),
            "client": _address(transport.get_extra_info("peername")),
        }
        self._reading = Reading(self, self._next)
        if self._door.closing:
            self.stop()
        self._arm(self._door.keep_alive_s)

    def data_received(self, data: bytes) -> None:
        reading = self._reading
        if self._deaf or reading.last:
            return
        try:
            reading.feed(data)
        except Misread as fault:
            self._misread(fault)
        if self._asked is None:
            self._go_on()
        if self._next or reading.coming is not None:
            self._pace()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self.may_write = asyncio.Event()

    def resume_writing(self) -> None:
        if self.may_write is not None:
            self.may_write.set()
            self.may_write = None

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = self._deaf = True
        self._reading.close()
        self._next.clear()
        if self._timer is not None:
            self._timer.cancel()
        if self._asked is not None:
            self._asked.leave()
        else:
            self._door.left(self)
        self.resume_writing()

    # The app's side.

    def taken(self) -> None:
        self._pace()

    def failed(self) -> tuple[Pairs, bytes]:
        return self._door.words(500, "the request could not be answered")

    def end(self, asked: Asked) -> None:
        if self._asked is not asked:
            return
        self._asked = None
        if self._lost:
            self._door.left(self)
        elif self._ending or self.transport.is_closing():
            return
        elif not asked.keep:
            self._close()
        elif self._next or self._fault is not None:
            self._go_on()
            self._pace()
        else:
            self._rest()

    def cut(self, *, reset: bool) -> None:
        if self.transport.is_closing():
            return
        own = self.transport.get_extra_info("socket")
        if reset and own is not None and own.family != socket.AF_UNIX:
            own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self._cut = True
        self.transport.close()  # writes out what it holds, then ends without the final chunk
        self._arm(self._door.flush_s)

    # What is next.

    def _go_on(self) -> None:
        """Nothing is with the app."""
        if self._next:
            asked = self._asked = self._next.popleft()
            self._deadline = None
            door = self._door
            if door.direct is None or not asked.whole or not door.direct(asked):
                asked.task = door.loop.create_task(asked.run(door.app))
        elif self._fault is not None:
            self._refuse(self._fault)
        elif self._reading.in_head:
            if not self._hurried:
                self._hurried = True
                self._arm(self._door.patience_s)
        elif self._discarding and self._reading.coming is None:
            self._rest()

    def _rest(self) -> None:
        self._hurried, self._discarding = self._reading.in_head, self._reading.coming is not None
        door = self._door
        self._arm(door.patience_s if self._hurried or self._discarding else door.keep_alive_s)
        if self._paused:
            self._pace()

    def _pace(self) -> None:
        """No more is read than what somebody takes."""
        coming = self._reading.coming
        full = len(self._next) > WAITING_MOST or (coming is not None and coming.held > BUFFER_BYTES)
        if full == self._paused or self.transport.is_closing():
            return
        self._paused = full
        if full:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()

    def _misread(self, fault: Misread) -> None:
        self._deaf = True
        self._fault = fault
        coming, self._reading.coming = self._reading.coming, None
        if coming is None:
            return
        if self._next and self._next[-1] is coming:
            self._next.pop()  # what is wrong is its body: it is refused in its place
        elif coming.complete:
            self._fault, coming.keep = None, False
            if self._asked is None:
                self._close()
        else:
            if coming.begun:
                coming.cut()
            else:
                self._refuse(fault)
            coming.leave()

    # How it ends.

    def _refuse(self, fault: Misread) -> None:
        self._fault = None
        self.transport.write(answer(fault.status, *self._door.words(fault.status, fault.why)))
        self._linger()

    def _close(self) -> None:
        if self._reading.coming is not None:
            self._linger()
        else:
            self._deaf = True
            self.transport.close()
            self._arm(self._door.keep_alive_s)

    def _linger(self) -> None:
        """A socket that is closed on a client that still writes resets it, and what it was told may be lost with that:
        so it closes first, within a limit."""
        self._deaf = True
        self._reading.coming = None
        self._ending = True
        self._next.clear()
        self._pace()
        self.transport.write_eof()
        self._arm(self._door.patience_s)

    # Limits. One timer that looks when it fires, as a connection of our own has it.

    def _arm(self, limit_s: float) -> None:
        self._deadline = self._door.loop.time() + limit_s
        if self._timer is not None:
            if self._timer.when() <= self._deadline:
                return
            self._timer.cancel()
        self._timer = self._door.loop.call_at(self._deadline, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._deadline is None:
            return
        if self._door.loop.time() < self._deadline:
            self._timer = self._door.loop.call_at(self._deadline, self._look)
        elif self._hurried and self._reading.in_head and not self._deaf:
            self._misread(Misread(408, "the head of the request did not come within the limit"))
            self._go_on()
        else:
            self._give_up()

    def _give_up(self) -> None:
        """Unless its client is still taking an answer."""
        unsent = self.transport.get_write_buffer_size()
        if not self._cut and unsent and unsent != self._unsent:
            self._unsent = unsent
            self._arm(self._door.keep_alive_s)
        else:
            self.transport.abort()


def _address(found: Any) -> tuple[str, int] | None:
    """None for a socket in the file system."""
    return (str(found[0]), int(found[1])) if isinstance(found, tuple) else None
