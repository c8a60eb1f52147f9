"""Does the provider's bill contradict the proof that something is gone, and what was billed so far?

The last witness after a stop (OU-4, RP-46), and the number that stands beside our own estimate (PF-12). Bills come in
buckets of an hour, late, and the last second is rounded up: only a bucket that begins a while after the discharge
speaks of time after it, and an empty one only once it had time to be filled. A bill that could not be read, or of which
one record makes no sense, says nothing at all.
"""

from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from controller.core.evidence import Evidence, EvidenceKind, StopReason
from controller.core.identity import ResourceKey
from controller.core.obligation import Obligation

BUCKET: Final = timedelta(hours=1)
ROUNDING: Final = timedelta(minutes=10)
"""A last second may be rounded up by so much; time before it is that of the stop itself."""
LATE: Final = timedelta(hours=2)
"""A bucket may be filled so long after its end."""
WATCHED: Final = timedelta(hours=48)
"""So long after a discharge the bill is looked at."""
OFTEN: Final = timedelta(hours=1)
SELDOM: Final = timedelta(hours=6)
YOUNG: Final = timedelta(hours=8)
"""Until then the bill is looked at often, as what goes on billing shows soon."""
QUIET_BUCKETS: Final = 2
SHOWN_FOR: Final = timedelta(days=8)
"""Of what lives longer than this the whole bill is not asked for, and then its sum is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """What one resource was billed for one span of time; `incarnation` is the provider's id of it."""

    incarnation: str
    begin: datetime
    end: datetime
    micros: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """One look at the bill since some time. `problem`: it says nothing; `denied`: nor will it, for this key."""

    since: datetime
    asked_at: datetime
    buckets: tuple[Bucket, ...] = ()
    problem: str | None = None
    denied: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Billed:
    """A sum of the bill, and the end of the last bucket in it: what came after is not billed yet."""

    micros: int
    until: datetime


def sum_since(bill: Bill | None, incarnations: Container[str], *, since: datetime) -> Billed | None:
    """What the provider billed for these from the hour of `since` on. `None`: nobody knows, as no bill that goes back
    so far was read, or nothing of them is on it yet."""
    hour = _hour_of(since)
    if bill is None or bill.problem is not None or bill.since > hour:
        return None
    found = [bucket for bucket in bill.buckets if bucket.incarnation in incarnations and bucket.begin >= hour]
    if not found:
        return None
    return Billed(micros=sum(bucket.micros for bucket in found), until=max(bucket.end for bucket in found))


def watched(settled: Mapping[ResourceKey, datetime], duties: Iterable[Obligation], *, now: datetime) -> list[datetime]:
    """From when on the bill matters: discharges of late, and what is owed because of a bill."""
    ended = [at for at in settled.values() if now - WATCHED <= at <= now]
    return sorted(ended + [duty.opened_at for duty in duties if duty.open and _billed(duty)])


def next_look(
    settled: Mapping[ResourceKey, datetime],
    duties: Iterable[Obligation],
    *,
    alive: Collection[datetime] = (),
    asked_at: datetime | None,
    now: datetime,
) -> datetime | None:
    """When the bill is to be asked for; never while nothing ended lately or lives. `alive`: when what lives began to
    bill."""
    duties = tuple(duties)
    times = sorted([*watched(settled, duties, now=now), *alive])
    if not times:
        return None
    first = _hour_after(times[0]) + BUCKET
    if asked_at is None:
        return first
    urgent = bool(alive) or any(_billed(duty) and duty.open for duty in duties) or now - times[-1] < YOUNG
    return max(first, asked_at + (OFTEN if urgent else SELDOM))


def since(
    settled: Mapping[ResourceKey, datetime],
    duties: Iterable[Obligation],
    *,
    begun: Iterable[datetime] = (),
    now: datetime,
) -> datetime:
    """The begin of the buckets to ask for: one before the first that matters, which shows that the bill is kept.
    `begun`: when that began to bill of which the whole sum is to be shown."""
    times = [*watched(settled, duties, now=now), *(at for at in begun if at >= now - SHOWN_FOR)]
    return _hour_of(min(times, default=now)) - BUCKET


def contradicted(bill: Bill, settled: Mapping[ResourceKey, datetime]) -> dict[ResourceKey, Bucket]:
    """Of what was proven gone, all that is billed for time after that, with the first bucket that says so."""
    if bill.problem is not None:
        return {}
    found: dict[ResourceKey, Bucket] = {}
    for key, ended_at in settled.items():
        after = [
            bucket
            for bucket in bill.buckets
            if bucket.incarnation == key.incarnation and bucket.micros > 0 and bucket.begin >= ended_at + ROUNDING
        ]
        if after:
            found[key] = min(after, key=lambda bucket: bucket.begin)
    return found


def quiet(bill: Bill, duty: Obligation) -> Evidence | None:
    """The proof that what was owed for being billed is billed no more: whole buckets without it after its last one,
    each long enough over to be filled, in a bill that still shows what it was billed before."""
    if bill.problem is not None or duty.key is None:
        return None
    ours = [bucket for bucket in bill.buckets if bucket.incarnation == duty.key.incarnation and bucket.micros > 0]
    if not ours:
        return None  # a bill that has forgotten what it said proves nothing
    last = max(bucket.end for bucket in ours)
    begins = max(last, _hour_after(duty.opened_at))
    if bill.asked_at < begins + QUIET_BUCKETS * BUCKET + LATE:
        return None
    return _quiet_since(last, bill)


def corroborated(
    bill: Bill, settled: Mapping[ResourceKey, datetime], known: Mapping[ResourceKey, datetime]
) -> dict[ResourceKey, Evidence]:
    """Of what was proven gone, all that the bill bears out: it shows it, and two whole hours after its end without it,
    each long enough over to be filled. It ends no duty: they have ended. `known`: the ends that it bore out before."""
    if bill.problem is not None:
        return {}
    found: dict[ResourceKey, Evidence] = {}
    for key, ended_at in settled.items():
        ours = [bucket for bucket in bill.buckets if bucket.incarnation == key.incarnation and bucket.micros > 0]
        if known.get(key) == ended_at or not ours or any(bucket.begin >= ended_at + ROUNDING for bucket in ours):
            continue
        last = max(bucket.end for bucket in ours)
        if bill.since <= _hour_of(ended_at) and bill.asked_at >= _hour_after(ended_at) + QUIET_BUCKETS * BUCKET + LATE:
            found[key] = _quiet_since(last, bill)
    return found


def _quiet_since(last: datetime, bill: Bill) -> Evidence:
    reference = f"not billed since {last.isoformat(timespec='seconds')}"
    return Evidence(kind=EvidenceKind.BILLING_QUIET, reference=reference, observed_at=bill.asked_at)


def _billed(duty: Obligation) -> bool:
    return duty.reason is StopReason.BILLED_AFTER_STOP


def _hour_of(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def _hour_after(at: datetime) -> datetime:
    """The first bucket's begin that says something about time after `at`."""
    later = _hour_of(at + ROUNDING)
    return later if later == at + ROUNDING else later + BUCKET
