"""How does a resource that exists become a deployment of ours?

A claim of another installation's, or what the lost records of a restored store held: obligation first, then a record
in a free slot, under a higher epoch than the resource carries, and on the day's books. Its startup deadline counts from
now, its lifetime from when the provider made it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from controller.core.deployment import DeploymentSpec, Record, SeenResource
from controller.core.identity import DeploymentId, ObligationId
from controller.core.lease import Ask, acquire
from controller.core.lifecycle import Phase, advance
from controller.core.obligation import Obligation
from controller.core.policy import HostingPolicy, ModelPolicy
from controller.store import ledger
from controller.store.lines import of_duty, of_record, phase_moved
from controller.store.names import deployment_id, obligation_id
from controller.store.transaction import Tx


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopter:
    """Who takes over, and for which models."""

    models: Mapping[str, ModelPolicy]
    holder: str
    policy: HostingPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where it goes: a free slot of a model, under a name that no deployment has, or a new one."""

    model: ModelPolicy
    slot: int
    name: DeploymentId | None = None


def adopt(tx: Tx, seen: SeenResource, place: Place, adopter: Adopter, *, told: Mapping[str, Any]) -> ObligationId:
    """Write record, lease and obligation; `told` says in the evidence whence it comes."""
    record = _record_of(tx, seen, place, adopter, told)
    duty = tx.put_duty(
        Obligation(
            id=obligation_id(tx.randomness),
            opened_at=tx.now,
            deployment=record.id,
            model=record.model,
            slot=record.slot,
            request=seen.tags.request,
            key=seen.key,
            seen_at=tx.now,
            epoch=record.epoch,
        )
    )
    tx.line("obligation.opened", **of_duty(duty))
    _hold_money(tx, record, place.model, adopter)
    tx.drop_sighting(seen.key)
    return duty.id


def _hold_money(tx: Tx, record: Record, model: ModelPolicy, adopter: Adopter) -> None:
    """It bills whatever today's limit says; from the next midnight on it has to be affordable like any other."""
    since = record.started_at or tx.now
    ends = since + adopter.policy.lifetime(record.spec.requested_lifetime)
    ledger.take_in(
        tx,
        ledger.Found(
            name=record.id,
            usd_per_hour=model.usd_per_hour_max if record.usd_per_hour is None else record.usd_per_hour,
            since=since,
            remaining=max(ends - tx.now, timedelta(0)),
        ),
    )


def _record_of(tx: Tx, seen: SeenResource, place: Place, adopter: Adopter, told: Mapping[str, Any]) -> Record:
    model = place.model
    spec = DeploymentSpec(
        id=place.name or deployment_id(tx.randomness, model.alias),
        provider=seen.key.provider,
        account=seen.key.account,
        model=model.alias,
        image=model.image,
        resource_name=model.alias,
        requested_lifetime=model.max_lifetime,
    )
    declared = Record(
        spec=spec, slot=place.slot, fingerprint=model.fingerprint, phase=Phase.DECLARED, declared_at=tx.now
    )
    epoch = tx.next_epoch(above=seen.tags.epoch or 0)
    ask = Ask(deployment=spec.id, holder=adopter.holder, now=tx.now, span=adopter.policy.lease)
    tx.put_lease(acquire(None, ask=ask, epoch_latest=epoch - 1))
    stored = tx.put_record(
        replace(
            declared,
            phase=advance(declared.phase, Phase.REQUESTED),
            started_at=min(seen.created_at or tx.now, tx.now),  # a time to come would put its deadlines off
            key=seen.key,
            epoch=epoch,
            usd_per_hour=seen.usd_per_hour,
            offer=seen.offer,
            place=seen.place,
        )
    )
    tx.line("deployment.declared", **of_record(declared), detail={"slot": place.slot, **told})
    phase_moved(tx, declared, stored)
    return stored
