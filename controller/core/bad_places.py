"""In which places did a model's starts fail of late by the machine's fault, so that its next ones pass them over?

No provider that we know tells which host a machine is on; the finest that it tells is the place (Runpod: the data
centre), so the same bad host met twice shows as two failed starts of one model, in one place, on one type of card. From
the second within a day on, that place is passed over for that type, until only one of the two is of the last day. A
start that came to serve there ends it, and so does a changed config. It is derived from what is on record, and so
outlives a restart.

Only what may be the machine's fault counts: not what its log says that the config did, and not a crash without a known
cause. It is a preference and never a reason not to start: no order of offers changes, an offer that can stand nowhere
else is left out only while another is there, and after a round in which everything was refused nothing is passed over.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from controller.core.book import Book
from controller.core.deployment import Record
from controller.core.diagnosis import of_config
from controller.core.evidence import StopReason
from controller.core.offer import offer_of

FAILURES: Final = 2
"""One may be chance. More: a bad host is paid for once more each."""
FOR: Final = timedelta(hours=24)
"""So long a failure counts. Not longer than ended deployments are remembered; a host is mended or taken away sooner
than a whole place is given up."""
MACHINES_FAULT: Final = frozenset(
    {
        StopReason.ZERO_GPU,
        StopReason.POD_ERROR,
        StopReason.POD_EXITED,
        StopReason.STARTUP_DEADLINE,
        StopReason.NCCL_STALL,
        StopReason.MULTI_CARD_STALL,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BadPlace:
    """Where it failed, on which type of card, how often of late, and until when that counts."""

    card: str
    place: str
    failures: int
    until: datetime


Corner = tuple[str, str, str, str]
"""Model, fingerprint, type of card, place."""


def of_model(book: Book, model: str, fingerprint: str, *, now: datetime) -> tuple[BadPlace, ...]:
    """Those of one model as it is configured."""
    found = _failures(book, now=now)
    return tuple(
        _bad(corner, at) for corner, at in sorted(found.items()) if corner[:2] == (model, fingerprint) and _twice(at)
    )


def passed_over(book: Book, record: Record) -> tuple[BadPlace, ...]:
    """By the creates of this deployment: as of its declaration, so that all of them and the evidence say the same."""
    if book.memory(record.model).rounds:
        return ()
    return of_model(book, record.model, record.fingerprint, now=record.declared_at)


def offers_there(book: Book, model: str, fingerprint: str, *, now: datetime) -> frozenset[str]:
    """The offers that can stand nowhere else than in a bad place; none after a round of refusals."""
    if book.memory(model).rounds:
        return frozenset()
    return frozenset(offer_of(bad.card, bad.place) for bad in of_model(book, model, fingerprint, now=now))


def models_with(book: Book, *, now: datetime) -> frozenset[str]:
    """Of which models is it worth knowing where else there is something?"""
    return frozenset(corner[0] for corner, at in _failures(book, now=now).items() if _twice(at))


def _twice(at: list[datetime]) -> bool:
    return len(at) >= FAILURES


def _bad(corner: Corner, at: list[datetime]) -> BadPlace:
    _, _, card, place = corner
    return BadPlace(card=card, place=place, failures=len(at), until=sorted(at)[-FAILURES] + FOR)


def _failures(book: Book, *, now: datetime) -> dict[Corner, list[datetime]]:
    """When it failed where, since it last came to serve there."""
    failed: dict[Corner, list[datetime]] = {}
    for record, at in book.once(_blamed):
        if now < at + FOR and (corner := _corner(record)) is not None:
            failed.setdefault(corner, []).append(at)
    if not failed:
        return failed
    served: dict[Corner, datetime] = {}
    for record in book.records.values():
        served_at, corner = _served_at(record), _corner(record)
        if served_at is not None and corner is not None and corner in failed:
            served[corner] = max(served_at, served.get(corner, served_at))
    return {
        corner: [at for at in times if corner not in served or at > served[corner]] for corner, times in failed.items()
    }


def _blamed(book: Book) -> tuple[tuple[Record, datetime], ...]:
    """The starts that may have failed by the machine's fault, and when."""
    found = ((record, _failed_at(book, record)) for record in book.records.values())
    return tuple((record, at) for record, at in found if at is not None)


def _corner(record: Record) -> Corner | None:
    if record.place is None or record.offer is None:
        return None
    return record.model, record.fingerprint, record.offer, record.place


def _failed_at(book: Book, record: Record) -> datetime | None:
    """`None`: it came to serve, or what it ended of says nothing about where it was."""
    if record.ready_at is not None or record.reason is None:
        return None
    known = book.starts.get(record.id)
    cause = None if known is None else known.cause
    if of_config(cause):
        return None
    blamed = record.reason in MACHINES_FAULT or (record.reason is StopReason.CRASH_LOOP and cause is not None)
    return record.stop_required_at if blamed else None


def _served_at(record: Record) -> datetime | None:
    if record.reason is StopReason.PREFETCHED:
        return record.stop_required_at
    return record.ready_at
