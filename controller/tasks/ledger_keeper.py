"""Does everything that bills hold today's money?

At UTC midnight yesterday's reservations are settled and today's made. Where the day's limit does not allow it, the
deployment drains for `spend`: what cannot be paid for is not kept, not even where nothing can be written. An orphan's
stop is owed already: it is carried on whatever the limit says.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timedelta

from controller.core.book import Book
from controller.core.deployment import Record
from controller.core.evidence import StopReason
from controller.core.identity import DeploymentId
from controller.core.lifecycle import SERVING
from controller.core.obligation import Obligation
from controller.core.policy import HostingPolicy, ModelPolicy
from controller.core.spend import next_midnight, utc_day
from controller.news import Looks
from controller.store import ledger, owing
from controller.store.errors import Stale
from controller.store.store import Store
from controller.store.transaction import Tx
from controller.supervision import for_each


class LedgerKeeper:
    """One pass over what lives."""

    name = "ledger_keeper"
    period = timedelta(minutes=10)
    looks_at = Looks.of(book=("standing", "obligations", "reservations"))

    def __init__(self, *, store: Store, policy: HostingPolicy, models: Mapping[str, ModelPolicy]) -> None:
        self._store = store
        self._policy = policy
        self._models = models
        self._refused: set[tuple[DeploymentId, str]] = set()
        """What could not be afforded on which day: not asked again, or each answer would wake the next pass."""

    async def run_pass(self) -> datetime | None:
        now = self._store.now
        old = {
            held.deployment for held in self._store.book.reservations.values() if held.day < utc_day(now) and held.open
        }
        today = utc_day(now)
        self._refused = {(name, day) for name, day in self._refused if day == today}
        if any(record.id in old and (record.id, today) not in self._refused for record in self._store.book.live()):
            await self._roll()
        strays = [duty for duty in self._store.book.obligations.values() if duty.open and duty.deployment is None]
        await for_each([duty for duty in strays if DeploymentId(duty.id) in old], self._roll_stray)
        return next_midnight(now) if self._store.book.live() or strays else None

    async def _roll_stray(self, duty: Obligation) -> None:
        try:
            await self._store.write(lambda tx: ledger.roll_stray(tx, tx.duty(duty.id)))
        except Stale:
            return  # proven gone by now

    async def _roll(self) -> None:
        """All in one, for one after the other holds what the limit leaves."""
        usd_per_day, refused = self._policy.usd_per_day, set[DeploymentId]()

        def due(book: Book, now: datetime) -> Iterator[owing.Due]:
            lives = [(record.id, self._remaining(record, now=now)) for record in book.live()]
            for name in ledger.refused(book, lives, usd_per_day=usd_per_day, now=now):
                record = book.records[name]
                if record.phase in SERVING:
                    yield owing.Due(record=record, reason=StopReason.SPEND, drain_until=now + self._drain_limit(record))

        def roll(tx: Tx) -> None:
            for record in tx.book.live():
                remaining = self._remaining(record, now=tx.now)
                if not ledger.roll(tx, record, remaining=remaining, usd_per_day=usd_per_day):
                    refused.add(record.id)

        with suppress(Stale):
            await owing.oblige_by(self._store, due, along=roll)
            self._refused |= {(name, utc_day(self._store.now)) for name in refused}

    def _remaining(self, record: Record, *, now: datetime) -> timedelta:
        ends = (record.started_at or record.declared_at) + self._policy.lifetime(record.spec.requested_lifetime)
        return max(ends - now, timedelta(0))

    def _drain_limit(self, record: Record) -> timedelta:
        model = self._models.get(record.model)
        return self._policy.drain_limit if model is None else model.drain_limit
