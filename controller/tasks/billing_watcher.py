"""Is anything billed that was proven gone?

The last witness (OU-4, RP-46). What is billed for time after its discharge is owed again on the same key, though no
listing shows it, and stays owed until the bill is quiet or an operator vouches for its end. Every other end that the
bill bears out is told once as that: a second witness to what was proven without it, and never a proof by itself. A key
that may not read the bill is told once and held against nobody; a bill that makes no sense, or of an account in doubt,
says nothing.
"""

from datetime import datetime, timedelta
from functools import partial

from controller.core import billing
from controller.core.billing import Bill, Bucket
from controller.core.errors import Refusal
from controller.core.evidence import Evidence, StopReason
from controller.core.identity import ResourceKey
from controller.core.obligation import Obligation
from controller.core.policy import HostingPolicy
from controller.core.view import View
from controller.news import Looks
from controller.store import deployments, duties
from controller.store.errors import Stale
from controller.store.store import Store
from controller.supervision import Cell, for_each

DENIED = "billing-denied"


class BillingWatcher:
    """One pass over the latest bill; each is judged once."""

    name = "billing_watcher"
    period = timedelta(minutes=5)
    looks_at = Looks.of(
        book=("settled", "corroborated", "obligations", "alarms", "account", "standing"), view=("bill",)
    )

    def __init__(self, *, store: Store, view: Cell[View], policy: HostingPolicy, holder: str) -> None:
        self._store = store
        self._view = view
        self._policy = policy
        self._holder = holder

    async def run_pass(self) -> datetime | None:
        bill = self._view.value.bill
        if bill is None:
            return None
        await self._tell_denied(bill)
        if bill.problem is not None or not self._store.book.account.trusted:
            return None
        held = self._store.book.held_keys()
        found = billing.contradicted(bill, self._store.book.settled)
        await for_each([(key, bucket) for key, bucket in found.items() if key not in held], self._owe)
        owed = [duty for duty in self._store.book.obligations.values() if duty.open]
        await for_each([duty for duty in owed if duty.reason is StopReason.BILLED_AFTER_STOP], partial(self._end, bill))
        borne_out = billing.corroborated(bill, self._store.book.settled, self._store.book.corroborated)
        await for_each([(key, evidence) for key, evidence in borne_out.items() if key not in held], self._corroborate)
        return None

    async def _corroborate(self, found: tuple[ResourceKey, Evidence]) -> None:
        key, evidence = found
        ended_at = self._store.book.settled.get(key)
        if ended_at is None:
            return
        try:
            await self._store.write(lambda tx: duties.corroborate(tx, key, ended_at, evidence))
        except Stale:
            return  # it is held, or its end is another by now

    async def _owe(self, found: tuple[ResourceKey, Bucket]) -> None:
        key, bucket = found
        try:
            await self._store.write(
                lambda tx: duties.open_billed(tx, key, bucket, holder=self._holder, policy=self._policy)
            )
        except Stale:
            return  # it is held, or its end is another by now

    async def _end(self, bill: Bill, duty: Obligation) -> None:
        evidence: Evidence | None = billing.quiet(bill, duty)
        if evidence is None:
            return
        try:
            await self._store.write(lambda tx: deployments.discharge(tx, duty.id, evidence))
        except (Stale, Refusal):
            return

    async def _tell_denied(self, bill: Bill) -> None:
        account = self._policy.account
        standing = (DENIED, account) in self._store.book.alarms
        if bill.denied and not standing:
            detail = "the key may not read the bill, so that what is billed after its stop is not noticed: let it"
            await self._store.write(lambda tx: tx.raise_alarm(DENIED, subject=account, detail=detail))
        elif standing and bill.problem is None:
            await self._store.write(lambda tx: tx.clear_alarm(DENIED, subject=account))
