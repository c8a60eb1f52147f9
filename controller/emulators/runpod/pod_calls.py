"""What does Runpod's REST API answer about pods?

Pods are listed, made, read, changed, acted on and deleted, as a function of the request, the emulator's state and the
moment: nothing here waits. An answer carries what it did, for the tests' record.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from controller.emulators.exchange import Answer, in_json
from controller.emulators.runpod import (
    bodies,
    catalog,
    control,
    cpus,
    network_volumes,
    pods,
    prices,
    queued_pods,
    shown,
)
from controller.emulators.runpod.api_call import Ask
from controller.emulators.runpod.bodies import Refused
from controller.emulators.runpod.pods import Pod

if TYPE_CHECKING:
    from controller.emulators.runpod.emulator import Emulator

_NO_CAPACITY: Final = (
    "There are no longer any instances available with the requested specifications. Please refresh and try again."
)


def find_pod(ask: Ask, pod_id: str) -> Pod:
    """Raises Refused."""
    pod = ask.emulator.readable(pod_id, ask.account, ask.now)
    if pod is None:
        raise Refused(404, "pod not found")
    return pod


def _find_own(ask: Ask, pod_id: str) -> Pod:
    """One that may be changed by itself. Raises Refused."""
    pod = find_pod(ask, pod_id)
    if pod.cluster is not None:
        raise Refused(409, f"pod belongs to cluster {pod.cluster['id']}")
    return pod


def list_pods(ask: Ask, _: str) -> Answer:
    query = ask.request.parameters()
    limit = min(bodies.read_list_query(query), ask.emulator.settings.page_size)
    parameters = {name: value for name, value in query.items() if name != "cursor"}
    after = _read_cursor(query.get("cursor"), parameters)
    members_too = query.get("includeClusterPods") == "true"
    shown_now = [pod for pod in ask.emulator.listed(ask.account, ask.now) if members_too or pod.cluster is None]
    found = [pod for pod in shown_now if after is None or (pod.created_at, pod.number) < after]
    page, more = found[:limit], len(found) > limit
    cursor = _write_cursor(page[-1], parameters) if more else None
    entries = [shown.pod(ask.emulator, pod, ask.now) for pod in page if pod.id not in ask.omit]
    content = {
        "pods": [entry for entry in entries for _ in range(2 if ask.twice else 1)],
        "pagination": {"nextCursor": cursor, "hasNextPage": more},
    }
    return in_json(200, content)


def _write_cursor(last: Pod, parameters: dict[str, str]) -> str:
    return json.dumps(["pods", parameters, last.created_at, last.number]).encode().hex()


def _read_cursor(cursor: str | None, parameters: dict[str, str]) -> tuple[float, int] | None:
    """Where the page begins. A cursor is good only for the call and the parameters that it came from."""
    if cursor is None:
        return None
    try:
        operation, own, created_at, position = json.loads(bytes.fromhex(cursor))
    except (ValueError, TypeError):
        raise Refused(422, "Request validation failed.", ["cursor: invalid cursor"]) from None
    if operation != "pods" or own != parameters:
        raise Refused(422, "Request validation failed.", ["cursor: issued for other parameters"])
    return created_at, position


def create_pod(ask: Ask, _: str) -> Answer:
    asked = bodies.read_create(ask.request.body)
    if ask.queued is not None:
        return queued_pods.queue_create(ask, asked, after=ask.queued)
    pod = make_pod(ask, asked)
    answer = in_json(201, shown.pod(ask.emulator, pod, ask.now))
    return answer if ask.ignore else _with(answer, "created", pod)


def make_pod(ask: Ask, asked: dict[str, Any]) -> Pod:
    """Of a body that was found right; `ignore`: one that is gone as soon as it is shown. Raises Refused."""
    emulator = ask.emulator
    _refuse_unavailable(ask, asked)
    if emulator.balance(ask.now) < prices.hourly(emulator.settings, asked):
        raise Refused(402, "Insufficient balance.")
    pod = emulator.add_pod(asked | emulator.settings.made_otherwise | {"account": ask.account}, ask.now)
    if (befalls := ask.emulator.settings.bad_places.get(pod.place or "")) is not None:
        control.change_pod(ask.emulator, pod.id, befalls, ask.now)
    if ask.ignore:
        emulator.end_pod(pod, ask.now)
        del emulator.pods[pod.id]
    return pod


def _refuse_unavailable(ask: Ask, asked: dict[str, Any]) -> None:
    settings, gpu, cpu = ask.emulator.settings, asked.get("gpu"), asked.get("cpu")
    if gpu is not None and gpu["id"] not in catalog.BY_ID:
        raise Refused(422, "Request validation failed.", [f"$.gpu.id: unknown GPU type '{gpu['id']}'"])
    if cpu is not None and cpu["id"] not in cpus.BY_ID:
        raise Refused(422, "Request validation failed.", [f"$.cpu.id: unknown CPU flavor '{cpu['id']}'"])
    places = catalog.places_for(settings, gpu["id"] if gpu else None, asked.get("dataCenterIds") or [])
    volumes = network_volumes.mounted(ask.emulator, asked.get("mounts", {}), ask.account)
    if not places or any(volume.place not in places for volume in volumes):
        raise Refused(400, _NO_CAPACITY)
    count = gpu.get("count", 1) if gpu else 0
    if gpu is not None and not catalog.has_stock(settings, gpu["id"], asked.get("cloud", "SECURE"), count):
        raise Refused(400, _NO_CAPACITY)


def get_pod(ask: Ask, pod_id: str) -> Answer:
    return in_json(200, shown.pod(ask.emulator, find_pod(ask, pod_id), ask.now))


def patch_pod(ask: Ask, pod_id: str) -> Answer:
    asked = bodies.read_update(ask.request.body)
    pod = _find_own(ask, pod_id)
    mounts = asked.pop("mounts", {})
    if set(mounts) - set(pod.mounts):
        raise Refused(400, "mount kind cannot be changed")
    if ask.ignore:
        return in_json(200, shown.pod(ask.emulator, pod, ask.now))
    pod.mounts = pod.mounts | mounts
    pod.global_network = asked.pop("globalNetworking", pod.global_network)
    for name, value in asked.items():
        setattr(pod, name, value)
    if {"image", "args", "cmd", "entrypoint", "env", "ports", "disk"} & set(asked) and pod.alive:
        pods.restart_container(pod, ask.now)
    ask.emulator.rebill(pod, ask.now)
    return _with(in_json(200, shown.pod(ask.emulator, pod, ask.now)), "changed", pod)


def delete_pod(ask: Ask, pod_id: str) -> Answer:
    pod = _find_own(ask, pod_id)
    answer = Answer(status=204)
    if ask.ignore or not pod.alive:
        return answer
    ask.emulator.end_pod(pod, ask.now, shown_for=ask.emulator.settings.stop_lag_seconds)
    return _with(answer, "deleted", pod)


def act_on_pod(ask: Ask, pod_id: str) -> Answer:
    action = bodies.read_action(ask.request.body)
    pod = _find_own(ask, pod_id)
    status = pods.status(pod, ask.now)
    if action not in pods.ACTIONS.get(status, ("terminate",)):
        raise Refused(409, f"action '{action}' is not valid for a pod that is {status}")
    if action == "terminate":
        return delete_pod(ask, pod_id)
    if pod.locked:
        raise Refused(409, "pod is locked")
    if not ask.ignore:
        _ACTS[action](ask.emulator, pod, ask.now)
    answer = in_json(200, shown.pod(ask.emulator, pod, ask.now))
    return answer if ask.ignore else _with(answer, _EFFECTS[action], pod)


def _with(answer: Answer, effect: str, pod: Pod) -> Answer:
    return Answer(status=answer.status, headers=answer.headers, body=answer.body, effect=effect, pod=pod.id)


def _restart(_: Emulator, pod: Pod, now: float) -> None:
    pods.restart_container(pod, now)


def _start(emulator: Emulator, pod: Pod, now: float) -> None:
    emulator.start_pod(pod, now)


def _stop(emulator: Emulator, pod: Pod, now: float) -> None:
    emulator.stop_pod(pod, now)


_ACTS: Final[dict[str, Callable[[Emulator, Pod, float], None]]] = {"start": _start, "stop": _stop, "restart": _restart}
_EFFECTS: Final = {"start": "started", "stop": "stopped", "restart": "restarted"}
