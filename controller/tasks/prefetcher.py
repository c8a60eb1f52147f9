"""Which volumes are to be filled with a model's weights before anybody asks for it, and is a start for that allowed?

A volume is filled by starting the model beside it. What could serve has read all of its weights, and has read them
from the volume: that is the one proof of complete files that needs no knowledge of them, and it comes from the same
probe as for any other machine. So this is a start like any other, of the same money, ceilings, holds and limits, in a
slot of its own; it only asks for nothing but what is beside that volume, is never active, and is stopped as soon as it
could be (`core.reconcile`). A wish is one attempt: whoever wants another asks again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

import structlog

from controller.clock import Clock
from controller.core import start
from controller.core.deployment import Record
from controller.core.errors import Code, Refusal
from controller.core.policy import HostingPolicy, ModelPolicy
from controller.core.spend import ceiling
from controller.core.view import View
from controller.ids import Randomness
from controller.news import Looks
from controller.store import declaring, ledger
from controller.store.errors import Stale
from controller.store.names import deployment_id
from controller.store.store import Store
from controller.store.wants import LASTS, Wants
from controller.supervision import Cell, for_each
from controller.tasks.executor import Executor

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    """What the prefetcher may do."""

    policy: HostingPolicy
    models: Mapping[str, ModelPolicy]
    holder: str
    randomness: Randomness
    barred: str | None = None


class Prefetcher:
    """One pass over the volumes that are asked to be filled."""

    name = "prefetcher"
    period = timedelta(minutes=5)
    looks_at = Looks.of(
        book=("owner", "records", "obligations", "memories", "reservations", "settled", "account", "matching_since"),
        view=("listing", "completed", "judged", "usd_per_hour", "shortages", "unlisted", "interval"),
    )

    def __init__(
        self, *, store: Store, view: Cell[View], wants: Wants, clock: Clock, executor: Executor, leave: Leave
    ) -> None:
        self._store = store
        self._view = view
        self._wants = wants
        self._clock = clock
        self._executor = executor
        self._leave = leave
        self.refusals: dict[tuple[str, str], start.Refuse] = {}
        """Why the volume of a model in a place is not being filled, for those who wait for that."""

    @property
    def idle(self) -> bool:
        """Nobody wants a volume to be filled: it is rung for when somebody does."""
        return not self._wants.filling and not self.refusals

    async def run_pass(self) -> datetime | None:
        self._wants.lapse_fills(now=self._clock.now())
        asked = [
            (model, place)
            for model in self._leave.models.values()
            for place in self._wants.fills(model.alias, now=self._clock.now())
        ]
        wanted = {(model.alias, place) for model, place in asked}
        for wish in self.refusals.keys() - wanted:  # in place: those who tell hold this very mapping
            del self.refusals[wish]
        until = await for_each([partial(self._fill, model, place) for model, place in asked], lambda turn: turn())
        lapses_at = self._clock.now() + LASTS if asked else None
        return min((at for at in (until, lapses_at) if at is not None), default=None)

    async def _fill(self, model: ModelPolicy, place: str) -> datetime | None:
        refused = self._verdict(model, place) or await self._begin(model, place)
        if refused is None:
            self.refusals.pop((model.alias, place), None)
            self._wants.fill_begun(model.alias, place)
            return None
        self.refusals[model.alias, place] = refused
        return refused.retry_at

    def _verdict(self, model: ModelPolicy, place: str) -> start.Refuse | None:
        if not model.offers_for(place):
            return start.Refuse(code=Code.NOT_FOUND, reason=f"it has no volume in {place}", final=True)
        if (there := self._there(model, place)) is not None:
            return start.Refuse(code=Code.REFUSED, reason=f"{there.id} is there for it already", final=False)
        verdict = start.decide(start.situation(model, model.slot_for(place), self._surroundings()))
        return verdict if isinstance(verdict, start.Refuse) else None

    def _there(self, model: ModelPolicy, place: str) -> Record | None:
        """By its place: its slot is another one after the order of the volumes has changed."""
        return next((record for record in self._store.book.live(model.alias) if record.fills == place), None)

    async def _begin(self, model: ModelPolicy, place: str) -> start.Refuse | None:
        try:
            await self._declare(model, place)
        except ledger.BudgetExhausted as broke:
            return start.Refuse(code=Code.BUDGET_EXHAUSTED, reason=str(broke), final=True)
        except (Refusal, Stale) as refused:
            log.info("prefetch_dropped", model=model.alias, place=place, why=str(refused))
            return start.Refuse(code=Code.REFUSED, reason=str(refused), final=False)
        return None

    async def _declare(self, model: ModelPolicy, place: str) -> None:
        """Raises Refusal, BudgetExhausted, Stale."""
        most = ceiling(model, self._view.value.usd_per_hour)
        if most is None:
            raise Stale("no price is known any more")
        offers = model.offers_for(place)
        wanted = declaring.StartOf(
            model=model,
            slot=model.slot_for(place),
            ceiling=most,
            holder=self._leave.holder,
            offer=next((offer for offer in offers if not self._left_out(model, place, offer)), offers[0]),
            fills=place,
        )
        name = deployment_id(self._leave.randomness, model.alias)
        await self._executor.begin(name, wanted, skip=partial(self._left_out, model, place))

    def _left_out(self, model: ModelPolicy, place: str, offer: str) -> bool:
        """Beside the volume in this place."""
        among = model.offers_for(place)
        return self._view.value.left_out(offer, among, model=model.alias, now=self._clock.now())

    def _surroundings(self) -> start.Surroundings:
        return start.Surroundings(
            book=self._store.book,
            view=self._view.value,
            policy=self._leave.policy,
            epochs_known=self._store.epochs_known,
            barred=self._leave.barred,
            clock_sound=self._store.clock.sound,
            now=self._store.now,
            spans_now=self._clock.now(),
        )
