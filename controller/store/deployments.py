"""How does one deployment's life get written down, from the wish to the proof?

Each function is one step inside a transaction: it lets the contract (`core.hosting`) decide on what is on record now,
and writes the record, its create, its obligation, its money and its evidence lines together.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal

from controller.core import hosting
from controller.core.bad_places import passed_over
from controller.core.book import Failure, reasons_that_fail_a_start
from controller.core.deployment import Create, CreateAnswer, ProvisionedDeployment, Record, SeenResource
from controller.core.errors import Refusal, RefusalCode
from controller.core.evidence import Evidence, EvidenceKind, StopReason
from controller.core.identity import DeploymentId, ObligationId, RequestId
from controller.core.lease import Ask, acquire, release
from controller.core.lifecycle import LIVE, Phase
from controller.core.obligation import Ending, Obligation
from controller.core.policy import HostingPolicy
from controller.store import holds, ledger
from controller.store.errors import Stale
from controller.store.lines import of_duty, of_evidence, of_record, phase_moved
from controller.store.names import obligation_id, request_id
from controller.store.transaction import Tx


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """A wish with what it may cost and the first offer to ask for."""

    wish: hosting.Wish
    offer: str
    ceiling: Decimal
    holder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A create that is on record with its obligation."""

    record: Record
    create: Create
    duty: Obligation


def declare(tx: Tx, declaration: Declaration, *, policy: HostingPolicy) -> Planned:
    """Write deployment, reservation, lease, create and obligation: all of it before anything can exist.

    Raises Refusal, BudgetExhausted.
    """
    wish = replace(declaration.wish, now=tx.now, clock_sound=tx.clock_sound)
    record = hosting.declare(wish, policy=policy, existing=tx.book.records.values())
    lifetime = policy.lifetime(wish.spec.requested_lifetime)
    held = ledger.reserve(
        tx, record.id, ceiling=declaration.ceiling, remaining=lifetime, usd_per_day=policy.usd_per_day
    )
    ask = Ask(deployment=record.id, holder=declaration.holder, now=tx.now, span=policy.lease)
    lease = acquire(None, ask=ask, epoch_latest=tx.next_epoch() - 1)
    tx.put_lease(lease)
    record = tx.put_record(replace(record, epoch=lease.epoch))
    tx.line(
        "deployment.declared",
        **of_record(record),
        reservation=held.id,
        ledger=ledger.LEDGER,
        detail={
            "slot": record.slot,
            "image": record.spec.image,
            "ceiling_usd_per_hour": declaration.ceiling,
            "replaces": record.replaces,
            "fills": record.fills,
        },
    )
    return plan(tx, record, offer=declaration.offer)


def plan(tx: Tx, record: Record, *, offer: str) -> Planned:
    """Put one more create on record, with its obligation; the former one was refused for certain.

    Raises Stale if a stop was asked for meanwhile.
    """
    if any(duty.deployment == record.id and duty.due_at is not None for duty in tx.book.obligations.values()):
        raise Stale(f"the stop of {record.id} was asked for")
    create = Create(request=request_id(tx.randomness), deployment=record.id, offer=offer)
    tx.put_create(create)
    duty = tx.put_duty(
        Obligation(
            id=obligation_id(tx.randomness),
            opened_at=tx.now,
            deployment=record.id,
            model=record.model,
            slot=record.slot,
            request=create.request,
            epoch=record.epoch,
        )
    )
    tx.line("obligation.opened", **of_duty(duty), detail={"offer": offer})
    return Planned(record=record, create=create, duty=duty)


def creates_of(tx: Tx, deployment: DeploymentId) -> list[Create]:
    return [create for create in tx.book.creates.values() if create.deployment == deployment]


def mark_submitting(tx: Tx, request: RequestId, *, holder: str) -> Create:
    """In the last commit before the call leaves; the lease and the clock are checked here. Raises Refusal, Stale."""
    create = tx.book.creates.get(request)
    if create is None:
        raise Stale(f"no create {request}")
    _duty_of(tx, request)  # refused or cancelled since: no call may leave without its obligation
    if not tx.book.account.trusted:
        raise Stale("the account is in doubt: nothing is created in it")
    record = tx.book.records.get(create.deployment)
    claim = hosting.Claim(
        lease=tx.book.leases.get(create.deployment),
        epoch=0 if record is None else record.epoch,
        holder=holder,
        now=tx.now,
        clock_sound=tx.clock_sound,
    )
    allowed = hosting.provision(record, creates_of(tx, create.deployment), claim)
    marked = replace(create, submitting_at=tx.now)
    tx.put_create(marked)
    avoids = [{"offer": bad.card, "place": bad.place} for bad in passed_over(tx.book, allowed)]
    detail = {"offer": create.offer, **({"avoids": avoids} if avoids else {})}
    tx.line("create.submitted", **of_record(allowed), request=request, detail=detail)
    return marked


def _duty_of(tx: Tx, request: RequestId) -> Obligation:
    for duty in tx.book.obligations.values():
        if duty.request == request and duty.open:
            return duty
    raise Stale(f"no open obligation for {request}")


def _answered(tx: Tx, create: Create, answer: CreateAnswer, *, detail: str | None) -> Create:
    if tx.book.creates[create.request].answer is not None:
        raise Stale(f"create {create.request} is answered")
    stored = replace(create, answer=answer, ended_at=tx.now, detail=detail)
    tx.put_create(stored)
    record = tx.record(create.deployment)
    tx.line(
        "create.answered",
        **{**of_record(record), "resource": None},
        request=create.request,
        detail={"answer": answer.value, "offer": create.offer, "text": detail},
    )
    return stored


def record_accepted(tx: Tx, create: Create, resource: SeenResource, *, mismatch: str | None = None) -> Record:
    """The provider made it: the obligation gets its exact key. What was not ordered is owed a stop at once (RP-21)."""
    submitted_at = create.submitting_at or tx.now
    before = tx.record(create.deployment)
    after = hosting.accepted(before, resource, tx.book.owner, request=create.request, submitted_at=submitted_at)
    if after.phase is not Phase.REQUESTED:
        return _record_lost(tx, create, after, detail="the answer describes another owner's resource")
    if resource.key in tx.book.held_keys():
        lost = hosting.lost(before, submitted_at=submitted_at)
        return _record_lost(tx, create, lost, detail="the answer describes a resource that is held already")
    tx.put_create(replace(_answered(tx, create, CreateAnswer.ACCEPTED, detail=mismatch), key=resource.key))
    duty = _duty_of(tx, create.request)
    tx.put_duty(replace(duty, key=resource.key, create_ended_at=tx.now))
    stored = tx.put_record(after)
    phase_moved(tx, before, stored)
    ledger.begin(tx, stored.id, submitted_at=submitted_at, certain=True)
    holds.note_start(tx, stored.model, at=submitted_at)
    if mismatch is not None:
        return require_stop(tx, stored, StopReason.WRONG_RESOURCE)
    return _stopped_if_owed(tx, stored, duty)


def record_unknown(tx: Tx, create: Create, *, detail: str) -> Record:
    """Nobody knows whether it exists: no further create, and the obligation stays open."""
    lost = hosting.lost(tx.record(create.deployment), submitted_at=create.submitting_at or tx.now)
    return _record_lost(tx, create, lost, detail=detail)


def _record_lost(tx: Tx, create: Create, lost: Record, *, detail: str) -> Record:
    before = tx.record(create.deployment)
    _answered(tx, create, CreateAnswer.UNKNOWN, detail=detail)
    duty = _duty_of(tx, create.request)
    tx.put_duty(replace(duty, create_ended_at=tx.now, reason=lost.reason))
    stored = tx.put_record(lost)
    phase_moved(tx, before, stored)
    ledger.begin(tx, stored.id, submitted_at=create.submitting_at or tx.now, certain=False)
    holds.note_start(tx, stored.model, at=create.submitting_at or tx.now)
    return _stopped_if_owed(tx, stored, duty)


def _stopped_if_owed(tx: Tx, record: Record, duty: Obligation) -> Record:
    """The stop was asked for while the create was in flight (`owe_what_comes`): now there is something to stop."""
    return record if duty.due_at is None else require_stop(tx, record, duty.reason or StopReason.OPERATOR_REQUEST)


def owe_what_comes(tx: Tx, record: Record, reason: StopReason) -> None:
    """A stop is wanted while the create is in flight: whatever the answer makes is owed a stop at once."""
    for duty in tx.book.duties(record.id):
        if duty.due_at is None:
            due = tx.put_duty(replace(duty, due_at=tx.now, reason=reason))
            tx.line("obligation.due", **of_duty(due))


def record_refused(tx: Tx, create: Create, answer: CreateAnswer, *, detail: str) -> Record:
    """Nothing was made, for certain: this create's obligation is void, stored with that answer."""
    _answered(tx, create, answer, detail=detail)
    void(tx, _duty_of(tx, create.request), why=f"{answer.value}: {detail}")
    return tx.record(create.deployment)


def void(tx: Tx, duty: Obligation, *, why: str) -> None:
    """Nothing can exist: only ever from declared (HC-18)."""
    ended = tx.put_duty(replace(duty, ended_at=tx.now, ending=Ending.VOID, create_ended_at=tx.now))
    tx.line("obligation.void", **of_duty(ended), detail={"text": why})


def cancel(tx: Tx, record: Record, *, reason: StopReason | None = None) -> Record:
    """No offer is left, or the start is over, or `reason` asks for its end: nothing exists and nothing is held. Refuses
    while a create may have made something."""
    if any(hosting.unsettled(create) for create in creates_of(tx, record.id)):
        raise Refusal(RefusalCode.WRONG_PHASE)
    for duty in tx.book.duties(record.id):
        void(tx, duty, why="never sent")
    before = tx.record(record.id)
    stored = tx.put_record(hosting.cancelled(before, now=tx.now, reason=reason))
    phase_moved(tx, before, stored)
    ledger.cancel(tx, record.id)
    _give_lease_back(tx, record.id)
    return stored


def adopt(tx: Tx, decided_on: Record, resource: SeenResource, *, wanted: bool, made_otherwise: bool = False) -> Record:
    """What came of a lost create was seen: it is ours under its exact key. Not wanted any more, or made otherwise, it
    is owed a stop."""
    before = tx.current(decided_on)
    duty = _duty_of(tx, resource.tags.request) if resource.tags.request else None
    if any(other.open and other.key == resource.key and other != duty for other in tx.book.obligations.values()):
        raise Stale(f"{resource.key.incarnation} is owed elsewhere")
    stored = tx.put_record(hosting.adopted(before, resource, tx.book.owner))
    phase_moved(tx, before, stored)
    create = tx.book.creates.get(resource.tags.request) if resource.tags.request else None
    if create is not None:
        tx.put_create(replace(create, key=resource.key))
    if duty is not None:
        tx.put_duty(replace(duty, key=resource.key, seen_at=tx.now, reason=stored.reason))
    if stored.phase is Phase.STOP_REQUIRED:
        return stored
    ledger.begin(tx, stored.id, submitted_at=stored.started_at or tx.now, certain=True)
    if not wanted:
        return require_stop(tx, stored, StopReason.AMBIGUOUS_MUTATION)
    return require_stop(tx, stored, StopReason.WRONG_RESOURCE) if made_otherwise else stored


def follow_move(tx: Tx, decided_on: Record, resource: SeenResource) -> Record:
    """The provider moved it: its recorded key is gone, and its request id is listed under a new one."""
    before = tx.current(decided_on)
    if resource.key in tx.book.held_keys():
        raise Stale(f"{resource.key.incarnation} is held on record")
    known = hosting.moved(before, resource, tx.book.owner)
    duty = next((duty for duty in tx.book.duties(before.id) if duty.key == before.key), None)
    if duty is None:
        raise Stale(f"{before.id} owes nothing under its key")
    stored = tx.put_record(known)
    tx.put_duty(replace(duty, key=resource.key, seen_at=tx.now))
    if duty.request is not None and (create := tx.book.creates.get(duty.request)) is not None:
        tx.put_create(replace(create, key=resource.key))
    tx.drop_sighting(resource.key)
    tx.line("resource.claimed", **of_record(stored), obligation=duty.id, detail={"moved_from": before.key})
    return stored


def record_observed(tx: Tx, decided_on: Record, seen: ProvisionedDeployment, *, place: str | None = None) -> Record:
    """Take an observation in. Written only where it says something new."""
    return tx.put_record(hosting.observed(tx.current(decided_on), seen, place=place))


def record_cost(tx: Tx, decided_on: Record, usd_per_hour: Decimal) -> Record:
    """It bills more than was known: what it has cost is believed at the higher rate."""
    before = tx.current(decided_on)
    stored = tx.put_record(replace(before, usd_per_hour=usd_per_hour))
    tx.line("ledger.drift", **of_record(stored), detail={"before_usd_per_hour": before.usd_per_hour})
    return stored


def record_ready(tx: Tx, decided_on: Record, *, took: timedelta | None = None, detail: str | None = None) -> Record:
    """Our own probe says that it serves. `took`: the measured cold start, kept for estimates and for the idle floor.
    `detail`: what it says of itself, for the evidence."""
    before = tx.current(decided_on)
    if before.phase is not Phase.REQUESTED:
        raise Stale(f"{before.id} is {before.phase}")
    stored = tx.put_record(hosting.ready(before, now=tx.now))
    phase_moved(tx, before, stored, detail=detail)
    if took is not None:
        holds.note_cold_start(tx, stored.model, took=took)
    return stored


def record_unready(tx: Tx, decided_on: Record, *, since: datetime | None) -> Record:
    return tx.put_record(replace(tx.current(decided_on), unready_since=since))


def record_last_byte(tx: Tx, deployment: DeploymentId, *, at: datetime) -> None:
    """Use moves forward only."""
    record = tx.book.records.get(deployment)
    if record is not None and record.phase is Phase.ACTIVE and (record.last_byte_at or record.declared_at) < at:
        tx.put_record(replace(record, last_byte_at=at))


def require_stop(tx: Tx, decided_on: Record, reason: StopReason, *, drain_until: datetime | None = None) -> Record:
    """A stop is owed from now on: sticky, with its obligation due, no new requests. Raises Refusal, Stale."""
    before = tx.current(decided_on)
    after = hosting.require_stop(before, reason, now=tx.now, drain_until=drain_until)
    stored = tx.put_record(after)
    phase_moved(tx, before, stored)
    _owe(tx, stored)
    ledger.require_stop(tx, stored.id)
    if before.phase is not Phase.STOP_REQUIRED and stored.reason in reasons_that_fail_a_start():
        _fail_start(tx, stored)
    return stored


def _owe(tx: Tx, record: Record) -> None:
    for duty in tx.book.duties(record.id):
        if duty.due_at is None or duty.reason is not record.reason:
            due = tx.put_duty(replace(duty, due_at=duty.due_at or tx.now, reason=record.reason))
            tx.line("obligation.due", **of_duty(due), detail={"cause": _cause_of(tx, record)})


def _cause_of(tx: Tx, record: Record) -> str | None:
    """What its log said that it died of, where that is why it is stopped."""
    known = tx.book.starts.get(record.id)
    return known.cause if known is not None and record.reason in reasons_that_fail_a_start() else None


def take_back(tx: Tx, decided_on: Record) -> Record:
    """What carried another owner's label does not any more: its stop may leave again. Raises Refusal, Stale."""
    stored = tx.put_record(hosting.ours_again(tx.current(decided_on)))
    _owe(tx, stored)
    return stored


def _fail_start(tx: Tx, record: Record) -> None:
    reason = record.reason.value if record.reason is not None else "unknown"
    failure = Failure(
        deployment=record.id, reason=reason, at=tx.now, seq=tx.book.seq_latest, cause=_cause_of(tx, record)
    )
    holds.note_failure(tx, record, failure)


def hand_over(tx: Tx, decided_on: Record, *, epoch: int) -> Record:
    """A newer lease elsewhere took the resource: our duty is transferred, not fulfilled (HC-23)."""
    before = tx.current(decided_on)
    stored = tx.put_record(hosting.disowned(before, now=tx.now))
    phase_moved(tx, before, stored)
    for duty in tx.book.duties(stored.id):
        ended = tx.put_duty(replace(duty, ended_at=tx.now, ending=Ending.TRANSFERRED))
        tx.line("obligation.transferred", **of_duty(ended), detail={"epoch": epoch})
        _clear_alarms(tx, ended)
    ledger.require_stop(tx, stored.id)
    ledger.settle(tx, stored, evidence_reference=f"transferred to epoch {epoch}")
    _give_lease_back(tx, stored.id)
    return stored


def discharge(tx: Tx, obligation: ObligationId, evidence: Evidence) -> Obligation:
    """Evidence came: the obligation ends, and with it its deployment and what it held. Raises Stale; also where it is
    an absence and the account came in doubt since it was decided on (RP-43)."""
    duty = tx.duty(obligation)
    if evidence.kind is EvidenceKind.INVENTORY_COMPLETE_ABSENT and not tx.book.account.trusted:
        raise Stale("the account is in doubt: absence proves nothing")
    ended = tx.put_duty(replace(duty, ended_at=tx.now, ending=Ending.DISCHARGED, evidence=evidence))
    tx.line("obligation.discharged", **of_duty(ended), evidence=of_evidence(evidence))
    record = tx.book.records.get(duty.deployment) if duty.deployment is not None else None
    if record is not None and not tx.book.duties(record.id) and record.phase in LIVE:
        stored = tx.put_record(hosting.stopped(record, evidence, now=tx.now))
        phase_moved(tx, record, stored)
        ledger.settle(tx, stored, evidence_reference=evidence.reference)
    if duty.deployment is None:
        ledger.settle_stray(tx, ended, evidence_reference=evidence.reference)
    _give_lease_back(tx, DeploymentId(duty.deployment or duty.id))
    _clear_alarms(tx, ended)
    return ended


def _clear_alarms(tx: Tx, duty: Obligation) -> None:
    for name in ("stop-unproven", "create-unresolved"):
        tx.clear_alarm(name, subject=duty.id)


def _give_lease_back(tx: Tx, deployment: DeploymentId) -> None:
    lease = tx.book.leases.get(deployment)
    if lease is not None and lease.expires_at is not None:
        tx.put_lease(release(lease))
