"""How does another installation's resource become ours?

A lost store or a copied config leaves resources of our owner under another installation id. Claiming takes them over,
obligation first: adopted into a free slot if their model is configured here, else owed a stop.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from controller.core.deployment import DeploymentSpec, Record, SeenResource
from controller.core.evidence import StopReason
from controller.core.identity import ObligationId
from controller.core.lease import Ask, acquire
from controller.core.lifecycle import Phase, advance
from controller.core.obligation import Obligation
from controller.core.orphans import ended
from controller.core.policy import HostingPolicy, ModelPolicy
from controller.store import duties
from controller.store.lines import of_duty, of_record, phase_moved
from controller.store.names import deployment_id, obligation_id
from controller.store.transaction import Tx


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Which installation's resources, as last listed, are taken over."""

    installation: str
    resources: Iterable[SeenResource]
    models: Mapping[str, ModelPolicy]
    holder: str
    policy: HostingPolicy


def claim(tx: Tx, claim: Claim) -> list[ObligationId]:
    """Take them over in one transaction; returns their obligations."""
    owner = tx.book.owner
    theirs = [
        seen
        for seen in claim.resources
        if owner.copied(seen.tags)
        and seen.tags.installation == claim.installation
        and not ended(seen)
        and seen.key not in tx.book.held_keys()
    ]
    tx.put_claim(claim.installation)
    taken = [_take(tx, seen, claim) for seen in theirs]
    tx.clear_alarm("copied-installation", subject=claim.installation)
    return taken


def _take(tx: Tx, seen: SeenResource, claim: Claim) -> ObligationId:
    model = claim.models.get(seen.alias) if seen.alias is not None else None
    slot = None if model is None else _free_slot(tx, model)
    tx.line("resource.claimed", resource=seen.key, request=seen.tags.request, detail={"from": claim.installation})
    if model is None or slot is None:
        return duties.open_stray(tx, seen, StopReason.ORPHAN, holder=claim.holder, policy=claim.policy).id
    return _adopt(tx, seen, claim, model=model, slot=slot)


def _free_slot(tx: Tx, model: ModelPolicy) -> int | None:
    return next((slot for slot in range(model.slots) if tx.book.occupant(model.alias, slot) is None), None)


def _adopt(tx: Tx, seen: SeenResource, claim: Claim, *, model: ModelPolicy, slot: int) -> ObligationId:
    record = _record_of(tx, seen, claim, model=model, slot=slot)
    duty = tx.put_duty(
        Obligation(
            id=obligation_id(tx.randomness),
            opened_at=tx.now,
            deployment=record.id,
            model=record.model,
            slot=slot,
            request=seen.tags.request,
            key=seen.key,
            seen_at=tx.now,
            epoch=record.epoch,
        )
    )
    tx.line("obligation.opened", **of_duty(duty))
    tx.drop_sighting(seen.key)
    return duty.id


def _record_of(tx: Tx, seen: SeenResource, claim: Claim, *, model: ModelPolicy, slot: int) -> Record:
    spec = DeploymentSpec(
        id=deployment_id(tx.randomness, model.alias),
        provider=seen.key.provider,
        account=seen.key.account,
        model=model.alias,
        image=model.image,
        resource_name=model.alias,
        requested_lifetime=model.max_lifetime,
    )
    declared = Record(spec=spec, slot=slot, fingerprint=model.fingerprint, phase=Phase.DECLARED, declared_at=tx.now)
    epoch = tx.next_epoch(above=seen.tags.epoch or 0)
    ask = Ask(deployment=spec.id, holder=claim.holder, now=tx.now, span=claim.policy.lease)
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
        )
    )
    tx.line("deployment.declared", **of_record(declared), detail={"slot": slot, "claimed_from": claim.installation})
    phase_moved(tx, declared, stored)
    return stored
