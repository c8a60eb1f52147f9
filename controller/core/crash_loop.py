"""Does the container restart again and again while its machine bills on?

A start time that moves forward is one restart; the first one seen, an equal, an earlier or a missing one is none
(RP-29). Two clocks tell of it: the provider's, of the container, and the model server's own, of its process, which
moves too where a server is started anew inside a container that stays. One restart that both tell of is one. So many
restarts inside one window are a loop, those of the machines before it among them (`Book.earlier_deaths`). What is
counted is kept in the store, so our own restart forgets nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from controller.core.topology import Topology

JITTER: Final = timedelta(seconds=5)
"""A process's start is worked out from its host's boot time, which moves a little when that clock is set."""
TOLD_TWICE: Final = timedelta(seconds=180)
"""The provider's word of a restart may come so long after the server's own: a steady listing is made every minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Starts:
    """The latest start seen, and when each restart was noticed."""

    latest: datetime | None = None
    """Of the container, as the provider tells it."""
    restarts: tuple[datetime, ...] = ()
    server: datetime | None = None
    """Of the model server's process, as it tells itself."""
    server_within: datetime | None = None
    """The container's start that was the latest when the server's was noticed."""
    server_alone: bool = False
    """The latest restart was told by the server, and not yet by the provider."""
    cause: str | None = None
    """What its log last said that it died of, a word of `core.diagnosis`."""
    topology: Topology | None = None
    """What its log said of its cards."""


def believed(started_at: datetime | None, *, server_at: datetime | None) -> datetime | None:
    """What the provider says of the container's start, unless the server is against it: a process that tells its own
    start and is older was not started anew. If it was after all, its next answer, or none, says so. An uptime that
    stands still looks like restart after restart."""
    if started_at is not None and server_at is not None and started_at > server_at + JITTER:
        return None
    return started_at


def notice(starts: Starts, *, started_at: datetime | None, window: timedelta, now: datetime) -> Starts:
    """Take one observation in; forgets restarts that left the window. Returns the same value if nothing changed."""
    if started_at is None or (starts.latest is not None and started_at <= starts.latest):
        return starts
    if starts.latest is None:
        return replace(starts, latest=started_at, server_within=started_at if starts.server else None)
    if starts.server_alone and now - starts.restarts[-1] <= TOLD_TWICE:
        return replace(starts, latest=started_at, server_within=started_at, server_alone=False)
    return replace(_restarted(starts, window=window, now=now), latest=started_at, server_alone=False)


def notice_server(starts: Starts, *, started_at: datetime | None, window: timedelta, now: datetime) -> Starts:
    """The same for the start that the model server tells of itself."""
    if started_at is None or (starts.server is not None and started_at <= starts.server + JITTER):
        return starts
    told = starts.server is None or starts.latest != starts.server_within
    counted = starts if told else replace(_restarted(starts, window=window, now=now), server_alone=True)
    return replace(counted, server=started_at, server_within=starts.latest)


def _restarted(starts: Starts, *, window: timedelta, now: datetime) -> Starts:
    kept = tuple(at for at in starts.restarts if at >= now - window)
    return replace(starts, restarts=(*kept, now))


def looping(restarts: Sequence[datetime], *, limit: int, window: timedelta, now: datetime) -> bool:
    """Are there `limit` restarts or more inside the window, its far end included?"""
    return sum(1 for at in restarts if at >= now - window) >= limit
