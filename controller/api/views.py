"""What is one model to those who want to use it?

The model view of the gateways' socket: where requests may go, what a start has come to, why there is none, and which
start failed last. The version of all views rises when something changed that a gateway acts on; seconds that merely
pass do not count.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from controller.api.panel import Panel
from controller.core import start
from controller.core.book import ModelMemory
from controller.core.costs import list_price
from controller.core.deployment import Record
from controller.core.errors import Code
from controller.core.lifecycle import LIVE, Phase
from controller.core.policy import ModelPolicy
from controller.core.schedule import Stance
from controller.core.spend import to_usd
from controller.store.ledger import believed_micros
from controller.store.transaction import stamp

Json = dict[str, Any]

ETA_LEAST: Final = timedelta(seconds=1)
LATE: Final = 10
STARTING: Final = frozenset({Phase.DECLARED, Phase.REQUESTED})
COMING: Final = STARTING | {Phase.ACTIVE, Phase.UNCERTAIN}
"""Phases under which a caller waits for what is there, whatever stands in the way of another start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Routes:
    """All model views at one version."""

    version: int
    models: Mapping[str, Json]


def look(panel: Panel) -> Routes:
    """Every configured model as it is now; the version is raised here, by whoever looks first."""
    board = panel.board
    failed = _note_failures(panel)
    views = {alias: _view(panel, model) for alias, model in panel.models.items()}
    steady = {alias: kept for alias, (_, kept) in views.items()}
    if failed or steady != board.shown:
        board.version += 1
        board.shown = steady
    return Routes(version=board.version, models={alias: view for alias, (view, _) in views.items()})


def _view(panel: Panel, model: ModelPolicy) -> tuple[Json, Json]:
    """Its view, and what of it is steady. Kept while it can be no other: whoever waits looks at every model after each
    commit, and most of many are at rest."""
    kept = panel.board.at_rest
    if not _at_rest(panel, model):
        view = model_view(panel, model)
        return view, _steady(view)
    cold_start = panel.book.memory(model.alias).cold_start
    found = kept.get(model.alias)
    if found is None or found[0] != cold_start:
        view = model_view(panel, model)
        found = kept[model.alias] = (cold_start, view, _steady(view))
    return found[1], found[2]


def _at_rest(panel: Panel, model: ModelPolicy) -> bool:
    """Is there nothing that its view says but its config and how long its last start took?"""
    memory = panel.book.memory(model.alias)
    return not (
        panel.live(model.alias)
        or memory.hold_reason is not None
        or memory.failure is not None
        or model.schedule.off
        or panel.wants.wanted(model.alias, now=panel.clock.now())
    )


def _note_failures(panel: Panel) -> bool:
    """Give each new failure the version that is about to be shown: who joined before it is told."""
    found = False
    for alias in panel.models:
        failure = panel.book.memory(alias).failure
        if failure is not None and panel.board.failures.get(alias, (None, 0))[0] != failure.seq:
            panel.board.failures[alias] = (failure.seq, panel.board.version + 1)
            found = True
    return found


def _steady(view: Json) -> Json:
    """Without what changes by itself as time passes."""
    starting, refusal = view["starting"], view["refusal"]
    return {
        **view,
        "cold_start_seconds": None,
        "starting": starting and (starting["deployment"], starting["phase"], starting["usd_per_hour"]),
        "refusal": refusal and (refusal["code"], refusal["reason"], refusal["final"]),
        "failure": view["failure"] and view["failure"]["version"],
    }


def model_view(panel: Panel, model: ModelPolicy) -> Json:
    """One configured model as gateways read it. `look` first, so that its failure has a version."""
    live, now = panel.live(model.alias), panel.now
    records = serving(live)
    memory = panel.book.memory(model.alias)
    open_to = routable(records)
    refusal = refusal_of(panel, model, records)
    return {
        "alias": model.alias,
        "phase": phase_of(panel, live, held=held(panel, model) is not None),
        "served_name": model.served_name,
        "server": model.server,
        "wires": list(model.wires),
        "tools": model.tools,
        "adapters": list(model.adapters),
        "merge_system": model.merge_system,
        "stream_plain": model.stream_plain,
        "wait_seconds": model.wait.total_seconds(),
        "queue": model.queue,
        "cold_start_seconds": None if memory.cold_start is None else round(memory.cold_start.total_seconds(), 3),
        "key_file": None,
        "usd_per_hour": rate(live),
        "routes": [_route(panel, record, model) for record in open_to],
        "starting": _starting(panel, [record for record in records if record not in open_to], memory),
        "refusal": None if refusal is None else refusal_json(refusal, now),
        "failure": _failure(panel, memory),
    }


def usd(amount: Decimal | None) -> str | None:
    return None if amount is None else format(amount.normalize(), "f")


def rate(records: Iterable[Record]) -> str | None:
    """What these cost an hour, as far as it is known."""
    known = [record.usd_per_hour for record in records if record.usd_per_hour is not None]
    return usd(sum(known, Decimal(0))) if known else None


def serving(live: Iterable[Record]) -> list[Record]:
    """Those that are there, or come, to serve: not what fills a volume."""
    return [record for record in live if record.fills is None]


def routable(records: Sequence[Record]) -> list[Record]:
    """Where requests may go: what serves; what stopped answering only while there is nothing better."""
    serving = [record for record in records if record.phase is Phase.ACTIVE and _endpoint(record) is not None]
    return [record for record in serving if record.unready_since is None] or serving


def _endpoint(record: Record) -> str | None:
    return None if record.observed is None else record.observed.endpoint


def _route(panel: Panel, record: Record, model: ModelPolicy) -> Json:
    return {
        "deployment": record.id,
        "epoch": record.epoch,
        "endpoint": _endpoint(record),
        "proven": (record.id, record.epoch) in panel.board.proven,
        "current": record.fingerprint == model.fingerprint,
        "doubted": panel.doubts.holds(record.id),
        "usd_per_hour": _usd_per_hour(panel, record),
    }


def _usd_per_hour(panel: Panel, record: Record) -> str | None:
    """What it bills, or at most may: what gateways charge to those who use it. `None` where nobody knows."""
    billed = record.usd_per_hour
    found = panel.book.ceiling(record.id) if billed is None else billed
    return None if found is None else f"{found.normalize():f}"


def phase_of(panel: Panel, records: Sequence[Record], *, held: bool) -> str:
    """One word for all its deployments: the best of them."""
    if not records:
        return "blocked" if held else "off"
    phases = {record.phase for record in serving(records) if record.phase in LIVE}
    filling = any(record.fills is not None and record.phase in LIVE for record in records)
    draining = any(is_draining(panel, record) for record in records)
    words = (
        (bool(routable(records)), "ready"),
        (bool(phases & STARTING), "starting"),
        (bool(phases & {Phase.UNCERTAIN, Phase.ACTIVE}), "uncertain"),
        (draining, "draining"),
        (Phase.STOP_REQUIRED in phases, "stopping"),
        (filling, "prefetching"),
        (held, "blocked"),
    )
    return next((word for holds, word in words if holds), "off")


def is_draining(panel: Panel, record: Record) -> bool:
    """Is its stop put off for requests that are still open?"""
    if record.phase is not Phase.STOP_REQUIRED or record.drain_until is None:
        return False
    now = panel.now
    return now < record.drain_until and panel.stream_leases.open_requests(record.id, now=now) > 0


def held(panel: Panel, model: ModelPolicy) -> start.Refuse | None:
    return start.hold(panel.book.memory(model.alias), fingerprint=model.fingerprint, now=panel.now)


def stance(panel: Panel, model: ModelPolicy) -> Stance:
    """What its schedule says now."""
    return model.stance(panel.book.memory(model.alias).cold_start, now=panel.now)


def refusal_of(panel: Panel, model: ModelPolicy, records: Sequence[Record]) -> start.Refuse | None:
    """Why nothing is started for those who wait; nothing while something is coming."""
    records = serving(records)
    if any(record.phase in COMING for record in records):
        return None
    if (closed := held(panel, model) or start.off(stance(panel, model))) is not None:
        return closed
    if panel.barred is not None:
        return start.Refuse(code=Code.REFUSED, reason=panel.barred, final=True)
    if not panel.wants.wanted(model.alias, now=panel.clock.now()):
        return None
    if panel.store.unwritable_since is not None:
        return start.Refuse(code=Code.STORE_UNAVAILABLE, reason="the store cannot be written", final=False)
    if (refused := panel.refusal(model.alias)) is not None:
        return refused
    if records:
        return start.Refuse(code=Code.MODEL_STOPPING, reason="an earlier resource is not proven gone", final=False)
    return None


def refusal_json(refusal: start.Refuse, now: datetime) -> Json:
    left = None if refusal.retry_at is None else seconds_left(refusal.retry_at, now)
    return {
        "code": refusal.code.value,
        "reason": refusal.reason,
        "final": refusal.final,
        "retry_after_seconds": left,
    }


def seconds_left(until: datetime, now: datetime) -> float:
    return round(max((until - now).total_seconds(), 0.0), 3)


def _starting(panel: Panel, records: Sequence[Record], memory: ModelMemory) -> Json | None:
    record, now = next((record for record in records if record.phase in COMING), None), panel.now
    if record is None:
        return None
    since = record.started_at or record.declared_at
    eta = None if memory.cold_start is None else eta_of(memory.cold_start, elapsed=now - since)
    spent = believed_micros(record, now=now)
    return {
        "deployment": record.id,
        "phase": record.phase.value if record.phase in STARTING else Phase.UNCERTAIN.value,
        "since": stamp(since),
        "eta_seconds": None if eta is None else round(eta.total_seconds(), 3),
        "usd_so_far": None if spent is None else f"{to_usd(spent):.4f}",
        "usd_per_hour": _usd_per_hour(panel, record),
    }


def eta_of(cold_start: timedelta, *, elapsed: timedelta) -> timedelta:
    """What is left if it takes as long as the last one; one that is late is expected to take a tenth more than it has,
    for "in a second" said for minutes would have those who are told ask once a second."""
    return max(cold_start - elapsed, elapsed / LATE, ETA_LEAST)


def _failure(panel: Panel, memory: ModelMemory) -> Json | None:
    failure = memory.failure
    if failure is None or failure.reason == Code.NO_FUNDS:
        return None  # that one is told by its refusal, under a code of its own
    until = memory.hold_until
    return {
        "version": panel.board.failures.get(memory.model, (0, panel.board.version))[1],
        "deployment": failure.deployment,
        "code": Code.START_FAILED.value,
        "reason": failure.told,
        "retry_after_seconds": None if until is None else seconds_left(until, panel.now),
    }


def listed_at(panel: Panel, record: Record) -> Decimal | None:
    """What the catalog lately said that an hour of such a machine costs on demand."""
    return list_price(record, panel.models.get(record.model), panel.book, panel.view.value.usd_per_hour)
