"""What may be asked of a wire, and how surely is it known what became of it?

Three endings are told apart. Not connected: no byte was written, so the request may be sent again. Disconnected and
overdue: it may have been carried out, so whoever asked must judge. Limits are given with each request, because a
probe, a long poll and a stream of words have nothing in common. `Wire` is the seam for tests: they put an app in its
place.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

Headers = tuple[tuple[bytes, bytes], ...]
Later = Callable[[], Awaitable[None]]
Sink = Callable[[bytes], Later | None]
"""Takes a piece at once; what it returns, if anything, has to be done before it is given another."""


class Through(Protocol):
    """What may stand before a sink, for what need not be taken out of its frame."""

    def passed(self, chunk: bytes, size: int) -> bool:
        """Takes one whole chunk at once as it came, with the size of what is in it. Where it says False it has done
        nothing, and the sink gets the piece."""
        ...

    @property
    def heard_at(self) -> float:
        """When it last took one, on the loop's clock."""
        ...


@dataclass(slots=True, kw_only=True)
class Outgoing:
    """One request. `None` as a limit means that there is none. Not frozen, as freezing costs each request more than
    its head does; nobody changes one."""

    method: str
    url: str
    headers: Headers = field(default=(), repr=False)
    body: bytes = field(default=b"", repr=False)
    """Neither is shown: one carries keys, the other prompts."""
    head_limit: timedelta | None = timedelta(seconds=30)
    """From the last byte written to the end of the answer's head."""
    silence_limit: timedelta | None = timedelta(seconds=30)
    """Between two pieces of the body, while somebody is taking them."""
    lines: bytes = field(default=b"", init=False, repr=False)
    """Its head but for the body's length, kept by whoever wrote it once."""
    limits_s: tuple[float | None, float | None] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.limits_s = _seconds(self.head_limit), _seconds(self.silence_limit)

    def carrying(self, body: bytes) -> "Outgoing":
        """The same request with this body."""
        return Outgoing(
            method=self.method,
            url=self.url,
            headers=self.headers,
            body=body,
            head_limit=self.head_limit,
            silence_limit=self.silence_limit,
        )


def _seconds(limit: timedelta | None) -> float | None:
    return None if limit is None else limit.total_seconds()


class Incoming(Protocol):
    """One answer. Whoever holds it closes it, on every path."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Headers:
        """Names in lower case."""
        ...

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it comes. Raises `Disconnected` or `Overdue` when it does not end as announced."""
        ...

    async def pour(self, sink: Sink, through: Through | None = None) -> None:
        """The body as it comes into `sink`, to its end: what `chunks` does without a task's turn for each piece. Raises
        the same, and what `sink` raises. Whole chunks are offered to `through` first, or they are not."""
        ...

    async def read(self, limit: int) -> bytes:
        """The whole body. Raises `TooLarge` beyond `limit` bytes."""
        ...

    def close(self) -> None:
        """Gives the connection back if the body was read to its end, else aborts it. Any number of times."""
        ...


class Exchanging(Incoming, Protocol):
    """An answer from before its request was written. It has neither status nor headers until `head` or `ended_well`
    found them."""

    def write(self, request: Outgoing, body: bytes, told: Callable[[], None] | None = None) -> None:
        """Its request, once, with this body in place of its own. `told` is called whenever something came, or it ended,
        until it is closed, or a task goes on with it."""
        ...

    def ended_well(self) -> bool:
        """All of it came as it was announced."""
        ...

    def came_in_part(self) -> bool:
        """Some of its body is there."""
        ...

    def taken(self) -> bytes:
        """What came of the body, and was not taken yet."""
        ...

    @property
    def still_short(self) -> bool:
        """It has neither ended nor grown long, and may be waited for whole."""
        ...

    async def head(self) -> None:
        """Until status and headers are known. Raises `Disconnected` or `Overdue`, and then it is closed."""
        ...


class Wire(Protocol):
    async def send(self, request: Outgoing) -> Incoming:
        """Raises `NotConnected`, `Disconnected` or `Overdue`."""
        ...


class Keeping(Wire, Protocol):
    """One that keeps connections."""

    def kept(self, url: str) -> Exchanging | None:
        """On a connection that stands already, in the very turn; None where there is none. Whoever gets it closes
        it."""
        ...


class WireError(Exception):
    """The answer did not come, or not to its end."""

    def __init__(self, detail: str, *, got_head: bool = False) -> None:
        super().__init__(detail)
        self.got_head = got_head


class NotConnected(WireError):
    """No byte of the request was written."""


class Disconnected(WireError):
    """The connection ended, or spoke no HTTP, after bytes were written."""


class Overdue(WireError):
    """A limit passed after bytes were written."""


class TooLarge(WireError):
    """The body is longer than the reader takes."""
