"""What do Runpod's billing records say?

About pods one record per pod and bucket, exact to the second, for what each pod cost at each moment; about network
volumes the like; about all together one per bucket. The end of the record lags behind by as much as the settings say,
and the last second is rounded up to their quantum; believing an unsettled bucket is the reader's mistake.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, Final

from controller.emulators.exchange import Answer, in_json
from controller.emulators.runpod.api_call import Ask
from controller.emulators.runpod.bodies import Refused
from controller.emulators.runpod.money import Span
from controller.emulators.runpod.network_volumes import KINDS, Volume
from controller.emulators.runpod.pods import Pod
from controller.emulators.runpod.shown import in_rfc3339

_FIXED: Final = {"hour": 3600, "day": 86_400, "week": 7 * 86_400}
_SIZES: Final = (*_FIXED, "month", "year")
_MONDAY: Final = 4 * 86_400  # 1970-01-05, the first Monday
_WINDOW_SECONDS: Final = 30 * 86_400
_MOST_BUCKETS: Final = 10_000
_POD_AMOUNTS: Final = ("gpuAmount", "cpuAmount", "diskAmount")
_VOLUME_AMOUNTS: Final = ("standardAmount", "highPerformanceAmount")
_ALL_AMOUNTS: Final = (
    "podGpuAmount",
    "podCpuAmount",
    "podDiskAmount",
    "serverlessGpuAmount",
    "serverlessCpuAmount",
    "serverlessDiskAmount",
    "serverlessFeeAmount",
    "storageStandardAmount",
    "storageHighPerformanceAmount",
    "endpointAmount",
    "clusterGpuAmount",
    "clusterDiskAmount",
    "clusterNetworkingAmount",
)

Record = dict[str, Any]


def answer_pods(ask: Ask, _: str) -> Answer:
    """One record per pod and bucket."""
    window = _asked_window(ask)
    records = _of_pods(ask, window)
    named = {"podId": ask.request.parameters().get("podId")}
    return _answered(
        window, records, _POD_AMOUNTS, named, {"uniquePodCount": len({entry["podId"] for entry in records})}
    )


def answer_volumes(ask: Ask, _: str) -> Answer:
    """One record per network volume and bucket."""
    window = _asked_window(ask)
    records = _of_volumes(ask, window)
    named = {"networkVolumeId": ask.request.parameters().get("networkVolumeId")}
    distinct = {"uniqueNetworkVolumeCount": len({entry["networkVolumeId"] for entry in records})}
    return _answered(window, records, _VOLUME_AMOUNTS, named, distinct)


def answer_all(ask: Ask, _: str) -> Answer:
    """One record per bucket, for everything that the emulator bills: pods and their disks, network volumes."""
    window = _asked_window(ask)
    found: dict[str, Record] = {}
    for kind, records in (("pod", _of_pods(ask, window)), ("storage", _of_volumes(ask, window))):
        for record in records:
            bucket = found.setdefault(record["startTime"], _empty_bucket(record))
            bucket["totalAmount"] += record["totalAmount"]
            for name in _POD_AMOUNTS if kind == "pod" else _VOLUME_AMOUNTS:
                bucket[f"{kind}{name[0].upper()}{name[1:]}"] += record[name]
    return _answered(window, [found[start] for start in sorted(found)], _ALL_AMOUNTS, {}, {})


def _empty_bucket(record: Record) -> Record:
    span = {"startTime": record["startTime"], "endTime": record["endTime"]}
    return span | dict.fromkeys(("totalAmount", *_ALL_AMOUNTS), 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What a query asks for: the buckets' borders, and their size."""

    size: str
    edges: list[float]


def _asked_window(ask: Ask) -> Window:
    query = ask.request.parameters()
    size = query.get("bucketSize", "day")
    if size not in _SIZES:
        listed = ", ".join(f"'{word}'" for word in _SIZES)
        raise Refused(422, "Request validation failed.", [f"bucketSize: value must be one of {listed}"])
    return Window(size=size, edges=_edges(query, size, ask.now))


def _answered(
    window: Window, records: list[Record], amounts: tuple[str, ...], named: Record, distinct: Record
) -> Answer:
    metadata = {
        "query": _range(window.edges[0], window.edges[-1]) | {"bucketSize": window.size} | named,
        "recordCount": len(records),
        **distinct,
        "totals": {name: sum(record[name] for record in records) for name in ("totalAmount", *amounts)},
    }
    return in_json(200, {"records": records, "metadata": metadata})


def _of_pods(ask: Ask, window: Window) -> list[Record]:
    wanted = ask.request.parameters().get("podId")
    return [
        record
        for pod in ask.emulator.pods.values()
        if pod.account == ask.account and wanted in (None, pod.id)
        for record in _pod_records(pod, window.edges, _settled(ask), ask)
    ]


def _of_volumes(ask: Ask, window: Window) -> list[Record]:
    wanted = ask.request.parameters().get("networkVolumeId")
    return [
        record
        for volume in ask.emulator.volumes.values()
        if volume.account == ask.account and wanted in (None, volume.id)
        for record in _volume_records(volume, window.edges, _settled(ask), ask)
    ]


def _settled(ask: Ask) -> float:
    return ask.now - ask.emulator.settings.billing_delay_seconds


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


def _volume_records(volume: Volume, edges: list[float], settled: float, ask: Ask) -> list[Record]:
    found = []
    spans = volume.meter.spans(ask.now)
    for start, end in pairwise(edges):
        cost = sum(_cost(span, start, min(end, settled), "disk") for span in spans)
        if cost > 0:
            standard = volume.kind == KINDS[0]
            amounts = {"standardAmount": cost if standard else 0.0, "highPerformanceAmount": 0.0 if standard else cost}
            found.append(_range(start, end) | {"networkVolumeId": volume.id, "totalAmount": cost} | amounts)
    return found


def _pod_records(pod: Pod, edges: list[float], settled: float, ask: Ask) -> list[Record]:
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


def _range(start: float, end: float) -> Record:
    return {"startTime": in_rfc3339(start), "endTime": in_rfc3339(end)}
