"""Is the account that we look at still the one that holds what we made?

When the provider's key changed, or when two or more resources vanish from one complete listing without a stop call of
ours, absence proves nothing until something recorded earlier is seen again or an operator confirms (RP-43).
"""

from dataclasses import replace
from datetime import datetime, timedelta

from controller.core.book import AccountTrust
from controller.core.identity import ResourceKey
from controller.core.view import View
from controller.store.store import Store
from controller.store.transaction import Tx
from controller.supervision import Cell

VANISHED_AT_ONCE = 2


class AccountGuard:
    """One pass over the latest complete listing."""

    name = "account_guard"
    period = timedelta(seconds=60)

    def __init__(self, *, store: Store, view: Cell[View]) -> None:
        self._store = store
        self._view = view
        self._before: frozenset[ResourceKey] | None = None
        self._began_at: datetime | None = None

    async def run_pass(self) -> datetime | None:
        listing = self._view.value.completed
        if listing is None or listing.began_at == self._began_at:
            return None
        self._began_at = listing.began_at
        held = self._store.book.held_keys()
        shown = frozenset(seen.key for seen in listing.resources) & held
        before = self._recorded_as_seen() if self._before is None else self._before
        vanished = (before - shown) & self._unstopped()
        self._before = shown
        trust = self._store.book.account
        if len(vanished) >= VANISHED_AT_ONCE and trust.trusted:
            await self._distrust(trust, f"{len(vanished)} resources vanished in one listing")
        elif shown and not trust.trusted:
            await self._store.write(lambda tx: _trust(tx, next(iter(sorted(shown, key=str)))))
        return None

    def _recorded_as_seen(self) -> frozenset[ResourceKey]:
        """What an earlier run of ours saw: it may have vanished while nobody looked."""
        duties = self._store.book.obligations.values()
        return frozenset(duty.key for duty in duties if duty.key is not None and duty.seen_at is not None)

    def _unstopped(self) -> frozenset[ResourceKey]:
        """Keys of open obligations for which we never sent a stop."""
        duties = self._store.book.obligations.values()
        return frozenset(duty.key for duty in duties if duty.open and duty.key is not None and not duty.stop_attempts)

    async def _distrust(self, trust: AccountTrust, why: str) -> None:
        def write(tx: Tx) -> None:
            tx.put_account(replace(trust, trusted=False, why=why))
            tx.line("account.changed", detail={"text": why})
            tx.raise_alarm("account-changed", subject=tx.book.scope.account, detail=why)

        await self._store.write(write)


def _trust(tx: Tx, key: ResourceKey) -> None:
    tx.put_account(replace(tx.book.account, trusted=True, why=None))
    tx.line("account.confirmed", resource=key, detail={"text": "a recorded resource is seen again"})
    tx.clear_alarm("account-changed", subject=tx.book.scope.account)
