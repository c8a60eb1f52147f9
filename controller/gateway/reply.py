"""What has the client been told so far, and how can its answer still end?

An answer begins once. Before that a refusal is a whole answer; afterwards it is one last event with an error,
and the connection is cut without the final chunk, so that no client takes what it got for a whole answer (B47).
Comments keep a waiting event stream alive and never look like content.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from typing import Any, Final, Protocol

from controller.gateway.passage import Passage
from controller.gateway.refusals import Refused, Voice
from controller.http1 import Later
from controller.http1.asked import ABORT, LEAVE, OUTLET, WRITE, Outlet

Headed = list[tuple[bytes, bytes]]
Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]

BOUNDARIES: Final = (b"\n\n", b"\r\n\r\n")
EVENT_STREAM: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]


class CutOff(Exception):
    """Raised to a server that offers no way to cut a connection: it then cuts it itself."""


class Way(Protocol):
    """To one client, for one answer."""

    @property
    def on_leave(self) -> Callable[[Callable[[], None] | None], None] | None:
        """Takes what to call when the client leaves; None where that has to be watched for."""
        ...

    @property
    def outlet(self) -> Outlet | None:
        """For what is framed already; None where there is none."""
        ...

    def send(self, message: Message, /) -> Awaitable[None]:
        """As ASGI has it."""
        ...

    def answer(self, status: int, headers: Headed, body: bytes) -> bool:
        """A whole one at once; False, with nothing sent, if it has to be sent the long way."""
        ...

    def write(self, piece: bytes) -> bool:
        """A piece of a begun one at once; False, with nothing sent, if it has to be sent the long way."""
        ...

    def cut(self) -> None:
        """Ends the connection without finishing the answer. Raises `CutOff` where only the server can."""


class OverAsgi:
    """The way of an app, with what our own server offers beside."""

    def __init__(self, send: Send, scope: MutableMapping[str, Any]) -> None:
        extensions = scope.get("extensions") or {}
        self._abort: Callable[[], None] | None = extensions.get(ABORT)
        self.on_leave: Callable[[Callable[[], None] | None], None] | None = extensions.get(LEAVE)
        self.write: Callable[[bytes], bool] = extensions.get(WRITE, _not_at_once)
        self.outlet: Outlet | None = extensions.get(OUTLET)
        self.send = send

    def answer(self, status: int, headers: Headed, body: bytes) -> bool:
        return False

    def cut(self) -> None:
        if self._abort is None:
            raise CutOff
        self._abort()


def _not_at_once(piece: bytes) -> bool:
    return False


class Reply:
    def __init__(self, way: Way, passage: Passage, voice: Voice = Voice.OPENAI) -> None:
        self.passage = passage
        self._voice = voice
        self._way = way
        self._write = way.write
        self.on_leave = way.on_leave
        self._now = asyncio.get_running_loop().time
        self.status: int | None = None
        self.events = False
        """The answer is an event stream."""
        self.plain = False
        """It is to be no event stream, and none is begun for it while it is being kept."""
        self.content = False
        """Bytes of the model's own were sent."""
        self.done = False
        self.sending_since: float | None = None
        """Since when the client has been taking nothing, on the loop's clock."""
        self._sent: bytes = b""
        self.begun_at = passage.arrived_at
        """When its request began to arrive."""
        self._sent_at = self.begun_at

    @property
    def outlet(self) -> Outlet | None:
        return self._way.outlet

    @property
    def begun(self) -> bool:
        return self.status is not None

    @property
    def takes_comment(self) -> bool:
        """It is an event stream, and stands between two events: nothing is being written, and none is half written."""
        return (
            self.events
            and not self.done
            and self.sending_since is None
            and (not self.content or self._sent.endswith(BOUNDARIES))
        )

    @property
    def sent_at(self) -> float:
        """When something was last sent, or passed by; before that, when it was asked for."""
        return max(self._sent_at, self.passage.last_at)

    async def start(self, status: int, headers: Headed, *, events: bool = False) -> None:
        if events:  # its length is not the model server's: comments are put between, an error at its end
            headers = [pair for pair in headers if pair[0] != b"content-length"]
        self.status = status
        self.events = events
        await self._send({"type": "http.response.start", "status": status, "headers": headers + self.passage.headers})

    async def open_events(self) -> None:
        """Begins a stream whose content is still to come."""
        await self.start(200, EVENT_STREAM, events=True)

    async def comment(self, text: str) -> None:
        await self._body(f": {text}\n\n".encode())

    async def piece(self, data: bytes) -> None:
        self.content = True
        self.passage.passed(len(data), self._now())
        self._sent = data
        await self._body(data)

    def push(self, data: bytes) -> Later | None:
        """As `piece`, at once where the client takes it; else what is to be done."""
        self.content = True
        self._sent, self._sent_at = data, self._now()
        self.passage.passed(len(data), self._sent_at)
        if self._write(data):
            return None
        self.sending_since = self._sent_at
        return partial(self._body, data)

    async def last_piece(self, data: bytes) -> None:
        self.content = True
        self.passage.passed(len(data), self._now())
        self.done = True
        await self._send({"type": "http.response.body", "body": data, "more_body": False})

    async def finish(self) -> None:
        self.done = True
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def whole(self, status: int, headers: Headed, body: bytes) -> None:
        await self.start(status, [*headers, (b"content-length", b"%d" % len(body))])
        self.done = True
        await self._send({"type": "http.response.body", "body": body, "more_body": False})

    def at_once(self, status: int, headers: Headed, body: bytes) -> bool:
        """The model's own whole answer, where the client takes it now; else False, and nothing is sent."""
        if not self._way.answer(status, headers + self.passage.headers, body):
            return False
        self.status = status
        self.done = True
        self.passage.passed(len(body), self._now())
        return True

    async def refuse(self, refused: Refused) -> None:
        """The one ending for whatever went wrong, at any moment."""
        if not self.begun:
            headers = [(b"content-type", b"application/json"), *refused.headers()]
            await self.whole(refused.status, headers, refused.body(self._voice))
            return
        if self.events:
            await self._body(refused.event(self._voice))
        self.cut()

    def cut(self) -> None:
        """Ends the connection without finishing the answer."""
        self.done = True
        self._way.cut()

    async def _body(self, data: bytes) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def _send(self, message: Message) -> None:
        self._sent_at = self.sending_since = self._now()
        await self._way.send(message)
        self.sending_since = None
