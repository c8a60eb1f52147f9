"""How many, how long, how large, for each model and each client?

Plain numbers, so that counting costs next to nothing where events pass; `exposition` makes them what Prometheus reads.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from typing import Final

WAITS: Final = (1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 180.0, 300.0, 420.0, 600.0, 1200.0)
FIRST_BYTES: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 600.0)
GAPS: Final = (0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1.0, 5.0, 30.0)
DURATIONS: Final = (0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)
CLIENTS_MOST: Final = 256
"""Clients with counts of their own; those who come later share `OTHERS`."""
OTHERS: Final = "_others"


class Histogram:
    """Seconds; the last count is of what is above every bound."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.total += seconds


class Numbers:
    """Of one model."""

    __slots__ = ("aborted", "bytes_in", "bytes_out", "durations", "ended", "failures", "first_bytes", "gaps", "waits")

    def __init__(self) -> None:
        self.ended: Counter[tuple[str, str]] = Counter()
        """(wire, outcome): `served`, a word of `closing`, `answered_4xx`, `answered_5xx`, or a refusal's code."""
        self.waits = Histogram(WAITS)
        self.first_bytes = Histogram(FIRST_BYTES)
        self.gaps = Histogram(GAPS)
        self.durations = Histogram(DURATIONS)
        self.bytes_in = 0
        self.bytes_out = 0
        self.aborted: Counter[str] = Counter()
        """Streams that began and did not end as whole answers, by whose doing it was."""
        self.failures: Counter[str] = Counter()
        """What was reported of model servers, by kind."""


class Tally:
    def __init__(self) -> None:
        self.models: defaultdict[str, Numbers] = defaultdict(Numbers)
        """By alias; the empty one is for what names no model of ours."""
        self.clients: defaultdict[str, Counter[str]] = defaultdict(Counter)
        """By name: `served`, `client_gone` or `refused`."""
        self.limited: Counter[tuple[str, str]] = Counter()
        """(client, limit)"""

    def named(self, client: str) -> str:
        """Under which name a client is counted."""
        return client if client in self.clients or len(self.clients) < CLIENTS_MOST else OTHERS
