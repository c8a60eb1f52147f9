"""When does a start have nobody left who waits for it?

When no gateway says that a caller waits, nobody was told to come back and may still, and that has been so for
`abandon_after`. Without that span, the default, a start is never given up: it costs what it has cost already, whoever
left often comes back, and its deadline and the idle time bound the rest. Whom it may never be taken from (an operator,
a schedule, a predecessor that it is to replace) is asked of others before; this file only says that a stop is due.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """What is known of those who wait for one start."""

    started_at: datetime
    awaited: bool
    """A gateway says so now."""
    awaited_at: datetime | None = None
    """When somebody was last known to wait."""
    expected_until: datetime | None = None
    """Somebody was told to come back, and may until then."""
    not_before: datetime | None = None
    """After our own restart or pause gateways are to be heard first (RP-35)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepAwaited:
    """Somebody waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepUntil:
    """Nobody waits; it is given up then if nobody comes."""

    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Abandon:
    """The stop is due; `since` is when it fell due."""

    since: datetime


Decision = KeepAwaited | KeepUntil | Abandon


def decide(waiting: Waiting, *, abandon_after: timedelta, now: datetime) -> Decision:
    """Due at the deadline instant itself."""
    if waiting.awaited:
        return KeepAwaited()
    known = (waiting.started_at, waiting.awaited_at, waiting.expected_until, waiting.not_before)
    deadline = max(at for at in known if at is not None) + abandon_after
    return KeepUntil(until=deadline) if now < deadline else Abandon(since=deadline)
