"""What keeps us from seeing what is there, or what time it is, and is it told?

While no listing is complete nothing is created and no absence is proven, for as long as the provider asks us to wait,
be it a day: stops go on, and an alarm says since when we see nothing. A provider whose date is not ours is told too.
"""

from datetime import datetime, timedelta

from controller.core.policy import HostingPolicy
from controller.core.timekeeping import AGREED
from controller.core.view import View
from controller.store.store import Store
from controller.store.transaction import Tx
from controller.supervision import Cell, Looks

BLIND = "listing-failing"
CLOCK = "clock-disagrees"


class Lookout:
    """One pass over how the latest looks went."""

    name = "lookout"
    period = timedelta(seconds=60)
    looks_at = Looks.of(book=("alarms",), view=("listing", "completed", "failing_since"))

    def __init__(self, *, store: Store, view: Cell[View], policy: HostingPolicy) -> None:
        self._store = store
        self._view = view
        self._policy = policy

    async def run_pass(self) -> datetime | None:
        until = await self._tell_blindness()
        await self._tell_clock()
        return until

    async def _tell_blindness(self) -> datetime | None:
        view = self._view.value
        if view.failing_since is None:
            if view.completed is not None and self._stands(BLIND):
                await self._store.write(lambda tx: tx.clear_alarm(BLIND, subject=self._subject))
            return None
        told_at = view.failing_since + self._policy.stop_alarm_after
        if self._stands(BLIND):
            return None
        if self._store.now < told_at:
            return told_at
        problem = None if view.listing is None else view.listing.problem
        detail = f"no complete listing since {view.failing_since.isoformat(timespec='seconds')}: {problem or 'unknown'}"

        def tell(tx: Tx) -> None:
            tx.line("listing.failed", detail={"text": detail})
            tx.raise_alarm(BLIND, subject=self._subject, detail=detail)

        await self._store.write(tell)
        return None

    async def _tell_clock(self) -> None:
        listing = self._view.value.completed
        if listing is None or listing.provider_time is None:
            return
        apart = listing.provider_time - listing.ended_at
        if abs(apart) <= AGREED:
            if self._stands(CLOCK):
                await self._store.write(lambda tx: tx.clear_alarm(CLOCK, subject=self._subject))
        elif not self._stands(CLOCK):
            detail = f"the provider's date is {apart.total_seconds():+.0f} s from ours: set this machine's clock"
            await self._store.write(lambda tx: tx.raise_alarm(CLOCK, subject=self._subject, detail=detail))

    def _stands(self, alarm: str) -> bool:
        return (alarm, self._subject) in self._store.book.alarms

    @property
    def _subject(self) -> str:
        return self._policy.account
