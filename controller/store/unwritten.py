"""What falls due while the store cannot be written, and how is it told once it can?

A full or locked disk must not keep a machine alive that nobody wants any more (invariant 4, B17): where the obligation
of a resource is committed already, that its stop is due is taken into the book alone, for everybody who reads it. It is
kept as a value and written before anything else as soon as that works, each line marked as late. Nothing is opened,
created or discharged in this way; whoever dies meanwhile leaves what the file holds.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from controller.core.book import Book
from controller.core.deployment import Record
from controller.core.errors import Refusal
from controller.core.evidence import StopReason
from controller.core.identity import DeploymentId
from controller.core.lifecycle import SERVING, Phase
from controller.store import deployments
from controller.store.errors import Stale
from controller.store.transaction import Moment, Tx


@dataclass(frozen=True, slots=True, kw_only=True)
class Unwritten:
    """A stop that was decided on and is not in the file."""

    deployment: DeploymentId
    reason: StopReason
    drain_until: datetime | None
    at: datetime
    """When it fell due."""


class Nowhere:
    """Stands for a connection where there is none: takes every statement, and keeps nothing."""

    rowcount = 1

    def execute(self, *_: Any) -> "Nowhere":
        return self

    def first(self) -> None:
        return None


def news_of(record: Record, owed: Unwritten) -> bool:
    """Does it change anything? What serves is owed a stop; one that is owed may be drained for less long."""
    if record.phase is not Phase.STOP_REQUIRED:
        return record.phase in SERVING
    left = record.drain_until
    return left is not None and (owed.drain_until is None or owed.drain_until < left)


def write_late(tx: Tx, owed: Unwritten) -> None:
    """Owe the stop, unless it is owed so or over by now. Raises Stale, Refusal."""
    record = tx.book.records.get(owed.deployment)
    if record is not None and news_of(record, owed):
        deployments.require_stop(tx, record, owed.reason, drain_until=owed.drain_until)


def taken_in(filed: Book, owed: Iterable[Unwritten], moment: Moment) -> Book:
    """What the file holds, as if these were in it. Its lines are not numbered: nobody can read them yet."""
    book = filed
    for each in owed:
        tx = Tx(Nowhere(), book, replace(moment, now=each.at))
        with suppress(Stale, Refusal):
            write_late(tx, each)
            book = tx.book
    return replace(book, seq_latest=filed.seq_latest, hash_latest=filed.hash_latest)
