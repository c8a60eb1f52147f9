"""Does everything that bills hold today's money?

At UTC midnight yesterday's reservations are settled and today's made. Where the day's limit does not allow it, the
deployment drains for `spend`: what cannot be paid for is not kept. An orphan's stop is owed already: it is carried on
whatever the limit says.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from controller.core.deployment import Record
from controller.core.evidence import StopReason
from controller.core.identity import DeploymentId
from controller.core.lifecycle import Phase
from controller.core.obligation import Obligation
from controller.core.policy import HostingPolicy, ModelPolicy
from controller.core.spend import next_midnight, utc_day
from controller.news import Looks
from controller.store import deployments, ledger
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
        asked = [record for record in self._store.book.live() if record.id in old]
        await for_each([record for record in asked if (record.id, today) not in self._refused], self._roll)
        strays = [duty for duty in self._store.book.obligations.values() if duty.open and duty.deployment is None]
        await for_each([duty for duty in strays if DeploymentId(duty.id) in old], self._roll_stray)
        return next_midnight(now) if self._store.book.live() or strays else None

    async def _roll_stray(self, duty: Obligation) -> None:
        try:
            await self._store.write(lambda tx: ledger.roll_stray(tx, tx.duty(duty.id)))
        except Stale:
            return  # proven gone by now

    async def _roll(self, record: Record) -> None:
        lifetime = self._policy.lifetime(record.spec.requested_lifetime)
        ends = (record.started_at or record.declared_at) + lifetime

        def roll(tx: Tx) -> bool:
            current = tx.current(record)
            remaining = max(ends - tx.now, timedelta(0))
            if not ledger.roll(tx, current, remaining=remaining, usd_per_day=self._policy.usd_per_day):
                self._stop(tx, current)
                return False
            return True

        try:
            rolled = await self._store.write(roll)
        except Stale:
            return
        if not rolled:
            self._refused.add((record.id, utc_day(self._store.now)))

    def _stop(self, tx: Tx, record: Record) -> None:
        if record.phase not in {Phase.REQUESTED, Phase.ACTIVE}:
            return
        model = self._models.get(record.model)
        drain = self._policy.drain_limit if model is None else model.drain_limit
        deployments.require_stop(tx, record, StopReason.SPEND, drain_until=tx.now + drain)
