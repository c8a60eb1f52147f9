"""How does a wanted slot become a deployment on record?

The one place that makes a specification of a configured model: what is asked for now, by the configuration of now, at
most at this price. Whether it may be asked for was decided before; the contract has the last word, in the transaction.
"""

from dataclasses import dataclass
from decimal import Decimal

from controller.core.deployment import DeploymentSpec
from controller.core.hosting import Authorization, Wish
from controller.core.identity import DeploymentId
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
    """Put it on record, with its first create. Raises Refusal, BudgetExhausted."""
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
    return deployments.declare(tx, declaration, policy=policy)
