"""What do Runpod's billing records say about pods?

One record per pod and bucket, exact to the second, for what each pod cost at each moment. The end of the record lags
behind by as much as the settings say, and the last second is rounded up to their quantum; believing an unsettled
bucket is the reader's mistake.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, Final

from controller.emulators.exchange import Answer, in_json
from controller.emulators.runpod.api_call import Ask
from controller.emulators.runpod.bodies import Refused
from controller.emulators.runpod.money import Span
from controller.emulators.runpod.pods import Pod
from controller.emulators.runpod.shown import in_rfc3339

_FIXED: Final = {"hour": 3600, "day": 86_400, "week": 7 * 86_400}
_SIZES: Final = (*_FIXED, "month", "year")
_MONDAY: Final = 4 * 86_400  # 1970-01-05, the first Monday
_WINDOW_SECONDS: Final = 30 * 86_400
_MOST_BUCKETS: Final = 10_000
_AMOUNTS: Final = ("totalAmount", "gpuAmount", "cpuAmount", "diskAmount")


def answer_billing(ask: Ask, _: str) -> Answer:
    query = ask.request.parameters()
    size = query.get("bucketSize", "day")
    if size not in _SIZES:
        listed = ", ".join(f"'{word}'" for word in _SIZES)
        raise Refused(422, "Request validation failed.", [f"bucketSize: value must be one of {listed}"])
    edges = _edges(query, size, ask.now)
    settled = ask.now - ask.emulator.settings.billing_delay_seconds
    records = [
        record
        for pod in ask.emulator.pods.values()
        if pod.account == ask.account and query.get("podId") in (None, pod.id)
        for record in _records(pod, edges, settled, ask)
    ]
    metadata = {
        "query": _range(edges[0], edges[-1]) | {"bucketSize": size, "podId": query.get("podId")},
        "recordCount": len(records),
        "uniquePodCount": len({record["podId"] for record in records}),
        "totals": {name: sum(record[name] for record in records) for name in _AMOUNTS},
    }
    return in_json(200, {"records": records, "metadata": metadata})


def _edges(query: dict[str, str], size: str, now: float) -> list[float]:
    """The buckets' borders: the first snapped down, the last snapped up."""
    if "lastN" in query:
        if "startTime" in query or "endTime" in query:
            raise Refused(400, "lastN and startTime/endTime are mutually exclusive")
        return _last(query["lastN"], size, now)
    end = _moment(query, "endTime", now)
    edges = [_floor(_moment(query, "startTime", end - _WINDOW_SECONDS), size)]
    while edges[-1] < end or len(edges) == 1:
        edges.append(_next(edges[-1], size))
        if len(edges) > _MOST_BUCKETS:
            raise Refused(400, "the window holds too many buckets")
    return edges


def _last(count: str, size: str, now: float) -> list[float]:
    if not count.isdigit() or not 1 <= int(count) <= _MOST_BUCKETS:
        raise Refused(422, "Request validation failed.", ["lastN: value must be at least 1"])
    edges = [_next(_floor(now, size), size)]
    for _ in range(int(count)):
        edges.insert(0, _floor(edges[0] - 1, size))
    return edges


def _moment(query: dict[str, str], name: str, default: float) -> float:
    if name not in query:
        return default
    try:
        moment = datetime.fromisoformat(query[name])
    except ValueError:
        raise Refused(422, "Request validation failed.", [f"{name}: must be a date-time"]) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _floor(at: float, size: str) -> float:
    if size in _FIXED:
        origin = _MONDAY if size == "week" else 0
        return at - (at - origin) % _FIXED[size]
    month = datetime.fromtimestamp(at, UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return (month if size == "month" else month.replace(month=1)).timestamp()


def _next(edge: float, size: str) -> float:
    if size in _FIXED:
        return edge + _FIXED[size]
    return _floor(
        (datetime.fromtimestamp(edge, UTC) + timedelta(days=32 if size == "month" else 367)).timestamp(), size
    )


def _records(pod: Pod, edges: list[float], settled: float, ask: Ask) -> list[dict[str, Any]]:
    spans = _rounded(pod.meter.spans(ask.now), ask.emulator.settings.billing_quantum_seconds, ended=not pod.alive)
    found = []
    for start, end in pairwise(edges):
        compute, disk = (sum(_cost(span, start, min(end, settled), kind) for span in spans) for kind in ("gpu", "disk"))
        if compute + disk > 0:
            amounts = {"totalAmount": compute + disk, "gpuAmount": compute, "cpuAmount": 0.0, "diskAmount": disk}
            if pod.gpu_id is None:
                amounts |= {"gpuAmount": 0.0, "cpuAmount": compute}
            found.append(_range(start, end) | {"podId": pod.id} | amounts)
    return found


def _rounded(spans: list[Span], quantum: float, *, ended: bool) -> list[Span]:
    """The last span that counts, drawn out until the whole fills its quanta."""
    counted = [span for span in spans if span.rate.counts]
    seconds = sum(span.end - span.start for span in counted)
    if quantum <= 0 or not ended or not counted:
        return spans
    last = counted[-1]
    more = math.ceil(seconds / quantum) * quantum - seconds
    return [*spans, Span(start=last.end, end=last.end + more, rate=last.rate)]


def _cost(span: Span, start: float, end: float, kind: str) -> float:
    overlap = max(0.0, min(span.end, end) - max(span.start, start))
    return overlap * (span.rate.gpu if kind == "gpu" else span.rate.disk)


def _range(start: float, end: float) -> dict[str, Any]:
    return {"startTime": in_rfc3339(start), "endTime": in_rfc3339(end)}
