"""What does time alone oblige, before anybody's command is looked at?

Every transaction begins here: a lifetime or lease that ran out is owed its stop on the books first, in a commit of its
own, so that a command that comes too late finds the stop required, and one that is refused takes nothing back (HC-37).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from controller.core import hosting, reconcile
from controller.core.book import Book
from controller.core.deployment import Record
from controller.core.evidence import StopReason
from controller.core.lifecycle import Phase
from controller.core.policy import HostingPolicy
from controller.store import deployments
from controller.store.transaction import Tx


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceilings:
    """What time bounds, and how long open requests may go on after it."""

    policy: HostingPolicy
    drain_limits: Mapping[str, timedelta] = field(default_factory=dict)
    """Of each configured model."""


def overdue(book: Book, ceilings: Ceilings, *, now: datetime) -> list[tuple[Record, StopReason]]:
    """Whose stop is due by now, and why."""
    found = (
        (record, hosting.elapsed(record, book.leases.get(record.id), policy=ceilings.policy, now=now))
        for record in book.records.values()
    )
    return [(record, reason) for record, reason in found if reason is not None]


def oblige(tx: Tx, ceilings: Ceilings) -> None:
    """Owe what elapsed."""
    for record, reason in overdue(tx.book, ceilings, now=tx.now):
        drain = ceilings.drain_limits.get(record.model, ceilings.policy.drain_limit)
        drained = record.phase is Phase.ACTIVE and reason in reconcile.DRAINED
        deployments.require_stop(tx, record, reason, drain_until=tx.now + drain if drained else None)
