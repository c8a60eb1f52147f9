"""How is it written down that one deployment makes way for another?

The wish of an operator, what a gateway proved of a successor, and the end of what was replaced; each only while what it
rests on is unchanged.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime

from controller.core import hosting, replacement
from controller.core.book import Book
from controller.core.deployment import Record
from controller.core.evidence import StopReason
from controller.core.identity import DeploymentId
from controller.core.lifecycle import Phase
from controller.store import owing
from controller.store.errors import Stale
from controller.store.transaction import Tx


def ask_restart(tx: Tx, names: Iterable[DeploymentId]) -> list[DeploymentId]:
    """An operator wants others in their place; of what serves only. One that has a successor already is not asked
    again, and the successor is not either: it is what was asked for. Returns those that make way."""
    live = tx.book.live()
    coming = {new.id for _, new in replacement.pairs(live)}
    asked = []
    for name in names:
        record = tx.book.records.get(name)
        if record is None or record.phase is not Phase.ACTIVE or record.id in coming:
            continue
        asked.append(record.id)
        if record.restart_asked_at is None:
            tx.put_record(hosting.asked_to_restart(record, now=tx.now))
    return asked


def note_proven(tx: Tx, name: DeploymentId, *, epoch: int) -> None:
    """A gateway got an answer from it; kept of a successor only, for it is what the old one waits for."""
    record = tx.book.records.get(name)
    if record is None or record.phase is not Phase.ACTIVE or record.epoch != epoch:
        return
    if record.replaces is not None and record.proven_at is None:
        tx.put_record(replace(record, proven_at=tx.now))


def retirement(decided_on: Record, successor: Record, *, drain_until: datetime) -> owing.Rule:
    """Its successor serves: it is owed a stop once its open requests have ended. Stale if the successor changed."""

    def due(book: Book, _: datetime) -> Iterator[owing.Due]:
        if book.records.get(successor.id) != successor:
            raise Stale(f"deployment {successor.id} changed since it was decided on")
        yield owing.Due(record=decided_on, reason=StopReason.REPLACED, drain_until=drain_until)

    return due
