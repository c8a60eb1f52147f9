"""When does a resource have no user left?

Idle means: no live stream lease, and the last byte passed longer ago than the policy allows. A resource that never
served counts from when it became ready. Time under a stream lease is use, whatever passes. Stopping is done elsewhere:
this file only says that a stop is due.

The model server itself is a second witness: where it says that it works for somebody of whom no gateway told, the stop
waits, by one idle time at most, since a request that hangs for ever must not keep a machine (RP-36).
"""

from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """What is known of one ready resource's use."""

    stream_leases: int
    ready_at: datetime
    last_byte_at: datetime | None
    not_before: datetime | None = None
    """After our own restart gateways get one stream-lease lifetime to speak (RP-35)."""
    witnessed: bool = False
    """The model server said, since the last byte, that it works for somebody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepBusy:
    """It is in use; its idle time has not begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepUntil:
    """Nobody uses it; the stop falls due then if nobody comes."""

    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepWitnessed:
    """No gateway tells of a request, and the server says that it works for somebody: it is kept for so long at most."""

    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleOut:
    """The stop is due; `since` is when it fell due."""

    since: datetime


Decision = KeepBusy | KeepUntil | KeepWitnessed | IdleOut


def decide(activity: Activity, *, idle_after: timedelta, now: datetime) -> Decision:
    """Decide at `now`; due at the deadline instant itself (RP-34)."""
    if activity.stream_leases:
        return KeepBusy()
    deadline = used_until(activity) + idle_after
    if activity.not_before is not None:
        deadline = max(deadline, activity.not_before)
    if now < deadline:
        return KeepUntil(until=deadline)
    if activity.witnessed and now < deadline + idle_after:
        return KeepWitnessed(until=deadline + idle_after)
    return IdleOut(since=deadline)


def used_until(activity: Activity) -> datetime:
    """Since when nobody uses it, as far as gateways tell."""
    return max(activity.last_byte_at or activity.ready_at, activity.ready_at)


def floor(idle_after: timedelta, cold_start: timedelta | None) -> timedelta:
    """Never idle out sooner than starting again took: the measured cold start is the least (RP-34)."""
    return max(idle_after, cold_start) if cold_start is not None else idle_after
