"""How does a wanted slot become a deployment on record?

The one place that makes a specification of a configured model: what is asked for now, by the configuration of now, at
most at this price. Whether it may be asked for was decided before; the contract has the last word, in the transaction.

In the same commit the create is marked as on its way. Whoever asked for that sends it at once, or records that it was
not sent; after a crash between the two nobody knows, and it counts as lost. A commit of its own for the mark left the
same doubt for as long, and took a quarter of the time from a caller's request to the create.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from decimal import Decimal

from controller.core import hosting
from controller.core.deployment import CreateAnswer, DeploymentSpec
from controller.core.hosting import Authorization, Wish
from controller.core.identity import DeploymentId, RequestId
from controller.core.lifecycle import Phase
from controller.core.policy import HostingPolicy, ModelPolicy
from controller.store import deployments
from controller.store.deployments import Declaration, Planned
from controller.store.transaction import Tx


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOf:
    """What is to be started, and by whom."""

    model: ModelPolicy
    slot: int
    ceiling: Decimal
    """What an hour may cost at most."""
    holder: str
    offer: str
    """What to ask for first."""
    replaces: DeploymentId | None = None
    """What serves in that slot meanwhile."""
    fills: str | None = None
    """The place whose volume it is to fill; then it lives no longer than a start may take."""


def declare(tx: Tx, name: DeploymentId, start: StartOf, *, policy: HostingPolicy) -> Planned:
    """Put it on record, with its first create on its way. Raises Refusal, Stale, BudgetExhausted."""
    model = start.model
    spec = DeploymentSpec(
        id=name,
        provider=policy.provider,
        account=policy.account,
        model=model.alias,
        image=model.image,
        resource_name=model.alias,
        requested_lifetime=model.max_lifetime if start.fills is None else model.startup_deadline_extended,
    )
    wish = Wish(
        spec=spec,
        slot=start.slot,
        fingerprint=model.fingerprint,
        authorization=Authorization(ledger=policy.ledger, reservation=name),
        now=tx.now,
        clock_sound=tx.clock_sound,
        replaces=start.replaces,
        fills=start.fills,
    )
    declaration = Declaration(wish=wish, offer=start.offer, ceiling=start.ceiling, holder=start.holder)
    return _submitted(tx, deployments.declare(tx, declaration, policy=policy), holder=start.holder)


def plan_next(tx: Tx, name: DeploymentId, *, offer: str, holder: str) -> Planned:
    """The former create was refused for certain: put the next one on record, on its way. Raises Refusal, Stale."""
    return _submitted(tx, deployments.plan(tx, tx.record(name), offer=offer), holder=holder)


def _submitted(tx: Tx, planned: Planned, *, holder: str) -> Planned:
    return replace(planned, create=deployments.mark_submitting(tx, planned.create.request, holder=holder))


def withdraw(tx: Tx, *names: DeploymentId, called: Collection[RequestId]) -> None:
    """Take back what nobody sends: no create of theirs left, but for those that were `called`. Some may not be on
    record at all."""
    for create in [create for name in names for create in deployments.creates_of(tx, name)]:
        if create.submitting_at is not None and create.answer is None and create.request not in called:
            deployments.record_refused(tx, create, CreateAnswer.NOT_SENT, detail="its mark was committed unseen")
    for name in names:
        record = tx.book.records.get(name)
        unsettled = any(hosting.unsettled(create) for create in deployments.creates_of(tx, name))
        if record is not None and record.phase is Phase.DECLARED and not unsettled:
            deployments.cancel(tx, record)
