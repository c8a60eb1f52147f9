"""How does the API show a pod?

Every field that the v2 document requires. The environment is echoed in full in a listing too, as it was seen to be; a
reference to a secret is shown as written unless the settings say otherwise.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from controller.emulators.runpod import cpus, pods
from controller.emulators.runpod.launch import resolve
from controller.emulators.runpod.pods import Pod

if TYPE_CHECKING:
    from controller.emulators.runpod.emulator import Emulator


def pod(emulator: Emulator, shown: Pod, now: float) -> dict[str, Any]:
    settings = emulator.settings
    status = pods.status(shown, now)
    offset = settings.clock_offset_seconds
    content: dict[str, Any] = {
        "id": shown.id,
        "name": shown.name,
        "status": status,
        "actions": list(pods.ACTIONS.get(status, ("terminate",))),
        "image": shown.image,
        "args": shown.args,
        "disk": shown.disk,
        "mounts": shown.mounts,
        "ports": shown.ports,
        "env": _env(emulator, shown),
        "registry": shown.registry,
        "cloud": shown.cloud,
        "dataCenterId": shown.place,
        "cudaVersion": None if shown.gpu_id is None else "12.8",
        "template": None,
        "cost": _cost(shown, status),
        "locked": shown.locked,
        "globalNetworking": {"enabled": shown.global_network},
        "runtime": _runtime(shown, status, now, together=settings.cards_together),
        "ssh": {"proxy": None, "direct": None},
        "createdAt": in_rfc3339(shown.created_at + offset),
        "startedAt": None,
    }
    started = pods.first_started_at(shown, now, moves=settings.started_at_moves)
    if started is not None:
        content["startedAt"] = in_rfc3339(started + offset)
    if shown.cluster is not None:
        content["cluster"] = shown.cluster
    return content | _compute(shown) | _split_form(shown)


def in_rfc3339(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _env(emulator: Emulator, shown: Pod) -> dict[str, str]:
    echo = emulator.settings.echo_env
    if echo == "none":
        return {}
    return resolve(shown.env, emulator.settings.secrets) if echo == "resolved" else dict(shown.env)


def _cost(shown: Pod, status: str) -> float:
    """The price while it runs; 0 when stopped, unless a test ordered a cost (seen: EXITED with a cost, 2026-09-19)."""
    if shown.cost_shown is not None:
        return shown.cost_shown
    return 0.0 if status in (pods.EXITED, pods.TERMINATED) else round(shown.usd_per_hour, 6)


def _compute(shown: Pod) -> dict[str, Any]:
    if shown.gpu_id is None:
        return {"cpu": cpus.shown(shown.cpu or {"id": "cpu3c", "vcpuCount": 2})}
    count = max(shown.gpu_count, 1)
    return {"gpu": {"id": shown.gpu_id, "count": shown.gpu_count, "vcpuCount": 16 * count, "memory": 62 * count}}


def _split_form(shown: Pod) -> dict[str, Any]:
    both = {"entrypoint": shown.entrypoint, "cmd": shown.cmd}
    return {name: words for name, words in both.items() if words is not None}


def _runtime(shown: Pod, status: str, now: float, *, together: bool) -> dict[str, Any] | None:
    since = pods.container_since(shown, now)
    if status != pods.RUNNING or since is None:
        return None
    busy = 60 if len(shown.upstream.open) else 0
    cards = shown.gpu_count if together else min(shown.gpu_count, 1)
    return {
        "uptime": int(now - since),
        "gpus": [{"util": busy, "memoryUtil": 80} for _ in range(cards)],
        "cpu": {"util": 3},
        "memory": {"util": 12},
        "ports": [_port(shown, port) for port in shown.ports if port.split("/")[0].isdigit()],
    }


def _port(shown: Pod, port: str) -> dict[str, Any]:
    private, _, kind = port.partition("/")
    if kind == "tcp":
        return {"private": int(private), "public": 10000 + shown.number, "type": "tcp", "ip": "203.0.113.7"}
    return {"private": int(private), "public": 60000 + shown.number, "type": kind or "http", "ip": "100.64.0.7"}
