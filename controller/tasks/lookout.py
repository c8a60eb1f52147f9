"""What keeps us from seeing what is there, whose it is, what time it is or what there is to rent, and is it told?

While no listing is complete nothing is created and no absence is proven, for as long as the provider asks us to wait,
be it a day: stops go on, and an alarm says since when we see nothing. Where nothing that is named like ours shows
tags (OU-2), a machine without a record is nobody's as far as anybody can tell, and is not swept. A provider whose date
is not ours is told too, and so is a type of card that a model names and the provider's catalog does not have.
"""

from datetime import datetime, timedelta

from controller.core.deployment import SeenResource
from controller.core.policy import HostingPolicy
from controller.core.unlisted import ALARM as UNLISTED
from controller.core.unlisted import in_words
from controller.core.view import View
from controller.news import Looks
from controller.store.store import Store
from controller.store.transaction import Tx
from controller.supervision import Cell

BLIND = "listing-failing"
CLOCK = "clock-disagrees"
HIDDEN = "tags-hidden"


class Lookout:
    """One pass over how the latest looks went."""

    name = "lookout"
    period = timedelta(seconds=60)
    looks_at = Looks.of(
        book=("alarms",),
        view=("failing_since", "complete_resources", "date_apart", "unlisted"),
        view_open=("listing", "completed"),
    )

    def __init__(self, *, store: Store, view: Cell[View], policy: HostingPolicy) -> None:
        self._store = store
        self._view = view
        self._policy = policy
        self.left_open = False

    async def run_pass(self) -> datetime | None:
        self.left_open = self._stands(BLIND) or self._stands(CLOCK) or self._view.value.failing_since is not None
        until = await self._tell_blindness()
        await self._tell_clock()
        await self._tell_hidden_tags()
        await self._tell_unlisted()
        return until

    async def _tell_blindness(self) -> datetime | None:
        view = self._view.value
        if view.failing_since is None:
            if self._stands(BLIND) and view.completed is not None:
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
        apart, stands = self._view.value.date_apart, self._stands(CLOCK)
        if apart is None:
            listing = self._view.value.completed if stands else None
            if listing is not None and listing.provider_time is not None:
                await self._store.write(lambda tx: tx.clear_alarm(CLOCK, subject=self._subject))
        elif not stands:
            detail = f"the provider's date is {apart.total_seconds():+.0f} s from ours: set this machine's clock"
            await self._store.write(lambda tx: tx.raise_alarm(CLOCK, subject=self._subject, detail=detail))

    async def _tell_hidden_tags(self) -> None:
        """By what is named as gpuwarden alone names machines, request id and all."""
        resources = self._view.value.complete_resources
        if resources is None:
            return
        named = [seen for seen in resources if _named_like_ours(seen)]
        hidden = bool(named) and all(seen.tags.owner is None for seen in named)
        if hidden is self._stands(HIDDEN):
            return

        def tell(tx: Tx) -> None:
            if hidden:
                tx.raise_alarm(HIDDEN, subject=self._subject, detail=_hidden(len(named)))
            else:
                tx.clear_alarm(HIDDEN, subject=self._subject)

        await self._store.write(tell)

    async def _tell_unlisted(self) -> None:
        """One alarm for each model; with other words where what is missing is another than was told."""
        found = self._view.value.unlisted
        if found is None:
            return
        due = {model: in_words(model, types) for model, types in found.items()}
        told = {alarm.subject: alarm.detail for alarm in self._store.book.alarms.values() if alarm.name == UNLISTED}
        if due == told:
            return

        def tell(tx: Tx) -> None:
            for model in sorted(told):
                if due.get(model) != told[model]:
                    tx.clear_alarm(UNLISTED, subject=model)
            for model in sorted(due):
                tx.raise_alarm(UNLISTED, subject=model, detail=due[model])

        await self._store.write(tell)

    def _stands(self, alarm: str) -> bool:
        return (alarm, self._subject) in self._store.book.alarms

    @property
    def _subject(self) -> str:
        return self._policy.account


def _named_like_ours(seen: SeenResource) -> bool:
    """A request id without tags is from a name under our prefix. What waits in a queue has a fault, and no tags."""
    return not seen.cluster and seen.fault is None and seen.tags.request is not None


def _hidden(count: int) -> str:
    what = (
        "the one machine named like ours shows no tags" if count == 1 else f"of {count} named like ours none shows tags"
    )
    return f"{what}: one that no record holds cannot be told from others', and is not swept"
