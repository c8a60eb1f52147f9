"""How does an evidence line speak of a deployment, an obligation and a proof?

The fields of the design's section 7, built in one place so that every event tells them in the same way.
"""

from typing import Any

from controller.core.deployment import Record
from controller.core.evidence import Evidence
from controller.core.obligation import Obligation
from controller.core.spend import Reservation, to_usd
from controller.store.transaction import Tx, stamp


def of_record(record: Record) -> dict[str, Any]:
    return {
        "model": record.model,
        "deployment": record.id,
        "resource": record.key,
        "epoch": record.epoch or None,
        "usd_per_hour": record.usd_per_hour,
    }


def of_duty(duty: Obligation) -> dict[str, Any]:
    return {
        "model": duty.model,
        "deployment": duty.deployment,
        "resource": duty.key,
        "obligation": duty.id,
        "epoch": duty.epoch or None,
        "request": duty.request,
        "reason": duty.reason,
    }


def of_evidence(evidence: Evidence) -> dict[str, str]:
    return {
        "kind": evidence.kind.value,
        "reference": evidence.reference,
        "observed_at": stamp(evidence.observed_at),
    }


def of_reservation(reservation: Reservation, ledger: str) -> dict[str, Any]:
    settled = reservation.settled_micros
    return {
        "ledger": ledger,
        "reservation": reservation.id,
        "deployment": reservation.deployment,
        "detail": {
            "day": reservation.day,
            "reserved_usd": to_usd(reservation.reserved_micros),
            "settled_usd": None if settled is None else to_usd(settled),
        },
    }


def phase_moved(tx: Tx, before: Record, after: Record, *, detail: str | None = None) -> None:
    """Tell a phase change; nothing is told where the phase stayed."""
    if before.phase is after.phase:
        return
    tx.line(
        "deployment.phase",
        **of_record(after),
        phase={"from": before.phase.value, "to": after.phase.value},
        reason=after.reason,
        evidence=None if after.evidence is None else of_evidence(after.evidence),
        detail=detail,
    )
