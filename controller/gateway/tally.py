"""How many requests ended how?

Plain numbers on the hot path; the metrics library is loaded when somebody asks for them in its format.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class Tally:
    ended: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(alias, outcome): `served`, `client_gone` or a refusal's code."""


def exposition(tally: Tally, gauges: Mapping[str, float], waiting: Mapping[str, int]) -> bytes:
    """The text that Prometheus reads."""
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

    class Snapshot:
        def collect(self) -> Iterable[Metric]:
            ended = CounterMetricFamily(
                "gpuwarden_gateway_requests", "requests by how they ended", labels=["model", "outcome"]
            )
            for labels, count in tally.ended.items():
                ended.add_metric(labels, count)
            yield ended
            queued = GaugeMetricFamily(
                "gpuwarden_gateway_waiting", "callers waiting for a cold model", labels=["model"]
            )
            for alias, count in waiting.items():
                queued.add_metric([alias], count)
            yield queued
            for name, value in gauges.items():
                yield GaugeMetricFamily(f"gpuwarden_gateway_{name}", name.replace("_", " "), value=value)

    registry = CollectorRegistry()
    registry.register(Snapshot())
    return generate_latest(registry)
