"""May this command be obeyed for this deployment, and what is on record afterwards?

The hosting contract's commands as pure functions: a record and a fact in, the next record out, or a `Refusal` with
nothing changed and nothing called. `lifecycle.advance` is the only phase writer; the store's transactions run these
functions and commit what they return together with its evidence.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from controller.core.deployment import Create, CreateAnswer, DeploymentSpec, ProvisionedDeployment, Record, SeenResource
from controller.core.errors import Refusal, RefusalCode
from controller.core.evidence import Evidence, StopReason
from controller.core.identity import DeploymentId, Owner, RequestId, Scope
from controller.core.lease import Lease, fence
from controller.core.lifecycle import LIVE, SERVING, Phase, advance
from controller.core.policy import HostingPolicy, LeaseExpiry
from controller.core.reconcile import outlived, prevails


@dataclass(frozen=True, slots=True, kw_only=True)
class Authorization:
    """The ledger's leave to spend (HC-38)."""

    ledger: str
    reservation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Under which lease, and when, a call that costs or stops is to be made."""

    lease: Lease | None
    epoch: int
    holder: str
    now: datetime
    clock_sound: bool = True

    def fence(self) -> None:
        fence(self.lease, epoch=self.epoch, holder=self.holder, now=self.now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A new deployment that somebody asks for."""

    spec: DeploymentSpec
    slot: int
    fingerprint: str
    authorization: Authorization | None
    now: datetime
    clock_sound: bool = True
    replaces: DeploymentId | None = None
    """What serves in that slot, and goes on serving until this one does."""
    fills: str | None = None
    """The place whose volume it is to put the weights onto; then it is not there to serve."""


def validate(spec: DeploymentSpec, policy: HostingPolicy) -> None:
    """Refuse a deployment that this controller may not run; allocates nothing (HC-39)."""
    if spec.scope != Scope(provider=policy.provider, account=policy.account) or spec.requested_lifetime <= timedelta(0):
        raise Refusal(RefusalCode.INVALID_SPEC)


def declare(wish: Wish, *, policy: HostingPolicy, existing: Collection[Record]) -> Record:
    """Put a deployment on record, before anything can exist (HC-36, HC-38)."""
    validate(wish.spec, policy)
    if wish.authorization is None or wish.authorization.ledger != policy.ledger:
        raise Refusal(RefusalCode.UNAUTHORIZED)
    if not wish.clock_sound:
        raise Refusal(RefusalCode.CLOCK_REVERSED)
    live = [record for record in existing if record.phase in LIVE]
    if any(record.id == wish.spec.id for record in existing):
        raise Refusal(RefusalCode.DUPLICATE)
    _beside(wish, [record for record in live if record.model == wish.spec.model and record.slot == wish.slot])
    if len(live) >= policy.max_active:
        raise Refusal(RefusalCode.CAPACITY_EXCEEDED)
    return Record(
        spec=wish.spec,
        slot=wish.slot,
        fingerprint=wish.fingerprint,
        phase=Phase.DECLARED,
        declared_at=wish.now,
        replaces=wish.replaces,
        fills=wish.fills,
    )


def _beside(wish: Wish, occupants: Collection[Record]) -> None:
    """A slot is empty, or it holds nothing but what is to be replaced, and that serves."""
    if any(record.id != wish.replaces for record in occupants):
        raise Refusal(RefusalCode.DUPLICATE)
    if wish.replaces is not None and not any(record.phase is Phase.ACTIVE for record in occupants):
        raise Refusal(RefusalCode.WRONG_PHASE)


def provision(record: Record | None, creates: Collection[Create], claim: Claim) -> Record:
    """Allow one create call. A create that is unanswered, unknown or accepted allows no other (HC-17)."""
    if record is None:
        raise Refusal(RefusalCode.MISSING)
    claim.fence()
    if record.phase is not Phase.DECLARED or any(unsettled(create) for create in creates):
        raise Refusal(RefusalCode.WRONG_PHASE)
    if not claim.clock_sound:
        raise Refusal(RefusalCode.CLOCK_REVERSED)
    return record


def unsettled(create: Create) -> bool:
    """May something exist that came of this call?"""
    return create.submitting_at is not None and create.answer not in {CreateAnswer.REJECTED, CreateAnswer.NOT_SENT}


def retry(record: Record | None, *, idempotent: bool) -> Record:
    """Allow a lost create to be sent again: only where the provider tells a repeated one from a second (HC-12)."""
    if record is None:
        raise Refusal(RefusalCode.MISSING)
    if record.phase is not Phase.UNCERTAIN:
        raise Refusal(RefusalCode.WRONG_PHASE)
    if not idempotent:
        raise Refusal(RefusalCode.IDEMPOTENCY_UNSUPPORTED)
    return record


def accepted(
    record: Record, resource: SeenResource, owner: Owner, *, request: RequestId, submitted_at: datetime
) -> Record:
    """The provider described what it made. Another scope's, owner's or order's description counts as an unknown answer
    (HC-10)."""
    tags = resource.tags
    if resource.key.scope != record.spec.scope or owner.disputed(tags) or tags.request != request:
        return lost(record, submitted_at=submitted_at, reason=StopReason.OWNERSHIP_LOST)
    return replace(
        _described(record, resource),
        phase=advance(record.phase, Phase.REQUESTED),
        started_at=submitted_at,
        key=resource.key,
    )


def lost(record: Record, *, submitted_at: datetime, reason: StopReason = StopReason.AMBIGUOUS_MUTATION) -> Record:
    """The create's answer is unknown: the deployment owes a stop until it is known what came of it."""
    return replace(
        record,
        phase=advance(record.phase, Phase.UNCERTAIN),
        started_at=submitted_at,
        reason=prevails(record.reason, reason),
    )


def cancelled(record: Record, *, now: datetime, reason: StopReason | None = None) -> Record:
    """Nothing exists and nothing is tried any more: only from declared (HC-15). `reason`: whose wish that is; a slot
    that was let go is not filled again by itself."""
    kept = reason or record.reason
    return replace(record, phase=advance(record.phase, Phase.CANCELLED), started_at=None, ended_at=now, reason=kept)


def adopted(record: Record, resource: SeenResource, owner: Owner) -> Record:
    """A resource with the request id of a lost create was seen: it is ours, under its exact key. Never one of another
    scope, nor one that names another owner (HC-3, HC-21)."""
    if resource.key.scope != record.spec.scope or owner.disputed(resource.tags):
        raise Refusal(RefusalCode.FOREIGN_RESOURCE)
    if record.phase is Phase.DECLARED:
        raise Refusal(RefusalCode.WRONG_PHASE)  # its create's answer is still to come, and tells more
    if record.key is not None and record.key != resource.key:
        raise Refusal(RefusalCode.WRONG_PHASE)  # a move is followed, else the key that it has would be owed by nobody
    known = replace(_described(record, resource), key=resource.key, observed=None)
    if record.phase is Phase.STOP_REQUIRED:
        return known  # its stop was wanted before anybody knew its key
    return replace(known, phase=advance(record.phase, Phase.REQUESTED), reason=None)


def moved(record: Record, resource: SeenResource, owner: Owner) -> Record:
    """Follow a resource to the key that it got when the provider moved it; liveness is forgotten with the old one."""
    if resource.key.scope != record.spec.scope or not owner.holds(resource.tags):
        raise Refusal(RefusalCode.FOREIGN_RESOURCE)
    if record.phase not in SERVING:
        raise Refusal(RefusalCode.WRONG_PHASE)
    return replace(_described(record, resource), key=resource.key, observed=None)


def _described(record: Record, resource: SeenResource) -> Record:
    return replace(record, usd_per_hour=resource.usd_per_hour, offer=resource.offer, place=resource.place)


def observed(record: Record, seen: ProvisionedDeployment, *, place: str | None = None) -> Record:
    """Take an observation in; only of the exact key (HC-2). A place that is not told any more is where it was."""
    if record.key != seen.key:
        raise Refusal(RefusalCode.FOREIGN_RESOURCE)
    return replace(record, observed=seen, place=place or record.place)


def ready(record: Record, *, now: datetime) -> Record:
    """Our own probe says that it serves (design, section 2)."""
    return replace(record, phase=advance(record.phase, Phase.ACTIVE), ready_at=now, unready_since=None)


def require_stop(record: Record, reason: StopReason, *, now: datetime, drain_until: datetime | None = None) -> Record:
    """Oblige a stop: sticky, and never for a deployment that was only declared (HC-8)."""
    if record.phase is Phase.STOP_REQUIRED and drain_until is not None:
        # A stop that is owed already is never put off: a second reason may only shorten the drain.
        drain_until = None if record.drain_until is None else min(record.drain_until, drain_until)
    return replace(
        record,
        phase=advance(record.phase, Phase.STOP_REQUIRED),
        reason=prevails(record.reason, reason),
        stop_required_at=record.stop_required_at or now,
        drain_until=drain_until,
    )


def asked_to_restart(record: Record, *, now: datetime) -> Record:
    """An operator wants another in its place; only of what serves, and asked again it is the same wish."""
    if record.phase is not Phase.ACTIVE:
        raise Refusal(RefusalCode.WRONG_PHASE)
    return replace(record, restart_asked_at=record.restart_asked_at or now)


def ours_again(record: Record) -> Record:
    """It is seen under its exact key without a foreign label: the stop stays owed, and may leave again (HC-21)."""
    if record.reason is not StopReason.OWNERSHIP_LOST:
        raise Refusal(RefusalCode.WRONG_PHASE)
    return replace(record, phase=advance(record.phase, Phase.STOP_REQUIRED), reason=StopReason.AMBIGUOUS_MUTATION)


def elapsed(record: Record, lease: Lease | None, *, policy: HostingPolicy, now: datetime) -> StopReason | None:
    """Which stop does time alone oblige by now? Asked before every command, the lifetime before the lease (HC-37)."""
    if record.phase not in SERVING:
        return None
    if outlived(record, policy.lifetime(record.spec.requested_lifetime), now=now):
        return StopReason.LIFETIME_EXCEEDED
    lapsed = lease is None or not lease.live(now)
    return StopReason.LEASE_EXPIRED if lapsed and policy.lease_expiry is LeaseExpiry.STOP else None


def stop(record: Record | None, claim: Claim) -> Record:
    """Allow one stop call under the present lease, for an exact key without a foreign owner (HC-22, HC-24, HC-27)."""
    if record is None:
        raise Refusal(RefusalCode.MISSING)
    claim.fence()
    if record.reason is StopReason.OWNERSHIP_LOST:
        raise Refusal(RefusalCode.FOREIGN_RESOURCE)
    if record.key is None:
        raise Refusal(RefusalCode.AMBIGUOUS_MUTATION)
    if record.phase is not Phase.STOP_REQUIRED:
        raise Refusal(RefusalCode.WRONG_PHASE)
    return record


def stopped(record: Record, evidence: Evidence, *, now: datetime) -> Record:
    """Evidence came: nothing is owed any more."""
    return replace(record, phase=advance(record.phase, Phase.STOPPED), evidence=evidence, ended_at=now)


def disowned(record: Record, *, now: datetime) -> Record:
    """A newer lease elsewhere took the resource; nothing is proven and nothing is owed by us (HC-23)."""
    return replace(record, phase=advance(record.phase, Phase.DISOWNED), ended_at=now)


def restored(record: Record, creates: Collection[Create], *, scope: Scope) -> Record:
    """Take a record over after a restart: identity and duty stay, liveness is forgotten (HC-31, HC-32, HC-14)."""
    if record.spec.scope != scope:
        raise Refusal(RefusalCode.INVALID_SPEC)
    if record.key is not None and record.key.scope != scope:
        raise Refusal(RefusalCode.FOREIGN_RESOURCE)
    kept = replace(record, observed=None)
    sent = [create.submitting_at for create in creates if create.answer is None and create.submitting_at is not None]
    return lost(kept, submitted_at=min(sent)) if kept.phase is Phase.DECLARED and sent else kept
