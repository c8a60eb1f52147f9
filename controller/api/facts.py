"""What does an operator read of the whole: models, deployments, obligations, money, tasks?

The JSON of the operators' socket, built from one moment of the book and the view. Unknown is null, money is a string,
an instant is RFC 3339 in UTC.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from controller.api import money
from controller.api.explain import lines_of, models_of, refusal_of_config
from controller.api.load import load
from controller.api.panel import Panel
from controller.api.readiness import reasons
from controller.api.views import held, listed_at, phase_of, rate, routable, stance, usd
from controller.core import idle, replacement, start
from controller.core.deployment import Record
from controller.core.evidence import Evidence
from controller.core.identity import ResourceKey
from controller.core.lifecycle import Phase
from controller.core.obligation import Ending, Obligation
from controller.core.orphans import Whose
from controller.core.policy import ModelPolicy
from controller.core.schedule import Off, Open, Warm
from controller.core.spend import Hold, to_usd, utc_day
from controller.store.lines import of_evidence
from controller.store.transaction import stamp

Json = dict[str, Any]


def at(instant: datetime | None) -> str | None:
    return None if instant is None else stamp(instant)


def resource(key: ResourceKey | None) -> Json | None:
    if key is None:
        return None
    return {"provider": key.provider, "account": key.account, "name": key.name, "incarnation": key.incarnation}


def proof(evidence: Evidence | None) -> Json | None:
    return None if evidence is None else dict(of_evidence(evidence))


def status(panel: Panel) -> Json:
    book = panel.book
    return {
        "schema": 1,
        "controller": panel.run_id,
        "owner": book.owner.name,
        "installation": book.owner.installation,
        "version": panel.version,
        "started_at": stamp(panel.started_at),
        "ready": not reasons(panel),
        "mode": panel.mode,
        "config": config(panel),
        "problems": [*panel.problems, *reasons(panel)],
        "models": models(panel),
        "owed": len(book.owed()),
        "obligations_open": sum(1 for duty in book.obligations.values() if duty.open),
        "obligations_ended": {ending.value: book.ended.get(ending, 0) for ending in Ending},
        "foreign": sum(1 for found in book.sightings.values() if found.whose in {Whose.FOREIGN, Whose.UNMARKED}),
        "spend": spend(panel),
        "storage": money.of_storage(panel),
        "listing": listing(panel),
        "tasks": tasks(panel),
        "alarms": [
            {"name": alarm.name, "subject": alarm.subject, "since": stamp(alarm.since), "detail": alarm.detail}
            for alarm in sorted(book.alarms.values(), key=lambda alarm: alarm.since)
        ],
    }


def config(panel: Panel) -> Json:
    """What is said against the config at hand, and which one an operator confirmed; null where nothing is."""
    refused, confirmed = refusal_of_config(panel), panel.book.confirmed
    return {
        "refused": None if refused is None else refused.detail,
        "confirmed": None if confirmed is None else {"digest": confirmed.digest, "at": stamp(confirmed.at)},
    }


def spend(panel: Panel) -> Json:
    """Today's money. What is held counts in full until it is settled."""
    day = utc_day(panel.now)
    today = [held for held in panel.book.reservations.values() if held.day == day]
    settled = sum(held.settled_micros or 0 for held in today if held.hold is Hold.SETTLED)
    open_micros = sum(held.reserved_micros for held in today if held.open)
    return {
        "day": day,
        "limit_usd": usd(panel.policy.usd_per_day),
        "held_usd": usd(to_usd(open_micros)),
        "settled_usd": usd(to_usd(settled)),
        **money.of_today(panel),
        "exposure_usd": usd(to_usd(sum(held.exposure_micros for held in today))),
    }


def prices(panel: Panel) -> Json:
    """What the provider's catalog lately said that one card costs an hour, by its type and by each offer."""
    view = panel.view.value
    return {
        "priced_at": at(view.priced_at),
        "card_usd_per_hour": {offer: usd(amount) for offer, amount in sorted(view.usd_per_hour.items())},
    }


def listing(panel: Panel) -> Json:
    latest = panel.view.value.listing
    if latest is None:
        return {"complete": None, "ended_at": None, "problem": None}
    return {"complete": latest.complete, "ended_at": stamp(latest.ended_at), "problem": latest.problem}


def tasks(panel: Panel) -> list[Json]:
    return [
        {
            "name": pulse.name,
            "last_pass_at": stamp(pulse.last_pass_at),
            "failures": pulse.failures,
            "problem": pulse.problem,
        }
        for pulse in panel.pulses
    ]


def models(panel: Panel) -> list[Json]:
    return [model(panel, alias) for alias in models_of(panel)]


def model(panel: Panel, alias: str) -> Json:
    """One model, configured or only still alive."""
    records, policy = panel.live(alias), panel.models.get(alias)
    hold = None if policy is None else held(panel, policy)
    return {
        "alias": alias,
        "phase": phase_of(panel, records, held=hold is not None),
        "deployments": [record.id for record in records],
        "routes": len(routable(records)),
        "open_requests": sum(panel.stream_leases.open_requests(record.id, now=panel.now) for record in records),
        "load": load(panel, alias),
        "usd_per_hour": rate(records),
        "money": money.of_records(panel, records),
        "idle_stop_at": at(_idle_stop(panel, records)),
        "why": lines_of(panel, alias)[0].text,
        "blocked": None if hold is None else hold.reason,
        "schedule": None if policy is None else _schedule(panel, policy),
        "volumes": [] if policy is None else [volume.place for volume in policy.volumes],
        "prefetches": [{"place": record.fills, "deployment": record.id} for record in records if record.fills],
    }


def _schedule(panel: Panel, policy: ModelPolicy) -> Json | None:
    """What the model's windows say now and until when; null without windows."""
    found = stance(panel, policy)
    if isinstance(found, Open) and found.until is None:
        return None
    word = {Warm: "warm", Off: "off", Open: "open"}[type(found)]
    return {"stance": word, "until": at(found.until)}


def _idle_stop(panel: Panel, records: Sequence[Record]) -> datetime | None:
    """When the first of them stops if nobody comes."""
    due = []
    for record in records:
        decision = panel.idle(record)
        if isinstance(decision, idle.KeepUntil | idle.KeepWitnessed):
            due.append(decision.until)
        elif isinstance(decision, idle.IdleOut):
            due.append(decision.since)
    return min(due, default=None)


def deployment(panel: Panel, record: Record) -> Json:
    successor = replacement.successor_of(record, panel.live(record.model))
    waits = panel.refusal(record.id)
    return {
        "id": record.id,
        "model": record.model,
        "slot": record.slot,
        "phase": record.phase.value,
        "reason": None if record.reason is None else record.reason.value,
        "resource": resource(record.key),
        "declared_at": stamp(record.declared_at),
        "started_at": at(record.started_at),
        "ready_at": at(record.ready_at),
        "fills": record.fills,
        "refused": _refused_with(panel, record),
        "replaces": record.replaces,
        "replaced_by": None if successor is None else successor.id,
        "restart_asked_at": at(record.restart_asked_at),
        "successor_refused": None if waits is None else _refused(waits),
        "last_byte_at": at(record.last_byte_at),
        "drain_until": at(record.drain_until),
        "ended_at": at(record.ended_at),
        "epoch": record.epoch,
        "usd_per_hour": usd(record.usd_per_hour),
        "listed_usd_per_hour": usd(listed_at(panel, record)),
        "money": money.of_record(panel, record),
        "offer": record.offer,
        "ordered": panel.book.ordered(record),
        "evidence": proof(record.evidence),
    }


def _refused_with(panel: Panel, record: Record) -> str | None:
    """The provider's words, where nothing came of it because the last create was refused."""
    if record.phase is not Phase.CANCELLED:
        return None
    made = [create for create in panel.book.creates.values() if create.deployment == record.id and create.ended_at]
    return max(made, key=lambda create: create.ended_at or record.declared_at).detail if made else None


def _refused(refusal: start.Refuse) -> Json:
    """Why what is to make way has no successor yet."""
    return {
        "code": refusal.code.value,
        "reason": refusal.reason,
        "final": refusal.final,
        "retry_at": at(refusal.retry_at),
    }


def obligation(panel: Panel, duty: Obligation) -> Json:
    sighted = None if duty.key is None else panel.view.value.sighted.get(duty.key)
    return {
        "id": duty.id,
        "deployment": duty.deployment,
        "model": duty.model,
        "resource": resource(duty.key),
        "request": duty.request,
        "opened_at": stamp(duty.opened_at),
        "due": duty.due,
        "due_at": at(duty.due_at),
        "reason": None if duty.reason is None else duty.reason.value,
        "attempts": duty.stop_attempts,
        "last_stop_at": at(duty.stop_submitted_at),
        "last_answer": None if duty.stop_answer is None else duty.stop_answer.value,
        "last_seen_at": at(sighted or duty.seen_at),
        "waiting_for": panel.waiting_for(duty) if duty.open else "",
        "corroborated": _corroborated(panel, duty),
        "ended_at": at(duty.ended_at),
        "ending": None if duty.ending is None else duty.ending.value,
        "evidence": proof(duty.evidence),
    }


def _corroborated(panel: Panel, duty: Obligation) -> bool:
    """Did the bill bear out its end since?"""
    return duty.key is not None and not duty.open and panel.book.corroborated.get(duty.key) == duty.ended_at
