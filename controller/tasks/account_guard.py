"""Is the account that we look at still the one that holds what we made?

When the provider's key changed, or when two or more resources vanish from one complete listing without a stop call of
ours, absence proves nothing until something recorded earlier is seen again or an operator confirms (RP-43).

No rule takes a listing's word for an absence, or creates on it, before it was judged here: whoever runs first, the
verdict comes before the use. A verdict that could not be written is none, and the listing is judged again.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from controller.core.book import AccountTrust
from controller.core.identity import ResourceKey
from controller.core.view import View
from controller.news import Looks
from controller.store.store import Store
from controller.store.transaction import Tx
from controller.supervision import Cell

VANISHED_AT_ONCE = 2
ALARM = "account-changed"


class AccountGuard:
    """One pass over the latest complete listing; says in the view which one it judged last."""

    name = "account_guard"
    period = timedelta(seconds=60)
    looks_at = Looks.of(
        view=("completed",), book_open=("standing", "obligations", "account", "alarms", "matching_since")
    )

    def __init__(self, *, store: Store, view: Cell[View]) -> None:
        self._store = store
        self._view = view
        self._before: frozenset[ResourceKey] | None = None
        self.left_open = False

    async def run_pass(self) -> datetime | None:
        listing, self.left_open = self._view.value.completed, False
        if listing is None or listing.began_at == self._view.value.judged:
            return None
        self.left_open = True  # what is on record decides on a listing alone that was not judged yet
        shown = frozenset(listing.by_key) & self._store.book.held_keys()
        await self._judge(shown)
        self._before = shown
        self._view.publish(replace(self._view.value, judged=listing.began_at))
        return None

    async def _judge(self, shown: frozenset[ResourceKey]) -> None:
        trust = self._store.book.account
        if trust.trusted:
            before = self._recorded_as_seen() if self._before is None else self._before
            vanished = (before - shown) & self._unstopped()
            if len(vanished) >= VANISHED_AT_ONCE:
                await self._distrust(trust, f"{len(vanished)} resources vanished in one listing")
        elif known := shown & self._recorded_before_the_doubt():
            key = min(known, key=str)
            await self._store.write(lambda tx: _trust(tx, key, "a recorded resource is seen again"))
        elif not self._store.book.owing:
            await self._store.write(lambda tx: _trust(tx, None, "nothing is owed to the former account"))

    def _recorded_as_seen(self) -> frozenset[ResourceKey]:
        """What an earlier run of ours saw: it may have vanished while nobody looked. An old copy of the store tells
        nothing of the kind: what it holds may have been stopped since."""
        if self._store.book.matching_since is not None:
            return frozenset()
        duties = self._store.book.obligations.values()
        return frozenset(duty.key for duty in duties if duty.key is not None and duty.seen_at is not None)

    def _recorded_before_the_doubt(self) -> frozenset[ResourceKey]:
        """Keys that were known before. What a create in flight made since then may be in the other account."""
        alarm = self._store.book.alarms.get((ALARM, self._store.book.scope.account))
        known = (
            (duty.key, duty.seen_at or duty.create_ended_at or duty.opened_at)
            for duty in self._store.book.obligations.values()
        )
        return frozenset(key for key, at in known if key is not None and (alarm is None or at < alarm.since))

    def _unstopped(self) -> frozenset[ResourceKey]:
        """Keys of open obligations for which we never sent a stop."""
        duties = self._store.book.obligations.values()
        return frozenset(duty.key for duty in duties if duty.open and duty.key is not None and not duty.stop_attempts)

    async def _distrust(self, trust: AccountTrust, why: str) -> None:
        def write(tx: Tx) -> None:
            tx.put_account(replace(trust, trusted=False, why=why))
            tx.line("account.changed", detail={"text": why})
            tx.raise_alarm(ALARM, subject=tx.book.scope.account, detail=why)

        await self._store.write(write)


def _trust(tx: Tx, key: ResourceKey | None, why: str) -> None:
    tx.put_account(replace(tx.book.account, trusted=True, why=None))
    tx.line("account.confirmed", resource=key, detail={"text": why})
    tx.clear_alarm(ALARM, subject=tx.book.scope.account)
