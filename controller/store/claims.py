"""How does another installation's resource become ours?

A lost store or a copied config leaves resources of our owner under another installation id. Claiming takes them over,
obligation first: adopted into a free slot if their model is configured here, else owed a stop.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from controller.core.deployment import SeenResource
from controller.core.evidence import StopReason
from controller.core.identity import ObligationId
from controller.core.orphans import ended
from controller.core.policy import HostingPolicy, ModelPolicy
from controller.store import duties
from controller.store.adopting import Adopter, Place, adopt
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
    adopter = Adopter(models=claim.models, holder=claim.holder, policy=claim.policy)
    return adopt(tx, seen, Place(model=model, slot=slot), adopter, told={"claimed_from": claim.installation})


def _free_slot(tx: Tx, model: ModelPolicy) -> int | None:
    return next((slot for slot in range(model.slots) if tx.book.occupant(model.alias, slot) is None), None)
