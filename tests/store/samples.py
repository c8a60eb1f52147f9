"""Which steps of a deployment's life do the tests of the store take?

Each step is one transaction function as the tasks run them, with the values that the tests do not vary filled in.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from sqlalchemy import text

from controller.clock import MachineClock
from controller.core.deployment import Create, Record, SeenResource
from controller.core.evidence import Evidence, EvidenceKind
from controller.core.identity import DeploymentId, RequestId, Tags
from controller.core.policy import HostingPolicy
from controller.store import deployments
from controller.store.deployments import Declaration, Planned
from controller.store.store import Store
from controller.store.transaction import Tx
from tests.core.samples import hosting_policy, key, resource, spec, wish
from tests.support.clocks import NOON
from tests.support.stores import open_store

HOLDER: Final = "daemon-1"
POLICY: Final = hosting_policy(max_active=4)
PROOF: Final = Evidence(kind=EvidenceKind.INVENTORY_COMPLETE_ABSENT, reference="listing 7", observed_at=NOON)


@asynccontextmanager
async def opened(folder: Path, clock: MachineClock, **options: Any) -> AsyncIterator[Store]:
    store = await open_store(folder, clock, **options)
    try:
        yield store
    finally:
        await store.close()


def declare(
    tx: Tx,
    name: str = "qwen-1",
    *,
    model: str = "qwen",
    slot: int = 0,
    ceiling: str = "1",
    policy: HostingPolicy = POLICY,
) -> Planned:
    asked = wish(spec=spec(id=DeploymentId(name), model=model), slot=slot)
    declaration = Declaration(wish=asked, offer="L40S", ceiling=Decimal(ceiling), holder=HOLDER)
    return deployments.declare(tx, declaration, policy=policy)


def submit(tx: Tx, name: str = "qwen-1", **options: Any) -> Create:
    planned = declare(tx, name, **options)
    return deployments.mark_submitting(tx, planned.create.request, holder=HOLDER)


def made(tx: Tx, request: RequestId, incarnation: str = "p1", **changes: Any) -> SeenResource:
    """What the provider shows of the resource that came of this request."""
    owner = tx.book.owner
    tags = Tags(owner=owner.name, installation=owner.installation, epoch=1, request=request)
    return resource(**{"key": key(incarnation), "tags": tags, **changes})


def accept(tx: Tx, name: str = "qwen-1", incarnation: str = "p1", **options: Any) -> Record:
    create = submit(tx, name, **options)
    return deployments.record_accepted(tx, create, made(tx, create.request, incarnation))


def lose(tx: Tx, name: str = "qwen-1", **options: Any) -> Record:
    create = submit(tx, name, **options)
    return deployments.record_unknown(tx, create, detail="timed out")


def evidence_events(tx: Tx) -> list[str]:
    rows = tx._connection.execute(text("SELECT event FROM evidence ORDER BY seq"))
    return [row.event for row in rows]


def proof(reference: str) -> Evidence:
    return replace(PROOF, reference=reference)
