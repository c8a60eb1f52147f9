"""How do the counts look to Prometheus?

The metrics library is loaded when somebody asks. Times are in seconds and sizes in bytes, as its conventions want;
labels are aliases, wires, outcomes and clients' names, none of which grows without bound.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from controller.gateway.tally import Histogram, Numbers, Tally

if TYPE_CHECKING:
    from prometheus_client.core import Metric

Labels = tuple[str, ...]

PREFIX = "gpuwarden_gateway_"
HISTOGRAMS: Mapping[str, tuple[Callable[[Numbers], Histogram], str]] = {
    "wait_seconds": (lambda numbers: numbers.waits, "How long callers waited for a cold model that then served them."),
    "first_byte_seconds": (
        lambda numbers: numbers.first_bytes,
        "From a machine's taking a request to the first byte of its answer.",
    ),
    "stream_gap_seconds": (
        lambda numbers: numbers.gaps,
        "Between two pieces of a streamed answer, each of one token or a few.",
    ),
    "request_duration_seconds": (
        lambda numbers: numbers.durations,
        "From the request to the end of its answer, however it ended, waiting included.",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What is true when somebody asks."""

    open_requests: Mapping[str, int]
    """At machines, by alias."""
    waiting: Mapping[str, int]
    upstream_answers: int
    daemon_reachable: bool
    usd_today: Mapping[str, float] = field(default_factory=dict)
    """By client with a budget."""


def exposition(tally: Tally, moment: Moment) -> bytes:
    """The text that Prometheus reads."""
    from prometheus_client import CollectorRegistry, generate_latest

    class Snapshot:
        def collect(self) -> "Iterable[Metric]":
            yield from _counters(tally)
            yield from _histograms(tally)
            yield from _gauges(moment)

    registry = CollectorRegistry()
    registry.register(Snapshot())
    return generate_latest(registry)


def _counters(tally: Tally) -> "Iterator[Metric]":
    models = tally.models.items()
    yield _counter(
        "requests",
        "Requests by how they ended.",
        ("model", "wire", "outcome"),
        (((alias, *how), count) for alias, numbers in models for how, count in numbers.ended.items()),
    )
    yield _counter(
        "aborted_streams",
        "Streams that began and did not end as whole answers, by whose doing it was: client, upstream, gateway.",
        ("model", "by"),
        (((alias, by), count) for alias, numbers in models for by, count in numbers.aborted.items()),
    )
    yield _counter(
        "upstream_failures",
        "What was seen to go wrong with model servers.",
        ("model", "kind"),
        (((alias, kind), count) for alias, numbers in models for kind, count in numbers.failures.items()),
    )
    taken = {(alias,): numbers.bytes_in for alias, numbers in models if alias}
    yield _counter("request_bytes", "Bytes of requests that were admitted.", ("model",), taken.items())
    given = {(alias,): numbers.bytes_out for alias, numbers in models if alias}
    yield _counter("response_bytes", "Bytes of answers from models.", ("model",), given.items())
    yield _counter(
        "client_requests",
        "Requests of each client: served, refused, client_gone.",
        ("client", "outcome"),
        (((name, how), count) for name, counts in tally.clients.items() for how, count in counts.items()),
    )
    yield _counter(
        "client_limited",
        "Requests refused by what was agreed with their client.",
        ("client", "limit"),
        tally.limited.items(),
    )


def _counter(name: str, says: str, labels: Labels, counts: Iterable[tuple[Labels, int]]) -> "Metric":
    from prometheus_client.core import CounterMetricFamily

    found = CounterMetricFamily(PREFIX + name, says, labels=labels)
    for values, count in counts:
        found.add_metric(values, count)
    return found


def _histograms(tally: Tally) -> "Iterator[Metric]":
    from prometheus_client.core import HistogramMetricFamily

    for name, (of, says) in HISTOGRAMS.items():
        found = HistogramMetricFamily(PREFIX + name, says, labels=("model",))
        for alias, numbers in tally.models.items():
            if alias:
                found.add_metric((alias,), _cumulated(of(numbers)), of(numbers).total)
        yield found


def _cumulated(histogram: Histogram) -> list[tuple[str, float]]:
    rising = 0
    found: list[tuple[str, float]] = []
    for bound, count in zip((*map(str, histogram.bounds), "+Inf"), histogram.counts, strict=True):
        rising += count
        found.append((bound, float(rising)))
    return found


def _gauges(moment: Moment) -> "Iterator[Metric]":
    from prometheus_client.core import GaugeMetricFamily

    for name, says, label, values in (
        ("open_requests", "Requests that machines are at work on.", "model", moment.open_requests),
        ("waiting", "Callers that wait for a cold model.", "model", moment.waiting),
        ("client_usd_today", "What a client with a budget has spent since midnight UTC.", "client", moment.usd_today),
    ):
        found = GaugeMetricFamily(PREFIX + name, says, labels=(label,))
        for of, value in values.items():
            found.add_metric((of,), value)
        yield found
    yield GaugeMetricFamily(
        f"{PREFIX}open_upstream_answers", "Answers of model servers that are not closed.", value=moment.upstream_answers
    )
    yield GaugeMetricFamily(
        f"{PREFIX}daemon_reachable", "1 while the daemon answers.", value=float(moment.daemon_reachable)
    )
