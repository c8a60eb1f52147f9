"""Which columns hold which value?

The fields of every kind of row, and the few kinds whose value is not flat.
"""

import json
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final

from controller.clock import from_ms, to_ms
from controller.core.book import AccountTrust, Alarm, Failure, ModelMemory
from controller.core.crash_loop import Starts
from controller.core.deployment import (
    Create,
    CreateAnswer,
    DeploymentSpec,
    ProviderState,
    ProvisionedDeployment,
    Record,
)
from controller.core.evidence import StopReason
from controller.core.identity import DeploymentId, Owner, Scope
from controller.core.lease import Lease
from controller.core.lifecycle import Phase
from controller.core.obligation import Ending, Obligation, StopAnswer
from controller.core.orphans import Sighting, Whose
from controller.core.removal import Confirmed
from controller.core.spend import Hold, Reservation, to_micros, to_usd
from controller.core.timekeeping import Kept
from controller.core.topology import Topology
from controller.store.codec import (
    Field,
    Row,
    from_row,
    instant,
    instants_from_text,
    instants_to_text,
    key_from_text,
    key_to_text,
    plain,
    proof,
    resource,
    span,
    to_row,
    word,
)

MILLISECOND: Final = timedelta(milliseconds=1)

_SPEC = (
    plain("id"),
    plain("provider"),
    plain("account"),
    plain("model"),
    plain("image"),
    plain("resource_name"),
    span("requested_lifetime"),
)


def _rate_to_micros(rate: Decimal) -> int:
    return to_micros(rate)


_RECORD = (
    plain("slot"),
    plain("fingerprint"),
    word("phase", Phase),
    instant("declared_at"),
    instant("started_at"),
    resource(),
    plain("epoch"),
    word("reason", StopReason),
    instant("stop_required_at"),
    instant("drain_until"),
    instant("ready_at"),
    instant("restart_asked_at"),
    plain("fills"),
    instant("proven_at"),
    instant("unready_since"),
    instant("last_byte_at"),
    instant("ended_at"),
    proof(),
    Field(attribute="usd_per_hour", column="usd_micros_per_hour", write=_rate_to_micros, read=to_usd),
    plain("offer"),
    plain("place"),
    plain("version"),
)


def record_to_row(record: Record) -> dict[str, Any]:
    seen = record.observed
    return {
        **to_row(record.spec, _SPEC),
        **to_row(record, _RECORD),
        "replaces": record.replaces or "",
        "observed_state": seen.state.value if seen is not None and seen.state is not None else None,
        "observed_ready": seen.ready if seen is not None else None,
        "observed_endpoint": seen.endpoint if seen is not None else None,
        "observed_served_model": seen.served_model if seen is not None else None,
        "observed_at_ms": to_ms(seen.observed_at) if seen is not None else None,
    }


def record_from_row(row: Row) -> Record:
    spec = from_row(DeploymentSpec, row, _SPEC)
    replaces = DeploymentId(row["replaces"]) if row["replaces"] else None
    record = from_row(lambda **values: Record(spec=spec, replaces=replaces, **values), row, _RECORD)
    if row["observed_at_ms"] is None or record.key is None:
        return record
    state = row["observed_state"]
    seen = ProvisionedDeployment(
        key=record.key,
        state=None if state is None else ProviderState(state),
        ready=row["observed_ready"],
        endpoint=row["observed_endpoint"],
        served_model=row["observed_served_model"],
        observed_at=from_ms(row["observed_at_ms"]),
    )
    return replace(record, observed=seen)


_CREATE = (
    plain("request"),
    plain("deployment"),
    plain("offer"),
    instant("submitting_at"),
    instant("ended_at"),
    word("answer", CreateAnswer),
    resource(),
    plain("detail"),
)


def create_to_row(create: Create) -> dict[str, Any]:
    return to_row(create, _CREATE)


def create_from_row(row: Row) -> Create:
    return from_row(Create, row, _CREATE)


_OBLIGATION = (
    plain("id"),
    instant("opened_at"),
    plain("deployment"),
    plain("model"),
    plain("slot"),
    plain("request"),
    resource(),
    instant("create_ended_at"),
    instant("seen_at"),
    instant("due_at"),
    word("reason", StopReason),
    plain("epoch"),
    plain("stop_attempts"),
    instant("stop_submitted_at"),
    instant("stop_ended_at"),
    word("stop_answer", StopAnswer),
    plain("stop_reference"),
    instant("stop_not_before"),
    instant("ended_at"),
    word("ending", Ending),
    proof(),
    plain("version"),
)


def obligation_to_row(duty: Obligation) -> dict[str, Any]:
    return to_row(duty, _OBLIGATION)


def obligation_from_row(row: Row) -> Obligation:
    return from_row(Obligation, row, _OBLIGATION)


_LEASE = (plain("deployment"), plain("holder"), plain("epoch"), instant("expires_at"))


def lease_to_row(lease: Lease) -> dict[str, Any]:
    return to_row(lease, _LEASE)


def lease_from_row(row: Row) -> Lease:
    return from_row(Lease, row, _LEASE)


def _failure_to_text(failure: Failure) -> str:
    return json.dumps(
        {
            "deployment": failure.deployment,
            "reason": failure.reason,
            "at_ms": to_ms(failure.at),
            "seq": failure.seq,
            "cause": failure.cause,
        }
    )


def _failure_from_text(text: str) -> Failure:
    row = json.loads(text)
    return Failure(
        deployment=DeploymentId(row["deployment"]),
        reason=row["reason"],
        at=from_ms(row["at_ms"]),
        seq=row["seq"],
        cause=row.get("cause"),
    )


_MEMORY = (
    plain("model"),
    plain("failures"),
    plain("hold_reason"),
    instant("hold_until"),
    plain("hold_fingerprint"),
    plain("rounds"),
    instant("next_round_at"),
    plain("round_detail"),
    span("cold_start"),
    Field(attribute="failure", column="failure", write=_failure_to_text, read=_failure_from_text),
    Field(attribute="starts", column="starts", write=instants_to_text, read=instants_from_text),
    instant("expected_until"),
)


def memory_to_row(memory: ModelMemory) -> dict[str, Any]:
    return to_row(memory, _MEMORY)


def memory_from_row(row: Row) -> ModelMemory:
    return from_row(ModelMemory, row, _MEMORY)


def _topology_to_text(topology: Topology) -> str:
    return json.dumps({"ranks": topology.ranks, "nodes": topology.nodes, "ways": topology.ways})


def _topology_from_text(text: str) -> Topology:
    row = json.loads(text)
    return Topology(ranks=row["ranks"], nodes=row["nodes"], ways=tuple(row["ways"]))


_STARTS = (
    instant("latest"),
    Field(attribute="restarts", column="restarts", write=instants_to_text, read=instants_from_text),
    instant("server"),
    instant("server_within"),
    Field(attribute="server_alone", column="server_alone", write=bool, read=bool),
    plain("cause"),
    Field(attribute="topology", column="topology", write=_topology_to_text, read=_topology_from_text),
)


def starts_to_row(deployment: DeploymentId, starts: Starts) -> dict[str, Any]:
    return {"deployment": deployment, **to_row(starts, _STARTS)}


def starts_from_row(row: Row) -> tuple[DeploymentId, Starts]:
    return DeploymentId(row["deployment"]), from_row(Starts, row, _STARTS)


_SIGHTING = (
    Field(attribute="key", column="resource", write=key_to_text, read=key_from_text),
    word("whose", Whose),
    plain("installation"),
    instant("first_at"),
    instant("last_at"),
    plain("times"),
    instant("created_at"),
)


def sighting_to_row(sighting: Sighting) -> dict[str, Any]:
    return to_row(sighting, _SIGHTING)


def sighting_from_row(row: Row) -> Sighting:
    return from_row(Sighting, row, _SIGHTING)


_RESERVATION = (
    plain("id"),
    plain("deployment"),
    plain("day"),
    word("hold", Hold),
    plain("ceiling_micros_per_hour", "ceiling_usd_micros_per_hour"),
    plain("reserved_micros", "reserved_usd_micros"),
    instant("opened_at"),
    instant("begun_at"),
    plain("settled_micros", "settled_usd_micros"),
    plain("evidence_reference"),
    plain("version"),
)


def reservation_to_row(reservation: Reservation) -> dict[str, Any]:
    return to_row(reservation, _RESERVATION)


def reservation_from_row(row: Row) -> Reservation:
    return from_row(Reservation, row, _RESERVATION)


_ALARM = (plain("name"), plain("subject"), instant("since"), plain("detail"))


def alarm_to_row(alarm: Alarm) -> dict[str, Any]:
    return to_row(alarm, _ALARM)


def alarm_from_row(row: Row) -> Alarm:
    return from_row(Alarm, row, _ALARM)


def identity_from_row(row: Row) -> tuple[Owner, Scope]:
    return (
        Owner(name=row["owner"], installation=row["installation"]),
        Scope(provider=row["provider"], account=row["account"]),
    )


def kept_to_row(kept: Kept) -> Row:
    boot_ms = None if kept.boot is None else kept.boot // MILLISECOND
    return {
        "mark_ms": to_ms(kept.mark),
        "mark_boot_id": kept.boot_id,
        "mark_boot_ms": boot_ms,
        "mark_settled": kept.settled,
    }


def kept_from_row(row: Row) -> Kept | None:
    if row["mark_ms"] is None:
        return None
    boot = None if row["mark_boot_ms"] is None else row["mark_boot_ms"] * MILLISECOND
    mark, boot_id = from_ms(row["mark_ms"]), row["mark_boot_id"]
    return Kept(mark=mark, boot_id=boot_id, boot=boot, settled=bool(row["mark_settled"]))


def account_from_row(row: Row) -> AccountTrust:
    return AccountTrust(digest=row["key_digest"], trusted=row["account_trusted"], why=row["account_why"])


def confirmed_from_row(row: Row) -> Confirmed | None:
    digest = row["confirmed_config"]
    return None if digest is None else Confirmed(digest=digest, at=from_ms(row["confirmed_at_ms"]))
