"""What does one look at the world mean for one deployment on record?

The rules of the design's section 5, in their order of weight: a foreign owner first, then what the provider says is
broken, then our own deadlines, then readiness. What was not seen decides nothing here; absence is `core.obligation`'s
matter. A ceiling or a fault obliges a stop, it never stops by itself.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

from controller.core.costs import Costs, too_dear
from controller.core.deployment import Record, SeenResource
from controller.core.evidence import StopReason
from controller.core.identity import Owner
from controller.core.lifecycle import Phase
from controller.core.policy import ModelPolicy
from controller.core.readiness import Assessment
from controller.core.schedule import off_from

DRAINED: Final = frozenset(
    {
        StopReason.IDLE,
        StopReason.LIFETIME_EXCEEDED,
        StopReason.OPERATOR_REQUEST,
        StopReason.MODEL_REMOVED,
        StopReason.REPLACED,
        StopReason.SPEND,
    }
)
"""Reasons under which the machine still serves well: open requests may end. A broken or unsafe one is stopped at
once."""


PROGRESS: Final = timedelta(minutes=5)
"""A start whose log told of something new so shortly ago may be about to serve."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What was seen of one deployment in the latest listing and probe."""

    seen: SeenResource | None = None
    assessment: Assessment | None = None
    costs: Costs = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What holds for this deployment now."""

    owner: Owner
    lifetime: timedelta
    model: ModelPolicy | None
    """`None`: the model is not configured any more."""
    usd_per_hour_max: Decimal | None = None
    """`None`: no ceiling is known."""
    progress_at: datetime | None = None
    """When its log last told of something new; `None`: nobody knows."""
    readable: bool = True
    """False in stop-only mode on a config that could not be read: a missing model then means nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nothing:
    """No change; the next deadline, if there is one."""

    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """Our own probe says that it serves: requested becomes active."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unready:
    """It served, and definitely does not now; the clock of stopped-serving runs from `since`."""

    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyAgain:
    """It serves again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequireStop:
    """A stop is due, for this reason."""

    reason: StopReason


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOver:
    """A newer lease elsewhere took the resource (HC-23)."""

    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OursAgain:
    """It was another owner's to look at, and is seen without that label: its stop may leave again (HC-21)."""


Decision = Nothing | Ready | Unready | ReadyAgain | RequireStop | HandOver | OursAgain


def decide(record: Record, look: Look, bounds: Bounds, *, now: datetime) -> Decision:
    """Decide for a deployment that has a key and is requested, active or stop-required."""
    if look.seen is not None:
        if (foreign := _ownership(record, look.seen, bounds.owner)) is not None:
            return foreign
        if record.phase is Phase.STOP_REQUIRED and record.reason is StopReason.OWNERSHIP_LOST:
            return OursAgain()
        if look.seen.fault is not None and record.phase is not Phase.STOP_REQUIRED:
            return RequireStop(reason=look.seen.fault)
    if record.phase not in {Phase.REQUESTED, Phase.ACTIVE}:
        return Nothing()
    if (reason := overdue(record, bounds, now=now)) is not None:
        return RequireStop(reason=reason)
    if too_dear(look.costs, bounds.usd_per_hour_max):
        return RequireStop(reason=StopReason.SPEND)
    return _readiness(record, look.assessment, bounds, now=now)


def _ownership(record: Record, seen: SeenResource, owner: Owner) -> Decision | None:
    if not owner.disputed(seen.tags):
        return None
    if seen.tags.epoch is not None and seen.tags.epoch > record.epoch:
        return HandOver(epoch=seen.tags.epoch)
    if record.reason is StopReason.OWNERSHIP_LOST:
        return Nothing()
    return RequireStop(reason=StopReason.OWNERSHIP_LOST)


def overdue(record: Record, bounds: Bounds, *, now: datetime) -> StopReason | None:
    """Which ceiling was passed? A deadline instant itself is inside the lifetime, and is the startup deadline's end
    (HC-35)."""
    if outlived(record, bounds.lifetime, now=now):
        return StopReason.LIFETIME_EXCEEDED
    if bounds.model is None:
        return StopReason.MODEL_REMOVED if bounds.readable else None
    if record.fills is None and record.slot >= bounds.model.slots:
        return StopReason.MODEL_REMOVED  # the model has fewer replicas now
    off_at = off_from(bounds.model.schedule, now=now)
    if off_at is not None and now >= off_at:
        return StopReason.OPERATOR_REQUEST  # who wrote the schedule said so
    startup_ends = startup_ends_at(record, bounds.model, progress_at=bounds.progress_at)
    if record.phase is Phase.REQUESTED and startup_ends is not None and now >= startup_ends:
        return StopReason.STARTUP_DEADLINE
    if record.unready_since is not None and now >= record.unready_since + bounds.model.startup_deadline:
        return StopReason.STOPPED_SERVING
    return None


def startup_ends_at(record: Record, model: ModelPolicy, *, progress_at: datetime | None) -> datetime | None:
    """By when must it serve? A start that tells of progress gets a little more from each word of it, up to twice the
    deadline; `None` while nothing was sent."""
    if record.started_at is None:
        return None
    # What was made before we put it on record (claimed, or forgotten by a restored store) is not late for that.
    since = max(record.started_at, record.declared_at)
    ends = since + model.startup_deadline
    if progress_at is None:
        return ends
    return min(max(ends, progress_at + PROGRESS), since + model.startup_deadline_extended)


def outlived(record: Record, lifetime: timedelta, *, now: datetime) -> bool:
    """Is its lifetime over? The deadline instant itself is inside."""
    return record.started_at is not None and now > record.started_at + lifetime


def _readiness(record: Record, assessment: Assessment | None, bounds: Bounds, *, now: datetime) -> Decision:
    if assessment is None or assessment.ready is None:
        return Nothing(until=next_deadline(record, bounds, now=now))
    if assessment.stop is not None:
        return RequireStop(reason=assessment.stop)
    if assessment.ready and record.phase is Phase.REQUESTED:
        # What could serve has read all of the weights, and it read them from the volume: they are on it.
        return Ready() if record.fills is None else RequireStop(reason=StopReason.PREFETCHED)
    if assessment.ready and record.unready_since is not None:
        return ReadyAgain()
    if not assessment.ready and record.phase is Phase.ACTIVE and record.unready_since is None:
        return Unready(since=now)
    return Nothing(until=next_deadline(record, bounds, now=now))


def next_deadline(record: Record, bounds: Bounds, *, now: datetime) -> datetime | None:
    """The earliest instant at which time alone changes the decision."""
    if record.started_at is None:
        return None
    deadlines = [record.started_at + bounds.lifetime + timedelta(milliseconds=1)]
    if bounds.model is not None:
        if (off_at := off_from(bounds.model.schedule, now=now)) is not None:
            deadlines.append(off_at)
        startup_ends = startup_ends_at(record, bounds.model, progress_at=bounds.progress_at)
        if record.phase is Phase.REQUESTED and startup_ends is not None:
            deadlines.append(startup_ends)
        if record.unready_since is not None:
            deadlines.append(record.unready_since + bounds.model.startup_deadline)
    return min(deadlines)


def prevails(current: StopReason | None, new: StopReason) -> StopReason:
    """First writer wins, except that lost ownership always does (HC-21)."""
    if current is None or current is StopReason.AMBIGUOUS_MUTATION or new is StopReason.OWNERSHIP_LOST:
        return new
    return current
