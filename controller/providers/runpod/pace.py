"""When may the next call of each kind leave?

After a 429, or a 503 that names a time, nothing is called until that time is over; a stop waits 300 s at most, since a
machine that nobody wants bills meanwhile. If a stop was turned away, by us or by the provider, stops go first when the
time is over: what was asked of us is fewer calls, and a listing is worth less than a stop.

So that it seldom comes to that, the last calls of each window that the provider counts in are kept for stops: reads
and creates wait for the next window, with what the answers say is left. No stop waits for such a forecast. To be wrong
about it costs a stop one refused call, to heed it may cost a machine.

Who is told no time waits longer each time. What is no stop comes back a little later than it may, by a draw: several
controllers of one account would all return in the same moment.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from controller.clock import Clock
from controller.core.timekeeping import AGREED
from controller.ids import Randomness
from controller.providers.errors import HeldBack
from controller.providers.runpod.wire import instant_of, said_at

STOP_WAIT_MAX: Final = timedelta(seconds=300)
WAIT_MAX: Final = timedelta(days=1)  # the longest window that the provider counts calls in
WAIT_MIN: Final = timedelta(seconds=1)
WAIT_UNSAID: Final = timedelta(seconds=15)
WAIT_UNSAID_MAX: Final = timedelta(seconds=300)
SECONDS_DIGITS_MAX: Final = 9
STOPS_FIRST: Final = timedelta(seconds=5)
SPREAD_MAX: Final = timedelta(seconds=5)
SPREAD_PART: Final = 10
"""The draw is a tenth of the wait at most."""

KEPT_FOR_STOPS: Final = 10
"""A stop is one call, or two where the pod is locked."""
KEPT_PART: Final = 200
"""In a long window more stops may fall due: of a day's 50,000 calls 250 are kept."""
KEPT_PART_MOST: Final = 3
"""Of a window too small for that, a third."""

WINDOWS_MAX: Final = 8
SPAN_UNSAID: Final = timedelta(seconds=300)
"""No window is longer than it is said to be, and for so long one is believed whose length is not said: it keeps us
from looking, and nobody asked for that."""
SAME_WINDOW: Final = timedelta(seconds=2)
"""Ends that lie no further apart are one: they are told in whole seconds, and some time passes on the way."""
LEFT: Final = re.compile(r'"([^"]{1,32})"\s*;\s*r=([0-9]{1,9})\s*;\s*t=([0-9]{1,6})\b')
QUOTA: Final = re.compile(r'"([^"]{1,32})"\s*;\s*q=([0-9]{1,9})\b(?:\s*;\s*w=([0-9]{1,6})\b)?')


class Kind(StrEnum):
    READ = "read"
    CREATE = "create"
    STOP = "stop"


class Pace:
    """When the next call of each kind may leave."""

    def __init__(self, clock: Clock, randomness: Randomness) -> None:
        self._clock = clock
        self._randomness = randomness
        self._asked_at = timedelta()
        self._open_at = timedelta()
        self._spread = timedelta()
        self._stop_turned_away = False
        self._unsaid = 0
        """So many times in a row we were turned away and told no time."""
        self._windows: dict[str, _Window] = {}

    def enter(self, kind: Kind) -> None:
        """Counts a call that leaves now. Raises HeldBack with what is left of the wait."""
        left = self.wait(kind)
        if left > timedelta():
            self._stop_turned_away = self._stop_turned_away or kind is Kind.STOP
            raise HeldBack(retry_after=left)
        if kind is Kind.STOP:
            self._stop_turned_away = False
        for window in self._windows.values():
            window.left -= 1

    def wait(self, kind: Kind) -> timedelta:
        """How long a call of this kind would have to wait now."""
        now = self._clock.boot()
        if kind is Kind.STOP:
            return min(self._open_at, self._asked_at + STOP_WAIT_MAX) - now
        asked = self._open_at + self._spread + (STOPS_FIRST if self._stop_turned_away else timedelta())
        return max(asked, self._used_up_until(now)) - now

    def hear(self, headers: Mapping[str, str]) -> None:
        """Take in what an answer says is left of each window."""
        now = self._clock.boot()
        policy = QUOTA.findall(headers.get("ratelimit-policy", ""))
        quotas = {name: int(quota) for name, quota, _ in policy}
        spans = {name: timedelta(seconds=int(span)) for name, _, span in policy if span}
        for name, left, rest in LEFT.findall(headers.get("ratelimit", "")):
            ends_at = now + min(timedelta(seconds=int(rest)), spans.get(name, SPAN_UNSAID), WAIT_MAX)
            known = self._windows.get(name)
            if known is not None and ends_at <= known.ends_at + SAME_WINDOW:
                # Calls that left since that answer was written are counted here alone.
                known.left = min(known.left, int(left))
            elif known is not None or len(self._windows) < WINDOWS_MAX:
                self._windows[name] = _Window(left=int(left), kept=_kept(quotas.get(name)), ends_at=ends_at)

    def slow_down(self, wait: timedelta | None, *, kind: Kind = Kind.READ) -> None:
        """`kind` is that of the call which was answered so; `None`: no time was named."""
        if wait is None:
            wait = min(WAIT_UNSAID * (1 << min(self._unsaid, 16)), WAIT_UNSAID_MAX)
            self._unsaid += 1
        self._stop_turned_away = self._stop_turned_away or kind is Kind.STOP
        self._asked_at = self._clock.boot()
        if self._asked_at + wait > self._open_at:
            self._open_at, self._spread = self._asked_at + wait, self._draw(wait)

    def go_on(self) -> None:
        """An answer came that does not ask us to wait."""
        self._unsaid = 0

    def _used_up_until(self, now: timedelta) -> timedelta:
        self._windows = {name: window for name, window in self._windows.items() if window.opens_at > now}
        used_up = [window for window in self._windows.values() if window.left <= window.kept]
        for window in used_up:
            if window.opens_at == window.ends_at:
                window.opens_at += self._draw(window.ends_at - now)
        return max((window.opens_at for window in used_up), default=timedelta())

    def _draw(self, wait: timedelta) -> timedelta:
        most = min(wait / SPREAD_PART, SPREAD_MAX)
        return timedelta(seconds=self._randomness.uniform(0, most.total_seconds()))


@dataclass(slots=True, kw_only=True)
class _Window:
    """What is left of a span in which the provider counts calls."""

    left: int
    kept: int
    ends_at: timedelta
    opens_at: timedelta = timedelta()
    """When reads and creates may use the next one."""

    def __post_init__(self) -> None:
        self.opens_at = self.ends_at


def _kept(quota: int | None) -> int:
    if quota is None:
        return KEPT_FOR_STOPS
    return min(max(KEPT_FOR_STOPS, quota // KEPT_PART), quota // KEPT_PART_MOST)


def wait_asked(headers: Mapping[str, str], *, now: datetime) -> timedelta | None:
    """How long we are asked to wait: `Retry-After` in seconds or as a date, else the used-up window's rest; `None`: no
    time is named."""
    asked = headers.get("retry-after", "").strip()
    if asked.isascii() and asked.isdigit():
        return _sensible(int(asked[:SECONDS_DIGITS_MAX]))
    until = instant_of(asked)
    if until is not None:
        return _until(until, said=said_at(headers) or now, now=now)
    used_up = [int(rest) for _, left, rest in LEFT.findall(headers.get("ratelimit", "")) if int(left) == 0]
    return _sensible(max(used_up)) if used_up else None


def _until(until: datetime, *, said: datetime, now: datetime) -> timedelta:
    """By the clock that wrote it. Where that one and ours are apart, nobody knows which is wrong, and the nearer end
    counts: a date that makes no sense must not blind us for a day."""
    if abs(said - now) <= AGREED:
        return _sensible((until - said).total_seconds())
    return max(_sensible(min(until - said, until - now).total_seconds()), WAIT_UNSAID)


def _sensible(seconds: float) -> timedelta:
    return min(max(timedelta(seconds=seconds), WAIT_MIN), WAIT_MAX)
