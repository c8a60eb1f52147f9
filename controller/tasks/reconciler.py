"""What has to change so that what is wanted, recorded and observed agree?

Matches the latest view with the book: adopts what came of a lost create, takes observations in, applies the rules to
each deployment, declares what is wanted and allowed, and lets what serves make way for its successor. Ending
obligations, idleness, crash loops and orphans have tasks of their own.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import assert_never

import structlog

from controller.clock import Clock
from controller.core import bad_places, costs, machine_log, reconcile, replacement, slots, start
from controller.core.deployment import ProvisionedDeployment, Record, SeenResource
from controller.core.errors import Code, Refusal
from controller.core.evidence import StopReason
from controller.core.identity import DeploymentId
from controller.core.lifecycle import ENDED, Phase
from controller.core.obligation import Obligation
from controller.core.policy import HostingPolicy, ModelPolicy
from controller.core.provenance import judged, made_by, made_otherwise, moved_to
from controller.core.readiness import Assessment, assess, cold_start
from controller.core.spend import ceiling
from controller.core.view import View
from controller.ids import Randomness
from controller.news import Looks
from controller.store import declaring, deployments, duties, ledger, owing, replacing
from controller.store.errors import Stale, StoreUnwritable
from controller.store.names import deployment_id
from controller.store.store import Store
from controller.store.stream_leases import StreamLeases
from controller.store.transaction import Tx
from controller.store.wants import Wants, obey_schedule
from controller.supervision import Cell, for_each
from controller.tasks.executor import Executor

UNRESOLVED_ALARM = timedelta(seconds=300)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Charter:
    """What the reconciler may do."""

    policy: HostingPolicy
    models: Mapping[str, ModelPolicy]
    holder: str
    randomness: Randomness
    barred: str | None = None
    config_readable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Where it hears of the world besides the store: what was seen, what is wanted, what is open."""

    view: Cell[View]
    wants: Wants
    stream_leases: StreamLeases
    clock: Clock


class Reconciler:
    """One pass over everything on record and everything wanted."""

    name = "reconciler"
    period = timedelta(seconds=60)
    looks_at = Looks.of(
        book=("owner", "standing", "creates", "obligations", "memories", "reservations"),
        view=("resources", "answers", "logs", "usd_per_hour", "costs"),
        book_open=("starts", "settled", "alarms", "account", "matching_since"),
        view_open=(
            "listing",
            "completed",
            "judged",
            "absences",
            "reads",
            "probes",
            "shortages",
            "unlisted",
            "interval",
        ),
    )

    def __init__(
        self,
        *,
        store: Store,
        told: Told,
        executor: Executor,
        charter: Charter,
    ) -> None:
        self._store = store
        self._view = told.view
        self._wants = told.wants
        self._stream_leases = told.stream_leases
        self._clock = told.clock
        self._executor = executor
        self._charter = charter
        self.refusals: dict[str, start.Refuse] = {}
        """Why each wanted model is not started, for those who wait; by its id, why what makes way has no successor."""
        self._rings: list[Callable[[], None]] = []
        self._unseen: dict[DeploymentId | None, Obligation] = {}
        """Of each deployment, the duty whose resource was not seen yet, as of this pass."""
        self.left_open = False

    def on_refusal(self, ring: Callable[[], None]) -> None:
        """Call `ring` when what those who wait are told has changed; it must not wait or fail."""
        self._rings.append(ring)

    async def run_pass(self) -> datetime | None:
        told, self.left_open = dict(self.refusals), False
        until = await self._pass()
        known = {*self._charter.models, *(record.id for record in self._store.book.live())}
        for subject in self.refusals.keys() - known:  # in place: those who tell hold this very mapping
            del self.refusals[subject]
        if told != self.refusals:
            for ring in self._rings:
                ring()
        return until

    async def _pass(self) -> datetime | None:
        book = self._store.book
        self._unseen = {
            duty.deployment: duty for duty in book.obligations.values() if duty.open and duty.seen_at is None
        }
        # Those who wait first: what a listing newly says of other machines costs a commit each.
        turns: list[Callable[[], Awaitable[datetime | None]]] = [self._executor.take_back]
        turns += [partial(self._start_wanted, model) for model in self._charter.models.values()]
        turns += [partial(self._consider, record) for record in book.live()]
        return await for_each(turns, lambda turn: turn())

    async def _consider(self, record: Record) -> datetime | None:
        try:
            return await self._settle_one(record)
        except (Stale, Refusal) as dropped:
            self.left_open = True
            log.info("decision_dropped", deployment=record.id, why=str(dropped))
            return None

    # What is on record

    async def _settle_one(self, record: Record) -> datetime | None:
        if record.phase is Phase.DECLARED:
            return None
        if record.key is None:
            self.left_open = True
            return await self._resolve(record)
        seen = self._view.value.resource(record.key)
        self.left_open |= seen is None
        if seen is None and (moved := moved_to(record, self._view.value, self._store.book)) is not None:
            await self._store.write(lambda tx: deployments.follow_move(tx, record, moved))
            return None
        said = self._view.value.costs.get(record.key, ())
        try:
            record = await self._take_in(record, seen, said)
        except StoreUnwritable:
            self.left_open = True  # what time or a fault obliges is found all the same
        found = judged(record, seen, self._charter.models.get(record.model), self._store.book)
        look = reconcile.Look(seen=found, assessment=self._assessment(record), costs=said)
        decision = reconcile.decide(record, look, self._bounds(record), now=self._store.now)
        return await self._apply(record, decision)

    def _bounds(self, record: Record) -> reconcile.Bounds:
        model = self._charter.models.get(record.model)
        return reconcile.Bounds(
            owner=self._store.book.owner,
            lifetime=self._charter.policy.lifetime(record.spec.requested_lifetime),
            model=model,
            usd_per_hour_max=costs.ceiling_of(record, model, self._store.book, self._view.value.usd_per_hour),
            progress_at=machine_log.progress_at(self._view.value.logs.get(record.id)),
            readable=self._charter.config_readable,
        )

    async def _resolve(self, record: Record) -> datetime | None:
        """Look for what came of a lost create."""
        made = made_by(record, self._view.value, self._store.book)
        if made is not None:
            await self._adopt(record, made)
            return None
        return await self._alarm_unresolved(record)

    async def _adopt(self, record: Record, seen: SeenResource) -> None:
        model = self._charter.models.get(record.model)
        wanted = model is not None and record.phase is Phase.UNCERTAIN
        other = made_otherwise(record, seen, model, self._store.book)
        await self._store.write(lambda tx: deployments.adopt(tx, record, seen, wanted=wanted, made_otherwise=other))

    async def _alarm_unresolved(self, record: Record) -> datetime | None:
        since = record.started_at or record.declared_at
        standing = {subject for name, subject in self._store.book.alarms if name == "create-unresolved"}
        unresolved = [duty.id for duty in self._store.book.duties(record.id) if duty.id not in standing]
        if not unresolved:
            return None
        if self._store.now < since + UNRESOLVED_ALARM:
            return since + UNRESOLVED_ALARM

        def alarm(tx: Tx) -> None:
            for subject in unresolved:
                tx.raise_alarm("create-unresolved", subject=subject, detail="nobody knows whether it made anything")

        await self._store.write(alarm)
        return None

    async def _take_in(self, record: Record, seen: SeenResource | None, said: costs.Costs) -> Record:
        """Write what the view newly says of it: first sighting, rate, readiness, endpoint."""
        if seen is None:
            return record
        unseen = self._unseen.get(record.id)
        if unseen is not None and unseen.key == seen.key:
            await self._store.write(lambda tx: duties.note_seen(tx, unseen.id))
        assessment = self._assessment(record)
        probed = self._view.value.probes.get(record.id)
        observed = ProvisionedDeployment.observed(
            seen,
            ready=None if assessment is None else assessment.ready,
            served_model=probed.served[0] if probed is not None and probed.served and len(probed.served) == 1 else None,
            observed_at=self._store.now,
        )
        if (rate := costs.bills_more(record, said)) is not None:
            record = await self._store.write(lambda tx: deployments.record_cost(tx, record, rate))
        same = record.observed is not None and replace(record.observed, observed_at=observed.observed_at) == observed
        if same and seen.place in {None, record.place}:
            return record
        return await self._store.write(lambda tx: deployments.record_observed(tx, record, observed, place=seen.place))

    def _assessment(self, record: Record) -> Assessment | None:
        probed = self._view.value.probes.get(record.id)
        model = self._charter.models.get(record.model)
        if probed is None or model is None:
            return None
        return assess(probed.verdict, probed.served, expected=model.served_name)

    async def _apply(self, record: Record, decision: reconcile.Decision) -> datetime | None:
        match decision:
            case reconcile.Nothing():
                return decision.until
            case reconcile.Ready():
                self.left_open = True  # those read what else the probe said
                took, detail = self._cold_start(record), self._runs(record)
                await self._store.write(lambda tx: deployments.record_ready(tx, record, took=took, detail=detail))
            case reconcile.Unready():
                await self._store.write(lambda tx: deployments.record_unready(tx, record, since=decision.since))
            case reconcile.ReadyAgain():
                await self._store.write(lambda tx: deployments.record_unready(tx, record, since=None))
            case reconcile.RequireStop():
                drain = self._drain_until(record, decision.reason)
                await owing.oblige(self._store, record, decision.reason, drain_until=drain)
            case reconcile.OursAgain():
                await self._store.write(lambda tx: deployments.take_back(tx, record))
            case reconcile.HandOver():
                await self._store.write(lambda tx: deployments.hand_over(tx, record, epoch=decision.epoch))
            case _:
                assert_never(decision)
        return None

    def _cold_start(self, record: Record) -> timedelta | None:
        probed = self._view.value.probes.get(record.id)
        if probed is None or record.started_at is None:
            return None
        return cold_start(started_at=record.started_at, awaited_at=probed.awaited_at, ready_at=probed.at)

    def _runs(self, record: Record) -> str | None:
        probed = self._view.value.probes.get(record.id)
        return None if probed is None or probed.version is None else f"runs vLLM {probed.version}"

    def _drain_until(self, record: Record, reason: StopReason) -> datetime | None:
        """Open requests may end where the machine still serves well; not where it is broken or unsafe."""
        if record.phase is not Phase.ACTIVE or reason not in reconcile.DRAINED:
            return None
        model = self._charter.models.get(record.model)
        return self._store.now + (model.drain_limit if model is not None else self._charter.policy.drain_limit)

    # What is wanted

    async def _start_wanted(self, model: ModelPolicy) -> datetime | None:
        window_at = obey_schedule(self._wants, model, self._store.book, now=self._store.now)
        return min((at for at in (window_at, await self._start_asked(model)) if at is not None), default=None)

    async def _start_asked(self, model: ModelPolicy) -> datetime | None:
        book, alias = self._store.book, model.alias
        live = book.live(alias)
        self._forget_satisfied(model, live)
        ended = (record for record in book.records.values() if record.model == alias and record.phase in ENDED)
        asked = self._wants.wanted(alias, now=self._clock.now())
        free = slots.to_fill(model.slots, live, ended, asked=asked)
        if not free:
            self.refusals.pop(alias, None)
        turns = [partial(self._start, model, slot) for slot in free]
        turns += [partial(self._replace, model, record) for record in live]
        return await for_each(turns, lambda turn: turn())

    def _forget_satisfied(self, model: ModelPolicy, live: Sequence[Record]) -> None:
        if slots.filled(model.slots, live):
            self._wants.satisfied(model.alias)
        for record in live:
            if record.stop_required_at is not None and record.fills is None:
                self._wants.satisfied(model.alias, before=record.stop_required_at)

    async def _start(self, model: ModelPolicy, slot: int, *, instead: Record | None = None) -> datetime | None:
        """Start it in an empty slot, or `instead` of what serves there and goes on serving."""
        self.left_open = True
        told = model.alias if instead is None else instead.id
        replaces = None if instead is None else instead.id
        verdict = start.decide(start.situation(model, slot, self._surroundings(), replaces=replaces))
        if isinstance(verdict, start.Refuse):
            self.refusals[told] = verdict
            return verdict.retry_at
        try:
            await self._begin(model, slot, replaces)
        except ledger.BudgetExhausted as broke:
            self.refusals[told] = start.Refuse(code=Code.BUDGET_EXHAUSTED, reason=str(broke), final=True)
            return None
        except Refusal as refused:
            self.refusals[told] = start.Refuse(code=Code.REFUSED, reason=str(refused), final=False)
            return None
        except Stale as dropped:
            log.info("start_dropped", model=model.alias, why=str(dropped))
            return None
        self.refusals.pop(told, None)
        return None

    async def _begin(self, model: ModelPolicy, slot: int, replaces: DeploymentId | None) -> None:
        """Raises Refusal, BudgetExhausted, Stale."""
        most = ceiling(model, self._view.value.usd_per_hour)
        if most is None:
            raise Stale("no price is known any more")
        offer = next((offer for offer in model.offers if not self._left_out(model, offer)), model.offers[0])
        holder, name = self._charter.holder, deployment_id(self._charter.randomness, model.alias)
        wanted = declaring.StartOf(model=model, slot=slot, ceiling=most, holder=holder, offer=offer, replaces=replaces)
        await self._executor.begin(name, wanted, skip=partial(self._left_out, model))

    # What makes way

    async def _replace(self, model: ModelPolicy, record: Record) -> datetime | None:
        live, now = self._store.book.live(model.alias), self._store.now  # anew: what was begun in this pass counts
        successor = replacement.successor_of(record, live)
        self.left_open |= successor is not None
        case = replacement.Case(
            record=record,
            successor=successor,
            tried=successor is not None and self._stream_leases.live(successor.id, now=now) > 0,
            elsewhere=any(old.id != record.id for old, _ in replacement.pairs(live)),
            model=model,
            lifetime=self._charter.policy.lifetime(record.spec.requested_lifetime),
            cold_start=self._store.book.memory(model.alias).cold_start,
            now=now,
        )
        decision = replacement.decide(case)
        if isinstance(decision, replacement.Begin):
            return await self._start(model, record.slot, instead=record)
        self.refusals.pop(record.id, None)
        try:
            return await self._shift(model, record, successor, decision)
        except (Stale, Refusal) as dropped:
            self.left_open = True
            log.info("decision_dropped", deployment=record.id, why=str(dropped))
            return None

    async def _shift(
        self, model: ModelPolicy, record: Record, successor: Record | None, decision: replacement.Decision
    ) -> datetime | None:
        if isinstance(decision, replacement.Keep):
            return decision.until
        if isinstance(decision, replacement.Queue):
            reason = "another slot of it is being replaced"
            self.refusals[record.id] = start.Refuse(code=Code.REFUSED, reason=reason, final=False)
        elif successor is None:
            return None
        elif isinstance(decision, replacement.Retire):
            drain = self._store.now + model.drain_limit
            await owing.oblige_by(self._store, replacing.retirement(record, successor, drain_until=drain))
        elif isinstance(decision, replacement.GiveUp):
            await owing.oblige(self._store, successor, decision.reason)
        return None

    def _left_out(self, model: ModelPolicy, offer: str) -> bool:
        bad = bad_places.offers_there(self._store.book, model.alias, model.fingerprint, now=self._store.now)
        return self._view.value.left_out(offer, model.offers, model=model.alias, bad=bad, now=self._clock.now())

    def _surroundings(self) -> start.Surroundings:
        return start.Surroundings(
            book=self._store.book,
            view=self._view.value,
            policy=self._charter.policy,
            epochs_known=self._store.epochs_known,
            barred=self._charter.barred,
            clock_sound=self._store.clock.sound,
            now=self._store.now,
            spans_now=self._clock.now(),
        )
