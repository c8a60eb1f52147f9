"""What has a pod cost, and when is the account empty?

Nothing ticks: a meter knows its rate and since when, so the amount at any moment is arithmetic, and so is the moment
at which the balance reaches zero. GPUs bill from creation until the pod ends; a stopped pod bills its volume only, at
twice the running rate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

HOUR: float = 3600.0
MONTH: float = 30 * 24 * HOUR
DISK_USD: float = 0.10
STOPPED_VOLUME_USD: float = 0.20
STORAGE_USD: float = 0.07
LARGE_STORAGE_USD: float = 0.05
FAST_STORAGE_USD: float = 0.14
"""Seen in the console's dialog for 200 and 300 GB (28 and 42 USD a month); no document has it, nor whether more than a
terabyte is cheaper."""
_LARGE_GB = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """USD per second. `gpu` also says whether these seconds count as billed ones."""

    gpu: float = 0.0
    disk: float = 0.0
    counts: bool = False

    @property
    def usd(self) -> float:
        return self.gpu + self.disk


NOTHING = Rate()


def running_rate(*, usd_per_hour: float, disk_gb: int, volume_gb: int) -> Rate:
    return Rate(gpu=usd_per_hour / HOUR, disk=(disk_gb + volume_gb) * DISK_USD / MONTH, counts=True)


def stopped_rate(*, volume_gb: int) -> Rate:
    return Rate(disk=volume_gb * STOPPED_VOLUME_USD / MONTH)


def storage_rate(*, size_gb: int, fast: bool) -> Rate:
    """Of a network volume: of the standard kind, what lies beyond a terabyte is cheaper."""
    if fast:
        return Rate(disk=size_gb * FAST_STORAGE_USD / MONTH)
    usd = min(size_gb, _LARGE_GB) * STORAGE_USD + max(0, size_gb - _LARGE_GB) * LARGE_STORAGE_USD
    return Rate(disk=usd / MONTH)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A time at one rate."""

    start: float
    end: float
    rate: Rate


@dataclass(slots=True, kw_only=True)
class Meter:
    """One pod's bill. `seconds` and the amounts hold what was billed up to `since`; `_past` has the spans before."""

    since: float
    rate: Rate = NOTHING
    seconds: float = 0.0
    gpu_usd: float = 0.0
    disk_usd: float = 0.0
    _past: list[Span] = field(default_factory=list)
    _rate_since: float | None = None

    def settle(self, now: float) -> None:
        span = max(0.0, now - self.since)
        self.gpu_usd += span * self.rate.gpu
        self.disk_usd += span * self.rate.disk
        self.seconds += span if self.rate.counts else 0.0
        self.since = max(now, self.since)

    def change(self, rate: Rate, now: float) -> None:
        if self._rate_since is None:
            self._rate_since = self.since
        self.settle(now)
        if rate == self.rate:
            return
        if self.rate != NOTHING:
            self._past.append(Span(start=self._rate_since, end=self.since, rate=self.rate))
        self.rate, self._rate_since = rate, self.since

    def spans(self, now: float) -> list[Span]:
        """The whole life, in times of one rate each."""
        self.settle(now)
        present = Span(start=self._rate_since or self.since, end=self.since, rate=self.rate)
        return [*self._past, present]

    def backdate(self, at: float) -> None:
        """It has billed at the present rate since then."""
        self.since = self._rate_since = at

    def read(self, now: float, *, quantum: float) -> tuple[float, float]:
        """Billed seconds and USD at `now`, in whole steps of `quantum` if there is one."""
        self.settle(now)
        gpu_usd, seconds = self.gpu_usd, self.seconds
        if quantum > 0 and seconds > 0:
            steps = math.ceil(seconds / quantum) * quantum
            gpu_usd, seconds = gpu_usd * steps / seconds, steps
        return seconds, gpu_usd + self.disk_usd


@dataclass(slots=True, kw_only=True)
class Purse:
    """The account's money: `usd` at `since`, falling by `rate` USD per second."""

    usd: float
    since: float
    rate: float = 0.0

    def at(self, now: float) -> float:
        return self.usd - self.rate * max(0.0, now - self.since)

    def change(self, difference: float, now: float) -> None:
        self.usd, self.since = self.at(now), now
        self.rate = max(0.0, self.rate + difference)

    def fill(self, usd: float, now: float) -> None:
        self.usd, self.since = usd, now

    def empty_at(self) -> float | None:
        """When nothing is left, or None if nothing is being spent."""
        if self.rate <= 0:
            return None
        return self.since + max(0.0, self.usd) / self.rate
