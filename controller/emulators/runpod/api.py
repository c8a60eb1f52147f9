"""What does Runpod's REST API answer?

The pods and the catalog of v2, as a function of the request, the emulator's state and the moment: nothing here waits.
An answer carries what it did, for the tests' record. v1 is gone and says so (410), as since 2026-11-15.
"""

from __future__ import annotations

import http
import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from controller.emulators.exchange import Answer, in_json
from controller.emulators.runpod import bodies, catalog, pods, secret_store, shown
from controller.emulators.runpod.api_call import Ask, Route
from controller.emulators.runpod.billing import answer_billing
from controller.emulators.runpod.bodies import Refused
from controller.emulators.runpod.pods import Pod

if TYPE_CHECKING:
    from controller.emulators.runpod.emulator import Emulator

_NO_CAPACITY: Final = (
    "There are no longer any instances available with the requested specifications. Please refresh and try again."
)


def respond(ask: Ask) -> Answer:
    """The whole answer, errors as problem+json."""
    try:
        if ask.request.path.startswith("/v1/") or ask.request.path == "/v1":
            raise Refused(410, "REST v1 has been retired. Use https://api.runpod.io/v2.")
        return _routed(ask)
    except Refused as refusal:
        return problem(refusal.status, refusal.detail, refusal.errors)
    except catalog.BadQuery as fault:
        return problem(400, str(fault))


def problem(status: int, detail: str, errors: list[str] | None = None) -> Answer:
    try:
        title = http.HTTPStatus(status).phrase
    except ValueError:
        title = "Error"
    content: dict[str, Any] = {"title": title, "status": status, "detail": detail}
    if errors is not None:
        content["errors"] = errors
    return in_json(status, content, kind="application/problem+json")


def find_pod(ask: Ask, pod_id: str) -> Pod:
    """Raises Refused."""
    pod = ask.emulator.readable(pod_id, ask.account, ask.now)
    if pod is None:
        raise Refused(404, "pod not found")
    return pod


def authorize(ask: Ask) -> None:
    """Raises Refused. A pod's own key reads that pod and, if the settings let it, ends it; nothing else."""
    bearer = ask.request.bearer()
    if bearer is None:
        raise Refused(401, "missing bearer token")
    owner = ask.owning_pod()
    if owner is None:
        if ask.emulator.settings.api_key not in (None, bearer):
            raise Refused(401, "invalid bearer token")
        return
    if ask.emulator.readable(owner, ask.account, ask.now) is None:
        raise Refused(401, "invalid bearer token")
    own_paths = (f"/v2/pods/{owner}", f"/v2/pods/{owner}/action")
    reads = ask.request.method == "GET"
    if ask.request.path not in own_paths or not (reads or ask.emulator.settings.injected_key_may_delete):
        raise Refused(403, "access denied")


def _routed(ask: Ask) -> Answer:
    for pattern, methods in _ROUTES:
        match = pattern.fullmatch(ask.request.path)
        if match is None:
            continue
        authorize(ask)
        route = methods.get(ask.request.method)
        if route is None:
            answer = problem(405, "method not allowed")
            return Answer(
                status=405, headers=[*answer.headers, ("allow", ", ".join(sorted(methods)))], body=answer.body
            )
        return route(ask, (match.groups() or ("",))[0])
    authorize(ask)
    raise Refused(404, "resource not found")


def _list_pods(ask: Ask, _: str) -> Answer:
    query = ask.request.parameters()
    limit = min(bodies.read_list_query(query), ask.emulator.settings.page_size)
    parameters = {name: value for name, value in query.items() if name != "cursor"}
    after = _read_cursor(query.get("cursor"), parameters)
    shown_now = ask.emulator.listed(ask.account, ask.now)
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


def _create_pod(ask: Ask, _: str) -> Answer:
    emulator = ask.emulator
    asked = bodies.read_create(ask.request.body)
    _refuse_unavailable(emulator, asked)
    cost = _hourly(emulator, asked)
    if emulator.balance(ask.now) < cost:
        raise Refused(402, "Insufficient balance.")
    pod = emulator.add_pod(asked | emulator.settings.made_otherwise | {"account": ask.account}, ask.now)
    answer = in_json(201, shown.pod(emulator, pod, ask.now))
    if ask.ignore:
        emulator.end_pod(pod, ask.now)
        del emulator.pods[pod.id]
        return answer
    return _with(answer, "created", pod)


def _refuse_unavailable(emulator: Emulator, asked: dict[str, Any]) -> None:
    gpu = asked.get("gpu")
    if gpu is not None and gpu["id"] not in catalog.BY_ID:
        raise Refused(422, "Request validation failed.", [f"$.gpu.id: unknown GPU type '{gpu['id']}'"])
    places = catalog.places_for(emulator.settings, gpu["id"] if gpu else None, asked.get("dataCenterIds") or [])
    if not places:
        raise Refused(400, _NO_CAPACITY)
    if gpu is not None and not catalog.has_stock(
        emulator.settings, gpu["id"], asked.get("cloud", "SECURE"), gpu.get("count", 1)
    ):
        raise Refused(400, _NO_CAPACITY)


def _hourly(emulator: Emulator, asked: dict[str, Any]) -> float:
    gpu = asked.get("gpu")
    if gpu is None:
        return 0.1
    return catalog.price(emulator.settings, gpu["id"], asked.get("cloud", "SECURE")) * float(gpu.get("count", 1))


def _get_pod(ask: Ask, pod_id: str) -> Answer:
    return in_json(200, shown.pod(ask.emulator, find_pod(ask, pod_id), ask.now))


def _patch_pod(ask: Ask, pod_id: str) -> Answer:
    asked = bodies.read_update(ask.request.body)
    pod = find_pod(ask, pod_id)
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


def _delete_pod(ask: Ask, pod_id: str) -> Answer:
    pod = find_pod(ask, pod_id)
    answer = Answer(status=204)
    if ask.ignore or not pod.alive:
        return answer
    ask.emulator.end_pod(pod, ask.now, shown_for=ask.emulator.settings.stop_lag_seconds)
    return _with(answer, "deleted", pod)


def _act_on_pod(ask: Ask, pod_id: str) -> Answer:
    action = bodies.read_action(ask.request.body)
    pod = find_pod(ask, pod_id)
    status = pods.status(pod, ask.now)
    if action not in pods.ACTIONS.get(status, ("terminate",)):
        raise Refused(409, f"action '{action}' is not valid for a pod that is {status}")
    if action == "terminate":
        return _delete_pod(ask, pod_id)
    if pod.locked:
        raise Refused(409, "pod is locked")
    if not ask.ignore:
        _ACTS[action](ask.emulator, pod, ask.now)
    answer = in_json(200, shown.pod(ask.emulator, pod, ask.now))
    return answer if ask.ignore else _with(answer, _EFFECTS[action], pod)


def _list_queued(_: Ask, __: str) -> Answer:
    return in_json(200, {"queuedPods": [], "pagination": {"nextCursor": None, "hasNextPage": False}})


def _list_gpus(ask: Ask, _: str) -> Answer:
    return in_json(200, {"gpus": catalog.read_gpus(ask.emulator.settings, ask.request.parameters())})


def _get_gpu(ask: Ask, gpu: str) -> Answer:
    found = catalog.read_gpu(ask.emulator.settings, gpu, ask.request.parameters())
    if found is None:
        raise Refused(404, "resource not found")
    return in_json(200, found)


def _list_places(ask: Ask, _: str) -> Answer:
    return in_json(200, {"dataCenters": catalog.read_places(ask.emulator.settings, ask.request.parameters())})


def _get_place(ask: Ask, place: str) -> Answer:
    found = catalog.read_places(ask.emulator.settings, ask.request.parameters())
    named = next((entry for entry in found if entry["id"] == place), None)
    if named is None:
        raise Refused(404, "resource not found")
    return in_json(200, named)


def _list_volumes(_: Ask, __: str) -> Answer:
    return in_json(200, {"networkVolumes": []})


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

_ROUTES: Final[list[tuple[re.Pattern[str], dict[str, Route]]]] = [
    (re.compile(r"/v2/pods"), {"GET": _list_pods, "POST": _create_pod}),
    (re.compile(r"/v2/pods/([^/]+)"), {"GET": _get_pod, "PATCH": _patch_pod, "DELETE": _delete_pod}),
    (re.compile(r"/v2/pods/([^/]+)/action"), {"POST": _act_on_pod}),
    (re.compile(r"/v2/queued-pods"), {"GET": _list_queued}),
    (re.compile(r"/v2/catalog/gpus"), {"GET": _list_gpus}),
    (re.compile(r"/v2/catalog/gpus/(.+)"), {"GET": _get_gpu}),
    (re.compile(r"/v2/catalog/datacenters"), {"GET": _list_places}),
    (re.compile(r"/v2/catalog/datacenters/([^/]+)"), {"GET": _get_place}),
    (re.compile(r"/v2/network-volumes"), {"GET": _list_volumes}),
    (re.compile(r"/v2/billing/pods"), {"GET": answer_billing}),
    (re.compile(r"/v2/account/secrets"), {"GET": secret_store.list_secrets, "POST": secret_store.create_secret}),
    (
        re.compile(r"/v2/account/secrets/([^/]+)"),
        {
            "GET": secret_store.get_secret,
            "PATCH": secret_store.change_secret,
            "DELETE": secret_store.remove_secret,
        },
    ),
]
