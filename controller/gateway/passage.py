"""What became of one request, moment by moment?

Written on by whoever sees it happen, read once at its end for the log and the counts. It knows when and how much, never
what was said. Instants are seconds on the loop's clock; 0 is not yet.
"""

import asyncio
from bisect import bisect_left

from controller.gateway.clients import ANYBODY, Client
from controller.gateway.tally import Histogram, Numbers

UNKNOWN = Numbers()
"""For what was not admitted: it has no model."""


def loop_time() -> float:
    """Now, in a seventh of what asking anyio takes. Whoever asks may be made before the loop runs."""
    return asyncio.get_running_loop().time()


class Passage:
    __slots__ = (
        "_gaps",
        "alias",
        "arrived_at",
        "asked_at",
        "bytes_in",
        "bytes_out",
        "client",
        "deployment",
        "first_at",
        "headers",
        "last_at",
        "numbers",
        "outcome",
        "paid_to",
        "placed_at",
        "request_id",
        "stream",
        "uses",
        "wire",
    )

    def __init__(self, request_id: str, now: float) -> None:
        self.request_id = request_id
        self.headers: list[tuple[bytes, bytes]] = [(b"x-request-id", request_id.encode())]
        """What its answer says beside the model server's own headers."""
        self.client: Client = ANYBODY
        self.alias = ""
        self.wire = ""
        self.stream = False
        self.deployment = ""
        self.outcome = ""
        self.uses: tuple[str, int] | str | None = None
        """The machine, or the start, that it pays a part of; kept by `spending`."""
        self.paid_to = 0.0
        self.arrived_at = now
        self.asked_at = 0.0
        """Since when it has been waiting for a cold model."""
        self.placed_at = 0.0
        self.first_at = 0.0
        self.last_at = 0.0
        self.bytes_in = 0
        self.bytes_out = 0
        self.numbers: Numbers = UNKNOWN
        self._gaps: Histogram | None = None

    def admitted(self, alias: str, numbers: Numbers, *, stream: bool, size: int) -> None:
        self.alias, self.numbers, self.stream, self.bytes_in = alias, numbers, stream, size
        self._gaps = numbers.gaps if stream else None

    def placed(self, deployment: str, now: float) -> None:
        """A machine takes it, perhaps not the first one."""
        if self.asked_at and not self.placed_at:
            self.numbers.waits.observe(now - self.asked_at)
        self.placed_at = now
        self.deployment = deployment

    def passed(self, size: int, now: float) -> None:
        """Bytes of the model's own go to the client. Once for each event of a stream: kept to a few additions."""
        self.bytes_out += size
        if self.last_at:
            gaps = self._gaps
            if gaps is not None:
                gap = now - self.last_at
                gaps.counts[bisect_left(gaps.bounds, gap)] += 1
                gaps.total += gap
        else:
            self.first_at = now
        self.last_at = now

    def waited(self, now: float) -> float:
        return (self.placed_at or now) - self.asked_at if self.asked_at else 0.0

    @property
    def first_byte(self) -> float | None:
        """Seconds from a machine's taking it to its first byte."""
        return self.first_at - self.placed_at if self.first_at else None
