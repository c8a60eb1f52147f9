"""Why is the first start of a process as quick as the next?

The database layer builds each statement when it is first used, which is most of a first start's time (34 ms against 8,
measured). A start is played through once, in a transaction that is never committed: nothing of it is kept, and nobody
sees it.
"""

from contextlib import suppress
from datetime import timedelta
from decimal import Decimal
from typing import Final

from controller.core.deployment import CreateAnswer, DeploymentSpec
from controller.core.errors import Refusal
from controller.core.hosting import Authorization, Wish
from controller.core.policy import ModelPolicy
from controller.daemon.built import Daemon
from controller.store import deployments
from controller.store.errors import StoreError
from controller.store.ledger import BudgetExhausted
from controller.store.names import deployment_id
from controller.store.transaction import Tx

LIMIT: Final = timedelta(seconds=1)
"""A store that somebody else holds must not keep the daemon from being ready."""


class _Rehearsed(Exception):
    """The play is over."""


async def rehearse(daemon: Daemon) -> None:
    """Play one start and its refusal, and take all of it back. What stands in the way of it is no matter."""
    model = next(iter(daemon.models.values()), None)
    if model is None or daemon.mode.barred is not None:
        return
    with suppress(_Rehearsed, Refusal, BudgetExhausted, StoreError):
        await daemon.store.write(lambda tx: _play(tx, daemon, model), limit=LIMIT)


def _play(tx: Tx, daemon: Daemon, model: ModelPolicy) -> None:
    policy = daemon.policy
    spec = DeploymentSpec(
        id=deployment_id(tx.randomness, model.alias),
        provider=policy.provider,
        account=policy.account,
        model=model.alias,
        image=model.image,
        resource_name=model.alias,
        requested_lifetime=timedelta(seconds=1),
    )
    wish = Wish(
        spec=spec,
        slot=model.slots,  # one beyond those that exist
        fingerprint=model.fingerprint,
        authorization=Authorization(ledger=policy.ledger, reservation=spec.id),
        now=tx.now,
    )
    declaration = deployments.Declaration(
        wish=wish, offer=model.offers[0], ceiling=Decimal("0.01"), holder=daemon.run_id
    )
    planned = deployments.declare(tx, declaration, policy=policy)
    marked = deployments.mark_submitting(tx, planned.create.request, holder=daemon.run_id)
    record = deployments.record_refused(tx, marked, CreateAnswer.REJECTED, detail="rehearsed")
    deployments.cancel(tx, record)
    tx.finish()
    raise _Rehearsed
