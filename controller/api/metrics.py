"""What does monitoring read of the daemon?

The text format of Prometheus. Counters count evidence lines of this run: what was not written down did not happen, and
a counter that begins at zero after a restart is what Prometheus expects. Gauges are read off the book, the view and the
tasks at the moment of asking; what is unknown is left out, never shown as zero. No label holds anything that grows
without bound.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from controller.api import money
from controller.api.explain import refusal_of_config
from controller.api.facts import spend
from controller.api.load import SHOWN, total
from controller.api.panel import Panel
from controller.api.readiness import reasons
from controller.api.views import held, phase_of
from controller.core.deployment import CreateAnswer
from controller.core.obligation import Ending
from controller.store.outbox import lines_after

LINES_AT_ONCE: Final = 1000
PHASES: Final = ("off", "starting", "ready", "draining", "stopping", "prefetching", "blocked", "uncertain")

Sample = tuple[Mapping[str, str], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    name: str
    kind: str
    says: str
    samples: Iterable[Sample]


async def count_new_lines(panel: Panel) -> None:
    """Count the evidence lines that were written since the last time."""
    while panel.board.counted_to < panel.book.seq_latest and await _count_some(panel):
        pass


async def _count_some(panel: Panel) -> bool:
    board, after = panel.board, panel.board.counted_to
    lines = await panel.store.read(lambda connection: lines_after(connection, after, limit=LINES_AT_ONCE))
    if not lines or board.counted_to != after:
        return False  # another scrape counted them meanwhile
    board.counted_to = lines[-1][0]
    board.counts.update(_counted(json.loads(text)) for _, text in lines)
    return True


def _counted(line: Mapping[str, Any]) -> tuple[str, str]:
    detail = line.get("detail") or {}
    if line["event"] in {"create.answered", "stop.answered"}:
        return str(line["event"]), str(detail.get("answer", ""))
    return str(line["event"]), str(line.get("reason", ""))


def page(panel: Panel) -> str:
    return "".join(_written(metric) for metric in [*_counters(panel), *_owed(panel), *_gauges(panel), *_tasks(panel)])


def _written(metric: Metric) -> str:
    samples = [f"{metric.name}{_labels(labels)} {value:.17g}\n" for labels, value in metric.samples]
    return f"# HELP {metric.name} {metric.says}\n# TYPE {metric.name} {metric.kind}\n{''.join(samples)}"


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    pairs = (f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{','.join(pairs)}}}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _counters(panel: Panel) -> Iterator[Metric]:
    counts = panel.board.counts

    def of(event: str, label: str) -> list[Sample]:
        return [({label: reason}, count) for (name, reason), count in sorted(counts.items()) if name == event]

    def total(event: str) -> list[Sample]:
        return [({}, sum(count for (name, _), count in counts.items() if name == event))]

    started = [counts["create.answered", answer.value] for answer in (CreateAnswer.ACCEPTED, CreateAnswer.UNKNOWN)]
    yield _counter("starts_total", "Creates that were accepted or unanswered.", [({}, sum(started))])
    yield _counter("creates_total", "Create calls by what their answer meant.", of("create.answered", "answer"))
    yield _counter("blocks_total", "Models put on hold, by reason.", of("model.blocked", "reason"))
    yield _counter("stops_owed_total", "Stops that came to be owed, by reason.", of("obligation.due", "reason"))
    yield _counter("stop_calls_total", "Stop calls by their answer.", of("stop.answered", "answer"))
    yield _counter("stops_proven_total", "Obligations discharged by evidence.", total("obligation.discharged"))
    yield _counter("orphans_total", "Resources of ours without a record that were found.", total("orphan.found"))
    yield _counter("reappeared_total", "Resources seen again after their proven end.", total("resource.reappeared"))
    yield _counter("alarms_raised_total", "Alarms raised.", total("alarm.raised"))


def _counter(name: str, says: str, samples: list[Sample]) -> Metric:
    return Metric(name=f"gpuwarden_{name}", kind="counter", says=says, samples=samples)


def _gauge(name: str, says: str, samples: Iterable[Sample]) -> Metric:
    return Metric(name=f"gpuwarden_{name}", kind="gauge", says=says, samples=samples)


def _owed(panel: Panel) -> Iterator[Metric]:
    owed, now = panel.book.owed(), panel.now
    oldest = max(((now - duty.due_at).total_seconds() for duty in owed if duty.due_at is not None), default=0.0)
    still_open = sum(1 for duty in panel.book.obligations.values() if duty.open)
    yield _gauge("owed_stops", "Stops that are wanted and unproven.", [({}, len(owed))])
    yield _gauge("owed_stop_oldest_seconds", "Age of the oldest owed stop; 0 without one.", [({}, oldest)])
    yield _gauge("obligations_open", "Resources that this daemon has to stop some day.", [({}, still_open)])
    ended = [({"ending": ending.value}, panel.book.ended.get(ending, 0)) for ending in Ending]
    yield _gauge("obligations_ended", "Obligations that ever ended, by how.", ended)
    yield _gauge("sightings", "Resources seen that no record holds.", [({}, len(panel.book.sightings))])
    yield _gauge("alarms", "Alarms that stand.", [({}, len(panel.book.alarms))])


def _gauges(panel: Panel) -> Iterator[Metric]:
    yield _gauge("ready", "1 while the daemon can be relied on.", [({}, not reasons(panel))])
    refused = refusal_of_config(panel) is not None
    yield _gauge("config_refused", "1 while a config lies there that would stop everything.", [({}, refused)])
    yield _gauge("info", "Version of the daemon.", [({"version": panel.version}, 1)])
    yield from _listing(panel)
    today = spend(panel)
    yield _gauge("spend_exposure_usd", "Held and settled of today's money.", [({}, float(today["exposure_usd"]))])
    yield _gauge("spend_limit_usd", "What a day may cost.", [({}, float(panel.policy.usd_per_day))])
    yield _gauge("model_phase", "1 for the phase each model is in.", list(_phases(panel)))
    yield _gauge("cold_start_seconds", "The last measured cold start of each model.", list(_cold_starts(panel)))
    yield _gauge("failed_starts", "Failed starts in a row of each model.", list(_failures(panel)))
    rates = [({"model": alias}, _rate(panel, alias)) for alias in panel.models]
    yield _gauge("usd_per_hour", "What the living resources of each model cost, where known.", rates)
    yield from _money(panel)
    requests = [({"model": alias}, _open_requests(panel, alias)) for alias in panel.models]
    yield _gauge("open_requests", "Requests that gateways say are open.", requests)
    for shown in SHOWN:
        told = [(alias, total(panel, alias, shown)) for alias in panel.models]
        yield _gauge(
            shown.metric, shown.says, [({"model": alias}, number) for alias, number in told if number is not None]
        )


def _listing(panel: Panel) -> Iterator[Metric]:
    view, now = panel.view.value, panel.now
    complete: list[Sample] = [] if view.listing is None else [({}, float(view.listing.complete))]
    ages: list[Sample] = [] if view.completed is None else [({}, (now - view.completed.ended_at).total_seconds())]
    yield _gauge("listing_complete", "1 if the latest look at the provider's account was complete.", complete)
    yield _gauge("listing_age_seconds", "Age of the latest complete look.", ages)


def _phases(panel: Panel) -> Iterator[Sample]:
    for alias, model in panel.models.items():
        now = phase_of(panel, panel.live(alias), held=held(panel, model) is not None)
        yield from (({"model": alias, "phase": phase}, float(phase == now)) for phase in PHASES)


def _cold_starts(panel: Panel) -> Iterator[Sample]:
    for alias in panel.models:
        took = panel.book.memory(alias).cold_start
        if took is not None:
            yield {"model": alias}, took.total_seconds()


def _failures(panel: Panel) -> Iterator[Sample]:
    return (({"model": alias}, panel.book.memory(alias).failures) for alias in panel.models)


def _rate(panel: Panel, alias: str) -> float:
    return float(sum(record.usd_per_hour or 0 for record in panel.live(alias)))


def _money(panel: Panel) -> Iterator[Metric]:
    """What is not known has no sample: 0 would be read as free."""
    told = [({"model": alias}, money.of_records(panel, panel.live(alias))) for alias in panel.models]
    for part, says in (("estimated", "by rate and time"), ("billed", "by the provider's bill, which is late")):
        found = [(labels, float(sums[f"{part}_usd"])) for labels, sums in told if sums[f"{part}_usd"] is not None]
        yield _gauge(f"usd_{part}", f"What the living resources of each model have cost {says}.", found)
    today = money.of_today(panel)["billed_usd"]
    samples: list[Sample] = [] if today is None else [({}, float(today))]
    yield _gauge("spend_billed_usd", "What the provider's bill says of today so far.", samples)
    yield from _storage(panel)
    bill, now = panel.view.value.bill, panel.now
    ages: list[Sample] = (
        [] if bill is None or bill.problem is not None else [({}, (now - bill.asked_at).total_seconds())]
    )
    yield _gauge("bill_age_seconds", "Age of the latest bill, where it could be read.", ages)


def _storage(panel: Panel) -> Iterator[Metric]:
    storage = money.of_storage(panel)
    told = storage["volumes"]
    found = [
        ({"volume": volume["id"], "place": volume["place"]}, float(volume["usd_per_hour"]))
        for volume in told
        if volume["usd_per_hour"] is not None
    ]
    yield _gauge("volume_usd_per_hour", "What each volume that models name bills day and night, where known.", found)
    unknown = sum(1 for volume in told if volume["usd_per_hour"] is None)
    asked = told or storage["usd_per_hour"] is not None  # not so before the first look at them
    says = "Volumes that models name of which nobody knows what they bill."
    yield _gauge("volumes_unpriced", says, [({}, unknown)] if asked else [])


def _open_requests(panel: Panel, alias: str) -> int:
    now = panel.now
    return sum(panel.stream_leases.open_requests(record.id, now=now) for record in panel.live(alias))


def _tasks(panel: Panel) -> Iterator[Metric]:
    now = panel.clock.now()
    passes = [({"task": pulse.name}, float(pulse.passes)) for pulse in panel.pulses]
    failing = [({"task": pulse.name}, float(pulse.failures)) for pulse in panel.pulses]
    ages = [({"task": pulse.name}, (now - pulse.last_pass_at).total_seconds()) for pulse in panel.pulses]
    yield _counter("task_passes_total", "Passes that ended well.", list(passes))
    yield _gauge("task_failures", "Failed passes in a row.", failing)
    yield _gauge("task_last_pass_seconds", "Time since the last pass, good or bad.", ages)
