"""How is the duty to stop something pursued and ended, on the books?

Stop calls and their answers, sightings, confirmations from outside, and the obligations that no deployment opened:
orphans and resources that were seen again after their end. The lease is checked in the transaction that marks the call.
"""

from dataclasses import replace
from datetime import datetime

from controller.core import hosting
from controller.core.billing import Bucket
from controller.core.deployment import Record, SeenResource
from controller.core.errors import Refusal, RefusalCode
from controller.core.evidence import Evidence, EvidenceKind, StopReason
from controller.core.identity import DeploymentId, ObligationId, ResourceKey
from controller.core.lease import Ask, acquire, fence
from controller.core.lifecycle import Phase
from controller.core.obligation import Obligation, StopAnswer
from controller.core.orphans import Sighting, Whose
from controller.core.policy import HostingPolicy
from controller.core.spend import Hold, to_usd
from controller.store import deployments, ledger
from controller.store.errors import Stale
from controller.store.lines import of_duty, of_evidence
from controller.store.names import obligation_id
from controller.store.transaction import Tx, stamp


def lease_name(duty: Obligation) -> DeploymentId:
    """Under which name the lease of an obligation stands: its deployment's, or its own where there is none."""
    return DeploymentId(duty.deployment or duty.id)


def mark_stop(tx: Tx, obligation: ObligationId, *, holder: str) -> Obligation:
    """The last commit before a stop leaves. Raises Refusal under a lost or older lease, Stale if it ended."""
    duty = tx.duty(obligation)
    record = tx.book.records.get(duty.deployment) if duty.deployment is not None else None
    lease = tx.book.leases.get(lease_name(duty))
    if record is not None:
        claim = hosting.Claim(lease=lease, epoch=record.epoch, holder=holder, now=tx.now)
        hosting.stop(record, claim)
    else:
        fence(lease, epoch=duty.epoch, holder=holder, now=tx.now)
    marked = tx.put_duty(
        replace(
            duty,
            stop_attempts=duty.stop_attempts + 1,
            stop_submitted_at=tx.now,
            stop_ended_at=None,
            stop_answer=None,
        )
    )
    tx.line("stop.submitted", **of_duty(marked), detail={"attempt": marked.stop_attempts})
    return marked


def mark_late(tx: Tx, obligation: ObligationId, *, sent_at: datetime) -> None:
    """Tell of a stop that left while nothing could be written; what became of the lease since does not undo it. Raises
    Stale if it ended."""
    duty = tx.duty(obligation)
    attempts = duty.stop_attempts + 1
    marked = tx.put_duty(
        replace(duty, stop_attempts=attempts, stop_submitted_at=sent_at, stop_ended_at=None, stop_answer=None)
    )
    tx.line("stop.submitted", **of_duty(marked), detail={"attempt": attempts, "late": True})


def record_stop_answer(
    tx: Tx, obligation: ObligationId, answer: StopAnswer, *, detail: str, not_before: datetime | None = None
) -> Obligation:
    """What the provider said to the stop; `detail` is its reference where it accepted."""
    duty = tx.duty(obligation)
    reference = detail if answer is StopAnswer.ACCEPTED else duty.stop_reference
    stored = tx.put_duty(
        replace(duty, stop_ended_at=tx.now, stop_answer=answer, stop_reference=reference, stop_not_before=not_before)
    )
    tx.line("stop.answered", **of_duty(stored), detail={"answer": answer.value, "text": detail})
    return stored


def note_seen(tx: Tx, obligation: ObligationId) -> None:
    """Its resource was seen under its exact key: from now on its absence may mean something."""
    duty = tx.book.obligations.get(obligation)
    if duty is not None and duty.open and duty.seen_at is None:
        tx.put_duty(replace(duty, seen_at=tx.now))


def confirm(tx: Tx, obligation: ObligationId, *, reference: str, forced: bool) -> Obligation:
    """An operator vouches for the end, with a reference that can be looked up."""
    evidence = Evidence(
        kind=EvidenceKind.EXTERNAL_CONFIRMATION,
        reference=f"{reference} (forced against a sighting)" if forced else reference,
        observed_at=tx.now,
    )
    duty = tx.duty(obligation)
    if duty.deployment is not None:
        record = tx.record(duty.deployment)
        if record.phase is not Phase.STOP_REQUIRED and record.phase is not Phase.DECLARED:
            deployments.require_stop(tx, record, StopReason.OPERATOR_REQUEST)
    return deployments.discharge(tx, obligation, evidence)


def open_stray(tx: Tx, resource: SeenResource, reason: StopReason, *, holder: str, policy: HostingPolicy) -> Obligation:
    """Owe the stop of a resource of ours that no record holds; committed before anything is sent (OU-1).

    Raises Stale if it is held by now, Refusal if it names another owner.
    """
    if resource.key in tx.book.held_keys():
        raise Stale(f"{resource.key.incarnation} is held on record")
    if tx.book.owner.foreign(resource.tags):
        raise Refusal(RefusalCode.FOREIGN_RESOURCE)
    epoch = tx.next_epoch(above=resource.tags.epoch or 0)
    stray = Obligation(
        id=obligation_id(tx.randomness),
        opened_at=tx.now,
        request=resource.tags.request,
        key=resource.key,
        seen_at=tx.now,
        due_at=tx.now,
        reason=reason,
        epoch=epoch,
    )
    duty = _owe_stray(tx, stray, holder=holder, policy=policy)
    ledger.take_in(
        tx,
        ledger.Found(
            name=lease_name(duty),
            usd_per_hour=resource.usd_per_hour,
            since=resource.created_at or tx.now,
            hold=Hold.STOP_REQUIRED,
        ),
    )
    found = "resource.reappeared" if reason is StopReason.REAPPEARED else "orphan.found"
    tx.line(found, **of_duty(duty))
    tx.line("obligation.opened", **of_duty(duty))
    tx.line("obligation.due", **of_duty(duty))
    tx.drop_sighting(resource.key)
    return duty


def open_billed(tx: Tx, key: ResourceKey, bucket: Bucket, *, holder: str, policy: HostingPolicy) -> Obligation:
    """Owe again what is billed for time after the proof of its end (RP-46). Raises Stale if it is held, or if its end
    was proven anew since."""
    ended_at = tx.book.settled.get(key)
    if key in tx.book.held_keys() or ended_at is None or bucket.begin < ended_at:
        raise Stale(f"{key.incarnation} is held on record, or ended later")
    epoch = tx.next_epoch()
    billed = Obligation(
        id=obligation_id(tx.randomness),
        opened_at=tx.now,
        key=key,
        due_at=tx.now,
        reason=StopReason.BILLED_AFTER_STOP,
        epoch=epoch,
    )
    duty = _owe_stray(tx, billed, holder=holder, policy=policy)
    ledger.take_in(
        tx,
        ledger.Found(name=lease_name(duty), usd_per_hour=None, since=bucket.begin, hold=Hold.STOP_REQUIRED),
    )
    detail = {"billed_from": stamp(bucket.begin), "billed_usd": to_usd(bucket.micros), "ended_at": stamp(ended_at)}
    tx.line("obligation.opened", **of_duty(duty), detail=detail)
    tx.line("obligation.due", **of_duty(duty))
    return duty


def corroborate(tx: Tx, key: ResourceKey, ended_at: datetime, evidence: Evidence) -> None:
    """The bill bears out an end that was proven before (OU-4). Raises Stale if it is another by now, or told."""
    if key in tx.book.held_keys() or tx.book.settled.get(key) != ended_at or tx.book.corroborated.get(key) == ended_at:
        raise Stale(f"{key.incarnation} is held on record, ended later, or was told of")
    tx.put_corroboration(key, ended_at, evidence)
    tx.line("obligation.corroborated", resource=key, evidence=of_evidence(evidence), detail={"ended_at": ended_at})


def _owe_stray(tx: Tx, duty: Obligation, *, holder: str, policy: HostingPolicy) -> Obligation:
    """Put it on record under a lease of its own."""
    stored = tx.put_duty(duty)
    ask = Ask(deployment=lease_name(stored), holder=holder, now=tx.now, span=policy.lease)
    tx.put_lease(acquire(None, ask=ask, epoch_latest=stored.epoch - 1))
    return stored


def sight(tx: Tx, sighting: Sighting) -> None:
    """Remember an unrecorded resource from its first sighting on; told once."""
    if sighting.key not in tx.book.sightings and sighting.whose is not Whose.OURS:
        tx.line("foreign.seen", resource=sighting.key, detail={"whose": sighting.whose.value})
    tx.put_sighting(sighting)


def require_stop_of(tx: Tx, record: Record, reason: StopReason, *, now_at_once: bool, policy: HostingPolicy) -> Record:
    """An operator's stop: a deployment that was only declared is cancelled, any other is owed a stop. What a create in
    flight makes is owed a stop as soon as its answer comes."""
    current = tx.record(record.id)
    if current.phase is Phase.DECLARED:
        if any(hosting.unsettled(create) for create in deployments.creates_of(tx, record.id)):
            deployments.owe_what_comes(tx, current, reason)
            return current
        return deployments.cancel(tx, current, reason=reason)
    drain_until = drain_until_of(current, now_at_once=now_at_once, policy=policy, now=tx.now)
    return deployments.require_stop(tx, current, reason, drain_until=drain_until)


def drain_until_of(record: Record, *, now_at_once: bool, policy: HostingPolicy, now: datetime) -> datetime | None:
    """How long an operator's stop lets open requests go on. What never served has none; a drain that runs goes on."""
    served = record.phase is Phase.ACTIVE or record.drain_until is not None
    return now + policy.drain_limit if served and not now_at_once else None
