"""How does a stop come to be owed, whether anything can be written or not?

A rule says what is due by the book. It is asked in the writer's transaction, where nobody can slip in between; where
nothing can be written it is asked once more, of the book as everybody reads it by then, and what it says is owed there
until it can be recorded (`unwritten`). So there is one way to decide, and no stop waits for a disk (invariant 4, B17).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from controller.core.book import Book
from controller.core.deployment import Record
from controller.core.evidence import StopReason
from controller.store import deployments
from controller.store.errors import StoreUnwritable
from controller.store.store import Store
from controller.store.transaction import Tx


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """A stop that is decided on, of a deployment as it was then."""

    record: Record
    reason: StopReason
    drain_until: datetime | None = None


Rule = Callable[[Book, datetime], Iterable[Due]]
"""It may be asked twice, and changes nothing; Stale where what it rests on is no more."""


async def oblige(store: Store, record: Record, reason: StopReason, *, drain_until: datetime | None = None) -> None:
    """Owe this stop. Raises Refusal, Stale; where nothing can be written, what changed or may not serve yet is left."""
    due = Due(record=record, reason=reason, drain_until=drain_until)
    await oblige_by(store, lambda book, now: [due])


async def oblige_by(store: Store, rule: Rule, *, along: Callable[[Tx], object] | None = None) -> None:
    """Owe what the rule says; `along` is written with it, and left where nothing can be written. Raises Refusal, Stale,
    and StoreUnwritable where something was to be written and nothing is due."""
    try:
        await store.write(lambda tx: write(tx, rule, along=along))
    except StoreUnwritable:
        found = list(rule(store.book, store.now))
        if along is not None and not found:
            raise
        for due in found:
            store.owe_unwritten(due.record, due.reason, drain_until=due.drain_until)


def write(tx: Tx, rule: Rule, *, along: Callable[[Tx], object] | None = None) -> None:
    """The rule is asked before anything is written. Raises Refusal, Stale."""
    found = list(rule(tx.book, tx.now))
    if along is not None:
        along(tx)
    for due in found:
        deployments.require_stop(tx, due.record, due.reason, drain_until=due.drain_until)
