"""Does the container restart again and again while its machine bills on?

A start time that moves forward is one restart; the first one seen, an equal, an earlier or a missing one is none
(RP-29). So many restarts inside one window are a loop. What is counted is kept in the store, so our own restart forgets
nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Starts:
    """The latest start seen, and when each restart was noticed."""

    latest: datetime | None = None
    restarts: tuple[datetime, ...] = ()


def notice(starts: Starts, *, started_at: datetime | None, window: timedelta, now: datetime) -> Starts:
    """Take one observation in; forgets restarts that left the window. Returns the same value if nothing changed."""
    if started_at is None or (starts.latest is not None and started_at <= starts.latest):
        return starts
    if starts.latest is None:
        return Starts(latest=started_at)
    kept = tuple(at for at in starts.restarts if at >= now - window)
    return Starts(latest=started_at, restarts=(*kept, now))


def looping(restarts: Sequence[datetime], *, limit: int, window: timedelta, now: datetime) -> bool:
    """Are there `limit` restarts or more inside the window, its far end included?"""
    return sum(1 for at in restarts if at >= now - window) >= limit
