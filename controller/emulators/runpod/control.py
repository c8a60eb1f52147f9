"""What may tests see of the truth, and what may they make happen to a pod?

The rules behind `/_emulator`, the same for a caller in process. Input that names something unknown or has the wrong
shape is refused as a whole, naming the key.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from controller.emulators.runpod import network_volumes, pods, queued_pods
from controller.emulators.runpod.orders import read_orders, take_orders
from controller.emulators.runpod.pods import Pod
from controller.emulators.runpod.reading import (
    BadControl,
    flag,
    not_negative,
    number,
    table,
    text,
    texts,
    whole,
    word_of,
)

if TYPE_CHECKING:
    from controller.emulators.runpod.emulator import Emulator

_STATUS: Final = re.compile(r"[A-Z_]+")


def truth(emulator: Emulator, now: float) -> dict[str, Any]:
    return {
        "now": now,
        "balance": emulator.balance(now),
        "pods": [pod_truth(emulator, pod, now) for pod in emulator.pods.values()],
        "volumes": [volume.shown() | {"deleted_at": volume.ended_at} for volume in emulator.volumes.values()],
        "queued": [
            {"id": entry.id, "name": entry.name, "status": entry.state, "pod": entry.pod}
            for entry in emulator.queued.values()
        ],
        "calls": [
            {
                "at": call.at,
                "method": call.method,
                "path": call.path,
                "status": call.status,
                "effect": call.effect,
                "pod": call.pod,
                "body": call.body,
            }
            for call in emulator.calls
        ],
    }


def pod_truth(emulator: Emulator, pod: Pod, now: float) -> dict[str, Any]:
    seconds, usd = pod.meter.read(now, quantum=emulator.settings.billing_quantum_seconds)
    return {
        "id": pod.id,
        "name": pod.name,
        "account": pod.account,
        "status": pods.TERMINATED if not pod.alive else pods.status(pod, now),
        "env": dict(pod.env),
        "gpu": None if pod.gpu_id is None else {"id": pod.gpu_id, "count": pod.gpu_count},
        "created_at": pod.created_at,
        "deleted_at": pod.ended_at,
        "billed_seconds": seconds,
        "billed_usd": usd,
        "upstream": {
            "running": len(pod.upstream.open),
            "aborted": pod.upstream.aborted,
            "requests": pod.upstream.requests,
        },
    }


def put_pod(emulator: Emulator, given: dict[str, Any], now: float) -> str:
    read = _read_all(_PUT, given)
    if read.get("id") in emulator.pods:
        raise BadControl(key="id", why="there is such a pod already")
    gpu = read.get("gpu", {"id": "NVIDIA A40", "count": 1})
    asked = {"name": "put-by-a-test", "image": "example/image:1", "ports": ["8000/http"], "gpu": gpu} | read
    pod = emulator.add_pod(asked, now, lags=False)
    if "created_at" in read:
        _age(pod, read["created_at"])
    later: dict[str, Any] = {
        key: read[key] for key in ("status", "cost", "upstream", "gpu_count", "log") if key in read
    }
    change_pod(emulator, pod.id, later, now)
    return pod.id


def put_volume(emulator: Emulator, given: dict[str, Any], now: float) -> str:
    read = _read_all(_PUT_VOLUME, given)
    for key in ("name", "size", "dataCenter"):
        if key not in read:
            raise BadControl(key=key, why="must be given")
    return network_volumes.put_volume(emulator, read, read.get("account", emulator.settings.account), now).id


def put_queued(emulator: Emulator, given: dict[str, Any], now: float) -> str:
    return queued_pods.put_queued(emulator, {"name": "queued-by-a-test"} | _read_all(_PUT_QUEUED, given), now)


def _read_all(known: dict[str, Callable[[str, object], Any]], given: dict[str, Any]) -> dict[str, Any]:
    for key in given:
        if key not in known:
            raise BadControl(key=key, why="there is no such key")
    return {key: known[key](key, value) for key, value in given.items() if value is not None}


def change_pod(emulator: Emulator, pod_id: str, change: dict[str, Any], now: float) -> str:
    pod = emulator.pods.get(pod_id)
    if pod is None:
        raise BadControl(key="id", why="there is no such pod")
    for key in change:
        if key not in _CHANGES:
            raise BadControl(key=key, why="there is no such key")
    read = {key: _CHANGES[key][0](key, value) for key, value in change.items()}
    for key, value in read.items():
        _CHANGES[key][1](emulator, pod, value, now)
    if read.get("migrate"):
        return _migrate(emulator, pod, now)
    emulator.rebill(pod, now)
    return pod.id


def _age(pod: Pod, created_at: float) -> None:
    pod.created_at = min(created_at, pod.meter.since)
    pod.meter.backdate(pod.created_at)
    pod.boot.at = pod.created_at
    pod.listed_from = pod.readable_from = pod.created_at


def _set_status(emulator: Emulator, pod: Pod, word: str, now: float) -> None:
    if pod.stated == pods.EXITED and word == pods.RUNNING:
        emulator.start_pod(pod, now)
    pod.stated = word
    if word == pods.RUNNING:
        # Said to run means that it runs: the container is there from now on, if it was not before.
        pod.boot.boot_seconds = min(pod.boot.boot_seconds, max(0.0, now - pod.boot.at))
    else:
        pod.upstream.open.cut()
    if word == pods.TERMINATED:
        emulator.end_pod(pod, now, shown_for=math.inf)


def _set_env(_: Emulator, pod: Pod, env: dict[str, str], __: float) -> None:
    pod.env = env


def _set_gpu_count(_: Emulator, pod: Pod, count: int, __: float) -> None:
    pod.gpu_count = count


def _set_cost(_: Emulator, pod: Pod, usd_per_hour: float, __: float) -> None:
    pod.usd_per_hour = pod.cost_shown = usd_per_hour


def _vanish(emulator: Emulator, pod: Pod, wanted: bool, now: float) -> None:
    if wanted:
        emulator.end_pod(pod, now)


def _set_bills_on(_: Emulator, pod: Pod, wanted: bool, __: float) -> None:
    pod.bills_on = wanted


def _restart(_: Emulator, pod: Pod, wanted: bool, now: float) -> None:
    if wanted:
        pods.restart_container(pod, now)


def _add_log(_: Emulator, pod: Pod, lines: list[str], now: float) -> None:
    pod.log += [(now, "container", line) for line in lines]


def _migrate(emulator: Emulator, pod: Pod, now: float) -> str:
    """The provider moves the pod: the same name and environment under a new id, the old one gone."""
    asked = {
        "name": pod.name,
        "image": pod.image,
        "account": pod.account,
        "gpu": {"id": pod.gpu_id, "count": pod.gpu_count},
        "cloud": pod.cloud,
        "disk": pod.disk,
        "mounts": pod.mounts,
        "ports": pod.ports,
        "env": pod.env,
        "args": pod.args,
        "entrypoint": pod.entrypoint,
        "cmd": pod.cmd,
    }
    emulator.end_pod(pod, now)
    moved = emulator.add_pod(asked, now, lags=False)
    moved.usd_per_hour, moved.cost_shown = pod.usd_per_hour, pod.cost_shown
    moved.created_at = pod.created_at
    emulator.rebill(moved, now)
    return moved.id


def _status_word(key: str, value: object) -> str:
    """Any word in capitals: a client must cope with those it does not know."""
    if not isinstance(value, str) or not _STATUS.fullmatch(value):
        raise BadControl(key=key, why="must be a word in capitals")
    return value


def _lines(key: str, value: object) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(line, str) for line in value):
        raise BadControl(key=key, why="must be a list of texts")
    return value


def _gpu(key: str, value: object) -> dict[str, Any]:
    if isinstance(value, str):
        return {"id": value, "count": 1}
    read = table(key, value)
    return {"id": text(f"{key}.id", read.get("id")), "count": whole(f"{key}.count", read.get("count", 1))}


_CHANGES: Final[dict[str, tuple[Callable[[str, object], Any], Callable[[Emulator, Pod, Any, float], None]]]] = {
    "status": (_status_word, _set_status),
    "env": (texts, _set_env),
    "gpu_count": (whole, _set_gpu_count),
    "cost": (not_negative, _set_cost),
    "bills_on": (flag, _set_bills_on),
    "vanish": (flag, _vanish),
    "migrate": (flag, lambda *_: None),
    "restart": (flag, _restart),
    "log": (_lines, _add_log),
    "upstream": (read_orders, lambda _, pod, orders, now: take_orders(pod, orders, now)),
}

_PUT: Final[dict[str, Callable[[str, object], Any]]] = {
    "id": text,
    "account": text,
    "name": text,
    "image": text,
    "gpu": _gpu,
    "cloud": word_of(("SECURE", "COMMUNITY")),
    "disk": whole,
    "mounts": table,
    "ports": _lines,
    "env": texts,
    "args": text,
    "entrypoint": _lines,
    "cmd": _lines,
    "cluster": table,
    "created_at": number,
    "status": _status_word,
    "cost": not_negative,
    "gpu_count": whole,
    "log": _lines,
    "upstream": read_orders,
}

_PUT_VOLUME: Final[dict[str, Callable[[str, object], Any]]] = {
    "id": text,
    "account": text,
    "name": text,
    "size": whole,
    "dataCenter": text,
    "type": word_of(network_volumes.KINDS),
}

_PUT_QUEUED: Final[dict[str, Callable[[str, object], Any]]] = {
    "id": text,
    "account": text,
    "name": text,
    "nameless": flag,
    "image": text,
    "args": text,
    "entrypoint": _lines,
    "cmd": _lines,
    "env": texts,
    "gpu": _gpu,
    "cloud": word_of(("SECURE", "COMMUNITY")),
    "disk": whole,
    "mounts": table,
    "ports": _lines,
    "state": word_of(queued_pods.STATES),
    "failure": text,
    "expires_in_seconds": not_negative,
    "deploys_in_seconds": not_negative,
}
