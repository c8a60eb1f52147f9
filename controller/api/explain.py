"""Why does this model run, or not, and what would end that?

For each slot the reason, since when, what it costs and when it stops by itself; for each duty what proof is missing.
The first line is the short answer that `status` shows.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import TypeGuard

from controller.api import money
from controller.api.load import in_words
from controller.api.panel import Panel
from controller.api.views import held, is_draining, listed_at, refusal_of, serving, stance
from controller.core import abandonment, bad_places, idle, replacement, start
from controller.core.book import Alarm
from controller.core.costs import below_list
from controller.core.crash_loop import Starts
from controller.core.deployment import Record
from controller.core.evidence import StopReason
from controller.core.lifecycle import SERVING, Phase
from controller.core.machine_log import progress_at
from controller.core.obligation import Obligation
from controller.core.policy import ModelPolicy
from controller.core.reconcile import startup_ends_at
from controller.core.removal import CONFIG_REFUSED
from controller.core.schedule import Off, Open, Warm, dismissed
from controller.core.spend import to_usd
from controller.core.storage import in_words as in_words_of_storage
from controller.core.unlisted import ALARM as UNLISTED
from controller.store.ledger import believed_micros
from controller.store.transaction import stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One answer: about what, in words, since when and until when."""

    subject: str
    text: str
    since: datetime | None = None
    until: datetime | None = None

    def as_json(self) -> dict[str, str | None]:
        return {
            "subject": self.subject,
            "text": self.text,
            "since": None if self.since is None else stamp(self.since),
            "until": None if self.until is None else stamp(self.until),
        }


def models_of(panel: Panel) -> list[str]:
    """The configured models, and those that only still live."""
    alive = {record.model for record in panel.book.live()}
    return [*panel.models, *sorted(alive - set(panel.models))]


def lines_of(panel: Panel, alias: str) -> list[Line]:
    """At least one line."""
    model, records = panel.models.get(alias), panel.live(alias)
    lines = [line for record in records for line in _of_record(panel, record, model)]
    if model is None:
        lines.append(Line(subject=alias, text="not in the config: nothing starts it, and what lives is stopped"))
    else:
        lines += _of_empty_slots(panel, model, len({record.slot for record in serving(records)}))
        lines += _of_schedule(panel, model)
        lines += _of_bad_places(panel, model)
    storage = panel.view.value.storage
    if storage is not None and (volumes := storage.of(alias)):
        lines.append(Line(subject=alias, text=in_words_of_storage(volumes), since=storage.asked_at))
    if (told := panel.book.alarms.get((UNLISTED, alias))) is not None:
        lines.append(Line(subject=alias, text=told.detail, since=told.since))
    lines += [_of_duty(panel, duty) for duty in panel.book.obligations.values() if duty.open and duty.model == alias]
    if (alarm := refusal_of_config(panel)) is not None:
        lines.append(Line(subject="config", text=alarm.detail, since=alarm.since))
    return lines


def refusal_of_config(panel: Panel) -> Alarm | None:
    """The alarm that stands while a config lies there that was not taken."""
    return panel.book.alarms.get((CONFIG_REFUSED, panel.policy.account))


def _of_empty_slots(panel: Panel, model: ModelPolicy, taken: int) -> Iterator[Line]:
    if taken < model.slots:
        yield _why_empty(panel, model)
        yield from _shortage(panel, model)
    failure = panel.book.memory(model.alias).failure
    if failure is not None:
        yield Line(subject=failure.deployment, text=f"the last start that failed: {failure.told}", since=failure.at)


def _said(refusal: start.Refuse) -> str:
    return "" if refusal.detail is None else f" ({refusal.detail})"


def _shortage(panel: Panel, model: ModelPolicy) -> Iterator[Line]:
    found = panel.view.value.shortages.get(model.alias)
    if found is not None and found.offers and found.believed(now=panel.clock.now()):
        gone = ", ".join(offer for offer in model.offers if offer in found.offers)
        yield Line(subject=model.alias, text=f"the provider says that none is left of: {gone}", since=found.at)


def _of_bad_places(panel: Panel, model: ModelPolicy) -> Iterator[Line]:
    for bad in bad_places.of_model(panel.book, model.alias, model.fingerprint, now=panel.now):
        ends = "asked for there again only where no other place will do"
        if any((record.place, record.offer) == (bad.place, bad.card) for record in panel.live(model.alias)):
            ends = "there is one there all the same, as no other place could be asked for or was given"
        text = f"failed {bad.failures} times in {bad.place} with {bad.card}: that place is avoided; {ends}"
        yield Line(subject=model.alias, text=text, until=bad.until)


def _of_schedule(panel: Panel, model: ModelPolicy) -> Iterator[Line]:
    found, alias = stance(panel, model), model.alias
    if isinstance(found, Open):
        if found.until is not None:
            yield Line(subject=alias, text="its schedule leaves it to who asks", until=found.until)
        return
    known = [record for record in panel.book.records.values() if record.model == alias]
    if isinstance(found, Off):
        text = "off by its schedule"
    elif dismissed(known, since=_kept_since(panel, model)):
        text = "to be kept warm by its schedule, and stopped by an operator: not again before its next window"
    else:
        text = "kept warm by its schedule"
    yield Line(subject=alias, text=text, since=found.since, until=found.until)


def _kept_since(panel: Panel, model: ModelPolicy) -> datetime:
    kept = model.stance_kept(panel.book.memory(model.alias).cold_start, now=panel.now)
    return kept.since if isinstance(kept, Warm) else panel.now


def _why_empty(panel: Panel, model: ModelPolicy) -> Line:
    memory, alias = panel.book.memory(model.alias), model.alias
    if (hold := held(panel, model)) is not None:
        ends = "" if hold.retry_at is not None else "; until an operator unblocks it or its config changes"
        return Line(subject=alias, text=f"blocked: {hold.reason}{_said(hold)}{ends}", until=hold.retry_at)
    refusal = panel.refusal(alias) or refusal_of(panel, model, panel.live(alias))
    if refusal is not None:
        return Line(subject=alias, text=f"not started: {refusal.reason}{_said(refusal)}", until=refusal.retry_at)
    if panel.wants.wanted(alias, now=panel.clock.now()):
        return Line(subject=alias, text="wanted: about to be started")
    tried = f"; {memory.failures} failed starts in a row" if memory.failures else ""
    return Line(subject=alias, text=f"off: nobody asks for it{tried}")


def _of_record(panel: Panel, record: Record, model: ModelPolicy | None) -> Iterator[Line]:
    yield _why_there(panel, record, model)
    spent = believed_micros(record, now=panel.now)
    if record.usd_per_hour is not None and spent is not None:
        machine = panel.book.ordered(record) or record.offer or "it"
        so_far = f"about ${to_usd(spent):.4f} so far; {money.in_words(panel, record)}"
        text = f"{machine} costs ${record.usd_per_hour} an hour, {so_far}"
        yield Line(subject=record.id, text=text, since=record.started_at)
    yield from _below_list(record, listed_at(panel, record))
    yield from _making_way(panel, record)
    if (topology := panel.book.starts.get(record.id, Starts()).topology) is not None:
        yield Line(subject=record.id, text=topology.text)
    yield from _abandoned(panel, record)
    if record.phase is Phase.ACTIVE:
        yield from _load(panel, record)
        yield _idle(panel, record)
    if record.started_at is not None and record.phase in {Phase.REQUESTED, Phase.ACTIVE}:
        lifetime = panel.policy.lifetime(record.spec.requested_lifetime)
        yield Line(subject=record.id, text="stopped at the end of its lifetime", until=record.started_at + lifetime)


def _abandoned(panel: Panel, record: Record) -> Iterator[Line]:
    match panel.abandonment(record):
        case abandonment.KeepAwaited():
            yield Line(subject=record.id, text="callers wait for it")
        case abandonment.KeepUntil(until=until):
            text = "nobody waits for it any more: given up then, if nobody comes back"
            yield Line(subject=record.id, text=text, since=panel.waits.awaited_at(record.model), until=until)
        case abandonment.Abandon(since=since):
            yield Line(subject=record.id, text="nobody waits for it any more: its stop is due", since=since)
        case None:
            return


def _below_list(record: Record, listed: Decimal | None) -> Iterator[Line]:
    """RP-20: nothing else tells of a tier."""
    if below_list(record.usd_per_hour, listed):
        text = f"that is less than the catalog's ${listed}: it may be spot or such, and be taken away at any time"
        yield Line(subject=record.id, text=text, since=record.started_at)


def _why_there(panel: Panel, record: Record, model: ModelPolicy | None) -> Line:
    since: datetime | None = record.started_at or record.declared_at
    until: datetime | None = None
    match record.phase:
        case Phase.DECLARED:
            text = f"{_purpose(record)}: the provider is asked for a machine"
        case Phase.REQUESTED:
            machine = panel.book.ordered(record) or record.offer or "a machine"
            ends = "it does not serve yet, and is" if record.fills is None else "when it could serve it is done, and"
            text = f"{_purpose(record)} on {machine}: {ends} stopped at its deadline"
            progress = progress_at(panel.view.value.logs.get(record.id))
            until = None if model is None else startup_ends_at(record, model, progress_at=progress)
        case Phase.UNCERTAIN:
            text = "checking: the answer to its create was lost, and nobody knows yet whether it made anything"
        case Phase.ACTIVE:
            text, since = _serving(panel, record)
            text += _briefly(panel, record)
        case _:
            text = _stopping(panel, record)
            since = record.stop_required_at
            if is_draining(panel, record):
                text, until = f"{text}; open requests may end", record.drain_until
    return Line(subject=record.id, text=text, since=since, until=until)


def _purpose(record: Record) -> str:
    return "starting" if record.fills is None else f"filling the volume in {record.fills}"


def _making_way(panel: Panel, record: Record) -> Iterator[Line]:
    """What is to take its place, or why nothing does yet; and what it took the place of."""
    successor = replacement.successor_of(record, panel.live(record.model))
    refusal = panel.refusal(record.id)
    if record.phase is Phase.ACTIVE and _comes(successor):
        text = f"being replaced by {successor.id}, and serves until that one does"
        yield Line(subject=record.id, text=text, since=successor.declared_at)
    elif refusal is not None:
        text = f"waits for its successor, and serves meanwhile: {refusal.reason}"
        yield Line(subject=record.id, text=text, since=record.restart_asked_at, until=refusal.retry_at)
    if record.replaces is not None and record.phase in SERVING:
        yield Line(subject=record.id, text=f"in place of {record.replaces}", since=record.declared_at)


def _comes(successor: Record | None) -> TypeGuard[Record]:
    return successor is not None and successor.phase is not Phase.STOP_REQUIRED


def _briefly(panel: Panel, record: Record) -> str:
    """The same, as far as it fits into one line with why it serves."""
    successor = replacement.successor_of(record, panel.live(record.model))
    if _comes(successor):
        return f"; being replaced by {successor.id}"
    return "" if panel.refusal(record.id) is None else "; waits for its successor"


def _stopping(panel: Panel, record: Record) -> str:
    reason = "asked for" if record.reason is None else record.reason.value
    successor = replacement.successor_of(record, panel.live(record.model))
    if record.reason is StopReason.REPLACED and successor is not None:
        reason = f"replaced by {successor.id}"
    return f"stopping: {reason}"


def _serving(panel: Panel, record: Record) -> tuple[str, datetime | None]:
    if record.unready_since is not None:
        return "it served, and does not answer as ready now", record.unready_since
    if record.observed is None or record.observed.endpoint is None:
        return "it serves as far as is on record; its address is being looked up", record.ready_at
    count = panel.stream_leases.open_requests(record.id, now=panel.now)
    return f"serves: {count} open request{'' if count == 1 else 's'}", record.ready_at


def _load(panel: Panel, record: Record) -> Iterator[Line]:
    probed = panel.view.value.probes.get(record.id)
    if probed is not None and probed.runtime is not None:
        text = f"its server counts: {in_words(probed.runtime)}"
        yield Line(subject=record.id, text=text, since=probed.runtime.at)


def _idle(panel: Panel, record: Record) -> Line:
    decision = panel.idle(record)
    last = record.last_byte_at
    match decision:
        case idle.KeepUntil():
            return Line(subject=record.id, text="stopped when idle, if nobody comes", since=last, until=decision.until)
        case idle.KeepWitnessed():
            text = "idle as far as gateways tell, but its server works for somebody: its stop waits, at most so long"
            return Line(subject=record.id, text=text, since=last, until=decision.until)
        case idle.IdleOut():
            return Line(subject=record.id, text="idle: its stop is due", since=decision.since)
        case idle.KeepBusy():
            return Line(subject=record.id, text="in use: its idle time has not begun", since=last)
        case None:
            return Line(subject=record.id, text="not stopped for idleness")


def _of_duty(panel: Panel, duty: Obligation) -> Line:
    if not duty.due:
        text = "its stop will be owed one day; nothing is due"
    else:
        asked = f"asked for {duty.stop_attempts} times" if duty.stop_attempts else "not asked for yet"
        text = (
            f"stop owed ({duty.reason.value if duty.reason else 'due'}), {asked}; waiting for {panel.waiting_for(duty)}"
        )
    return Line(subject=duty.id, text=text, since=duty.due_at or duty.opened_at)
