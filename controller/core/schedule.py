"""Is a model to be kept warm now, or to be off, and until when?

Windows of a week are read by the wall clock of their zone. Off outweighs warm: it costs less. A kept-warm window begins
early by what a start takes, never inside an off window, so that the machine serves when the window begins. When the
clocks are changed, a window lasts from the first to the last instant at which they show its ends; an hour that they
leap over begins and ends with the leap. What is started, kept or stopped for it is decided elsewhere.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Final

from controller.core.deployment import Record
from controller.core.evidence import StopReason

DAYS: Final = 7
DAY_MINUTES: Final = 1440
_BEHIND: Final = 2
"""Days before today on which a window that still lasts may have begun; one more for zones ahead of ours."""
_AHEAD: Final = DAYS + 2
"""Days from today on within which every window comes once."""
MARGIN: Final = timedelta(seconds=30)
"""Between a start's end and its window: it takes a listing, and rarely the same time twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A time of the day on some days of the week. One over midnight ends after 1440."""

    days: frozenset[int]
    """Those on which it begins; 0 is Monday."""
    begin_minute: int
    end_minute: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A model's windows. Without any it is open at all times."""

    warm: tuple[Window, ...] = ()
    off: tuple[Window, ...] = ()
    zone: tzinfo = UTC


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """Started when somebody asks; `until` the next window, if there is one."""

    until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Warm:
    """It is to serve, asked or not. `since` counts from when it has to be started."""

    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Off:
    """Nothing starts, and what runs is stopped."""

    since: datetime
    until: datetime


Stance = Open | Warm | Off

NO_WINDOWS: Final = Schedule()
ALWAYS_OPEN: Final = Open(until=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Span:
    begin: datetime
    end: datetime


def decide(schedule: Schedule, *, lead: timedelta, now: datetime) -> Stance:
    """Decide at `now`: a window's begin is inside it, its end is not. `lead` is how long a start takes."""
    if not schedule.warm and not schedule.off:
        return ALWAYS_OPEN
    off = _spans(schedule.off, schedule.zone, now)
    for span in off:
        if span.begin <= now < span.end:
            return Off(since=span.begin, until=span.end)
    early = [
        (_start_of(span, off, lead), span.end) for span in _without(_spans(schedule.warm, schedule.zone, now), off)
    ]
    for begin, end in early:
        if begin <= now < end:
            return Warm(since=begin, until=end)
    coming = [begin for begin, _ in early] + [span.begin for span in off]
    return Open(until=min((begin for begin in coming if begin > now), default=None))


def off_from(schedule: Schedule, *, now: datetime) -> datetime | None:
    """When its off window began or begins; `None` without one."""
    spans = [span for span in _spans(schedule.off, schedule.zone, now) if span.end > now]
    return spans[0].begin if spans else None


def dismissed(records: Iterable[Record], *, since: datetime) -> bool:
    """Did an operator stop it since then? Then it is not kept warm before the next window, unless somebody asks."""
    return any(
        record.reason is StopReason.OPERATOR_REQUEST
        and record.fills is None
        and record.stop_required_at is not None
        and record.stop_required_at >= since
        for record in records
    )


def lead_of(cold_start: timedelta | None, startup_deadline: timedelta) -> timedelta:
    """How much earlier than its window it is started: by the measured cold start, and the longest where none was
    measured."""
    return (startup_deadline if cold_start is None else cold_start) + MARGIN


def _start_of(span: _Span, off: Iterable[_Span], lead: timedelta) -> datetime:
    return max([span.begin - lead, *(other.end for other in off if other.end <= span.begin)])


def _spans(windows: Iterable[Window], zone: tzinfo, now: datetime) -> list[_Span]:
    """The windows about `now`, in order; those that overlap or touch are one."""
    today = now.astimezone(zone).date()
    found = [
        _Span(begin=_first(day, window.begin_minute, zone), end=_last(day, window.end_minute, zone))
        for window in windows
        for day in (today + timedelta(days=number) for number in range(-_BEHIND, _AHEAD))
        if day.weekday() in window.days
    ]
    joined: list[_Span] = []
    for span in sorted(found, key=lambda span: span.begin):
        if span.begin >= span.end:
            continue  # the clocks leapt over it
        if joined and span.begin <= joined[-1].end:
            joined[-1] = _Span(begin=joined[-1].begin, end=max(joined[-1].end, span.end))
        else:
            joined.append(span)
    return joined


def _without(spans: Iterable[_Span], holes: Iterable[_Span]) -> list[_Span]:
    left = list(spans)
    for hole in holes:
        left = [
            part
            for span in left
            for part in (
                _Span(begin=span.begin, end=min(span.end, hole.begin)),
                _Span(begin=max(span.begin, hole.end), end=span.end),
            )
            if part.begin < part.end
        ]
    return left


def _first(day: date, minute: int, zone: tzinfo) -> datetime:
    """The first instant at which the clocks there show it, or pass over it."""
    wall = datetime.combine(day, time()) + timedelta(minutes=minute)
    once, again = _readings(wall, zone)
    return once if once <= again else _leap(wall, zone, again, once)


def _last(day: date, minute: int, zone: tzinfo) -> datetime:
    """The last instant of that."""
    wall = datetime.combine(day, time()) + timedelta(minutes=minute)
    once, again = _readings(wall, zone)
    return again if once <= again else _leap(wall, zone, again, once)


def _readings(wall: datetime, zone: tzinfo) -> tuple[datetime, datetime]:
    """When the clocks show it, before and after a change near it; the other way round for what they leap over."""
    once, again = (wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    return once, again


def _leap(wall: datetime, zone: tzinfo, before: datetime, after: datetime) -> datetime:
    """The instant between the two at which the clocks leap over `wall`, to the second."""
    low, high = 0, int((after - before).total_seconds())
    while low < high:
        middle = (low + high) // 2
        shown = (before + timedelta(seconds=middle)).astimezone(zone).replace(tzinfo=None)
        low, high = (low, middle) if shown >= wall else (middle + 1, high)
    return before + timedelta(seconds=high)
