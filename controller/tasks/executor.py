"""How do decisions become calls that cost or end something?

The one hand. Intent, call, outcome: the intent is committed before the call, the outcome is recorded whatever cancels
us, and no transaction is open meanwhile. A create that nobody answered for is never sent again; a stop is sent under
the present lease only. Where the store cannot be written, a stop that is due and whose obligation is committed may
still be sent (invariant 4).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final, assert_never

import anyio
import structlog
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskGroup, TaskStatus

from controller.core import obligation
from controller.core.bad_places import passed_over
from controller.core.deployment import Create, CreateAnswer, Record
from controller.core.errors import Code, Refusal
from controller.core.identity import DeploymentId, ObligationId, RequestId, ResourceKey, Tags
from controller.core.lifecycle import Phase
from controller.core.obligation import Obligation, StopAnswer
from controller.core.policy import HostingPolicy, ModelPolicy
from controller.providers.writing import (
    CreateAccepted,
    CreateNotSent,
    CreateOutcome,
    CreateRejected,
    CreateUnknown,
    Launch,
    Order,
    RejectedFor,
    StopAccepted,
    StopNotFound,
    StopOutcome,
    StopRefused,
    StopUnknown,
    Writing,
)
from controller.store import declaring, deployments, duties, holds
from controller.store.declaring import StartOf
from controller.store.deployments import Planned
from controller.store.errors import Stale, StoreUnwritable
from controller.store.fencing import fence_call, fence_stop
from controller.store.store import Store
from controller.store.transaction import Tx
from controller.supervision import contained

RECORD_LIMIT: Final = timedelta(seconds=5)
"""How long recording an outcome may hold up a shutdown; after that the intent on disk is the trace."""
RECORD_RETRY: Final = timedelta(seconds=1)
RECORD_RETRY_MOST: Final = timedelta(seconds=5)
LULL: Final = timedelta(milliseconds=20)
"""A create leaves within it; what is woken by its commit makes its passes afterwards, not before."""
UNANSWERED: Final = StopUnknown(detail="the controller was stopped before the answer came")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What the executor works with."""

    store: Store
    writing: Writing
    policy: HostingPolicy
    holder: str
    """This process: leases are held under its name."""
    launches: Mapping[str, Launch]
    sighted: Callable[[ResourceKey], datetime | None]
    """When a resource was seen last."""


Skip = Callable[[str], bool]
"""Is this offer not worth a call at this moment?"""
Work = Callable[[Tx], object]
"""A transaction function whose result nobody needs."""


def _none(offer: str) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One stop call, and what was answered."""

    at: datetime
    outcome: StopOutcome = UNANSWERED
    ended_at: datetime | None = None

    @property
    def taken(self) -> bool:
        """Is it for the listings to say now whether there is anything left?"""
        return isinstance(self.outcome, StopAccepted | StopNotFound)

    def in_vain(self, seen_at: datetime | None) -> bool:
        return not self.taken or (seen_at is not None and seen_at > (self.ended_at or self.at))


class Executor:
    """Sends creates and stops in a task group of its own, each at most once at a time."""

    def __init__(self, means: Means) -> None:
        self._means = means
        self._group: TaskGroup | None = None
        self._unseen: set[DeploymentId] = set()
        """Deployments of which nobody saw whether they were declared."""
        self._stopping: set[ObligationId] = set()
        self._shut = False

    async def run(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Hold the calls' task group until cancelled. What is asked for before is dropped; passes ask again."""
        try:
            async with anyio.create_task_group() as self._group:
                task_status.started()
                await anyio.sleep_forever()
        finally:
            self._group = None

    def shut(self) -> None:
        """No call is begun any more; those in flight go on."""
        self._shut = True

    # Creates

    async def begin(self, name: DeploymentId, wanted: StartOf, *, skip: Skip = _none) -> None:
        """Put it on record, and send its creates in the background. Raises Refusal, Stale, BudgetExhausted."""

        def declare(tx: Tx) -> Planned:
            if self._shut:
                raise Stale("the controller is ending")
            return declaring.declare(tx, name, wanted, policy=self._means.policy)

        try:
            planned = await self._means.store.write(declare, lull=LULL)
        except StoreUnwritable:
            self._unseen.add(name)
            raise
        self.start(planned, wanted.model, skip=skip)

    def start(self, planned: Planned, model: ModelPolicy, *, skip: Skip = _none) -> None:
        """Send the creates of one deployment, offer after offer, in the background; the first is on record as on its
        way."""
        if self._group is not None:
            call = partial(contained, partial(self._round, planned, model, skip), name="create")
            self._group.start_soon(call, name=f"create {planned.record.id}")

    async def take_back(self) -> None:
        """Nobody saw whether these were committed, and they were not started for that: none of them stays on record."""
        if names := sorted(self._unseen):
            await self._means.store.write(lambda tx: declaring.withdraw(tx, *names, called=()))
            self._unseen.difference_update(names)

    async def _round(self, planned: Planned, model: ModelPolicy, skip: Skip) -> None:
        """Ask for each offer in order until one is made or nothing can be said for certain (RP-16)."""
        name, called = planned.record.id, set[RequestId]()
        try:
            await self._try_offers(planned, model, skip, called)
        except (Refusal, Stale, StoreUnwritable) as dropped:
            log.warning("start_dropped", deployment=name, why=str(dropped))
            await self._recorded(lambda tx: declaring.withdraw(tx, name, called=called))

    async def _try_offers(self, planned: Planned, model: ModelPolicy, skip: Skip, called: set[RequestId]) -> None:
        offers = model.offers_for(planned.record.fills)
        remaining = iter(offers[offers.index(planned.create.offer) + 1 :])
        while True:
            outcome = await self._create(planned, called)
            if not isinstance(outcome, CreateRejected) or outcome.what is not RejectedFor.OFFER:
                return
            following = next((offer for offer in remaining if not skip(offer)), None)
            if following is None or self._shut:
                await self._end_round(planned.record, outcome)
                return
            planned = await self._plan_next(planned.record, following)

    async def _end_round(self, record: Record, outcome: CreateRejected) -> None:
        await self._recorded(lambda tx: _end_round(tx, record, outcome, self._means.policy))

    async def _plan_next(self, record: Record, offer: str) -> Planned:
        store, holder = self._means.store, self._means.holder
        return await store.write(lambda tx: declaring.plan_next(tx, record.id, offer=offer, holder=holder))

    async def _create(self, planned: Planned, called: set[RequestId]) -> CreateOutcome:
        """One call, and its outcome recorded: not sent, unless it was `called`."""
        request, policy = planned.create.request, self._means.policy
        outcome: CreateOutcome = CreateNotSent(detail="not sent: its order could not be made")
        try:
            order, barred = self._order(planned), self._barred(planned.record)
            if barred is None:
                called.add(request)
                outcome = CreateUnknown(detail="the controller was stopped before the answer came")
            outcome = barred or await self._means.writing.create(order)
        finally:
            await self._kept(lambda tx: _record_create(tx, request, outcome, policy))
        return outcome

    def _barred(self, record: Record) -> CreateNotSent | None:
        """Why the call must not leave, though it is on record as on its way."""
        if self._shut:
            return CreateNotSent(detail="not sent: the controller is ending")
        try:
            fence_call(self._means.store, record, holder=self._means.holder)
        except (Refusal, Stale) as lapsed:
            return CreateNotSent(detail=f"not sent: {lapsed}, since this process did not run")
        return None

    def _order(self, planned: Planned) -> Order:
        record, book = planned.record, self._means.store.book
        owner, request = book.owner, planned.create.request
        return Order(
            spec=record.spec,
            tags=Tags(owner=owner.name, installation=owner.installation, epoch=record.epoch, request=request),
            offer=planned.create.offer,
            launch=self._means.launches[record.model],
            usd_per_hour_max=book.ceiling(record.id),
            avoid=passed_over(book, record),
        )

    # Stops

    def stop(self, duty: Obligation) -> None:
        """Send one stop in the background, unless one is on its way."""
        if self._group is None or self._shut or duty.id in self._stopping:
            return
        self._stopping.add(duty.id)
        self._group.start_soon(partial(contained, partial(self._stop, duty), name="stop"), name=f"stop {duty.id}")

    def stopping(self, duty: Obligation) -> bool:
        """Is a call of it on its way, or not on record yet? Whoever ends the duty first makes that untold for ever."""
        return duty.id in self._stopping

    async def _stop(self, duty: Obligation) -> None:
        try:
            if duty.key is not None:
                await self._send_stops(duty, duty.key, late=not await self._mark_stop(duty))
        except (Refusal, Stale) as refused:
            log.info("stop_dropped", obligation=duty.id, why=str(refused))
        finally:
            self._stopping.discard(duty.id)

    async def _send_stops(self, duty: Obligation, key: ResourceKey, *, late: bool) -> None:
        """One call; where its answer cannot be written nobody asks for another, and it is as many as it takes."""
        sent = list[Sent]()
        record = partial(_record_sent, duty=duty.id, sent=sent, policy=self._means.policy, late=late)
        try:
            while True:
                sent.append(Sent(at=self._means.store.now))
                outcome = await self._send_stop(duty, key)
                sent[-1] = Sent(at=sent[-1].at, outcome=outcome, ended_at=self._means.store.now)
                if await self._told_before_the_next(record, sent, key):
                    sent.clear()
                    return
        finally:
            if sent:
                await self._kept(record)

    async def _told_before_the_next(self, record: Work, sent: Sequence[Sent], key: ResourceKey) -> bool:
        """Could it be recorded before another call is due? By the rules of `core.obligation`: what was accepted is
        asked for again where it is still seen."""
        due_at = self._means.store.now + _pause(sent, self._means.policy)
        while not await self._written(record):
            left = max(due_at - self._means.store.now, timedelta(0))
            if not left and sent[-1].in_vain(self._means.sighted(key)):
                return False
            await anyio.sleep(min(left or RECORD_RETRY_MOST, RECORD_RETRY_MOST).total_seconds())
        return True

    async def _send_stop(self, duty: Obligation, key: ResourceKey) -> StopOutcome:
        try:
            fence_call(self._means.store, duty, holder=self._means.holder)
        except (Refusal, Stale) as lapsed:
            return StopRefused(detail=f"not sent: {lapsed}, since this process did not run")
        return await self._means.writing.stop(key)

    async def _mark_stop(self, duty: Obligation) -> bool:
        """Commit the intent; False where the store cannot be written and the committed obligation has to be enough."""
        try:
            await self._means.store.write(lambda tx: duties.mark_stop(tx, duty.id, holder=self._means.holder))
        except (StoreUnwritable, Refusal):
            # Refuses it again, unless it was for a lease that ran out and cannot be renewed.
            fence_stop(self._means.store, duty, holder=self._means.holder)
            log.error("stop_sent_unrecorded", obligation=duty.id)
            return False
        return True

    async def _kept(self, work: Work) -> None:
        """Record an outcome: for as long as it takes while we live, for RECORD_LIMIT once we are being ended."""
        try:
            await self._recorded(work)
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(RECORD_LIMIT.total_seconds(), shield=True):
                await self._recorded(work)
            raise

    async def _recorded(self, work: Work) -> None:
        """Write until it is written: what was paid for or ended must not be forgotten while we live."""
        pause = RECORD_RETRY
        while not await self._written(work):
            await anyio.sleep(pause.total_seconds())
            pause = min(2 * pause, RECORD_RETRY_MOST)

    async def _written(self, work: Work) -> bool:
        """Also where it came too late to count."""
        try:
            await self._means.store.write(work)
        except StoreUnwritable as problem:
            log.error("outcome_not_recorded", error=str(problem))
            return False
        except Stale as problem:
            log.info("outcome_stale", why=str(problem))
        return True


def _record_create(tx: Tx, request: RequestId, outcome: CreateOutcome, policy: HostingPolicy) -> None:
    create = tx.book.creates[request]
    if create.answer is not None:
        raise Stale(f"create {request} is answered")
    match outcome:
        case CreateAccepted() if outcome.resource.key in tx.book.held_keys():
            deployments.record_unknown(tx, create, detail="the answer describes a resource that is on record already")
        case CreateAccepted():
            deployments.record_accepted(tx, create, outcome.resource, mismatch=outcome.mismatch)
        case CreateUnknown():
            deployments.record_unknown(tx, create, detail=outcome.detail)
        case CreateNotSent():
            record = deployments.record_refused(tx, create, CreateAnswer.NOT_SENT, detail=outcome.detail)
            deployments.cancel(tx, record)
        case CreateRejected():
            _record_rejected(tx, create, outcome, policy)
        case _:
            assert_never(outcome)


def _record_rejected(tx: Tx, create: Create, outcome: CreateRejected, policy: HostingPolicy) -> None:
    record = deployments.record_refused(tx, create, CreateAnswer.REJECTED, detail=outcome.detail)
    if outcome.what is not RejectedFor.OFFER:
        deployments.cancel(tx, record)
    if (reason := BLOCKED.get(outcome.what)) is not None:
        holds.block(tx, record, reason=reason, detail=outcome.detail)
    if outcome.what is RejectedFor.RATE:
        holds.note_round(tx, record.model, detail=outcome.detail, policy=policy)
        holds.wait_as_asked(tx, record.model, outcome.retry_after)


BLOCKED: Final = {
    RejectedFor.FUNDS: Code.NO_FUNDS.value,
    RejectedFor.ORDER: "invalid-request",
    RejectedFor.CREDENTIAL: "credential",
}


def _end_round(tx: Tx, record: Record, outcome: CreateRejected, policy: HostingPolicy) -> None:
    """Every offer was refused: nothing exists, and the next round waits."""
    current = tx.record(record.id)
    if current.phase is Phase.DECLARED:
        deployments.cancel(tx, current)
        if record.fills is None:  # that one place has none keeps nobody from asking elsewhere
            holds.note_round(tx, record.model, detail=outcome.detail, policy=policy)


def _pause(sent: Sequence[Sent], policy: HostingPolicy) -> timedelta:
    """Until the next call, as `core.obligation` has it for what can be written."""
    outcome = sent[-1].outcome
    if sent[-1].taken:
        return policy.stop_again_after
    asked = outcome.retry_after if isinstance(outcome, StopRefused) else None
    pause = obligation.backoff(len(sent), most=policy.stop_backoff_max)
    return max(pause, min(asked or pause, policy.stop_retry_after_max))


def _record_sent(tx: Tx, duty: ObligationId, sent: Sequence[Sent], policy: HostingPolicy, *, late: bool) -> None:
    for before, call in enumerate(sent):
        if late or before:
            duties.mark_late(tx, duty, sent_at=call.at)
        _record_stop(tx, duty, call.outcome, policy)


def _record_stop(tx: Tx, obligation: ObligationId, outcome: StopOutcome, policy: HostingPolicy) -> None:
    not_before: datetime | None = None
    match outcome:
        case StopAccepted():
            answer, detail = StopAnswer.ACCEPTED, outcome.reference
        case StopNotFound():
            answer, detail = StopAnswer.NOT_FOUND, outcome.detail
        case StopRefused():
            answer, detail = StopAnswer.REFUSED, outcome.detail
            if outcome.retry_after is not None:
                not_before = tx.now + min(outcome.retry_after, policy.stop_retry_after_max)
        case StopUnknown():
            answer, detail = StopAnswer.UNKNOWN, outcome.detail
        case _:
            assert_never(outcome)
    duties.record_stop_answer(tx, obligation, answer, detail=detail, not_before=not_before)
