"""What does Runpod's old GraphQL door still answer?

The account with its balance, which v2 does not show; pods and GPU types as Runpod's Python package and its MCP server
ask for them; and what that package does to pods. Errors come with status 200, as they do there, but for a wrong key.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from controller.emulators.exchange import Answer, in_json
from controller.emulators.runpod import api, catalog, pod_calls, pods
from controller.emulators.runpod.api_call import Ask
from controller.emulators.runpod.bodies import Refused
from controller.emulators.runpod.graphql_reading import Unreadable, Wanted, read_operation
from controller.emulators.runpod.old_shapes import Shown, gpu_type, pick, pod_shape, pod_wanted

_SPEND_LIMIT_USD: Final = 80
_TROUBLE: Final = "Something went wrong. Please try again later or contact support."
_INPUT: Final = "input"


class _Done:
    """What the fields of a mutation did, for the tests' record."""

    def __init__(self) -> None:
        self.effect = "none"
        self.pod: str | None = None

    def note(self, effect: str, pod: str) -> None:
        self.effect, self.pod = effect, pod


def answer_graphql(ask: Ask) -> Answer:
    if ask.request.method != "POST":
        return api.problem(405, "method not allowed")
    if _key(ask) is not None and not _is_known(ask):
        return api.problem(401, "invalid bearer token")
    done = _Done()
    try:
        operation = read_operation(str(json.loads(ask.request.body)["query"]))
        doors = _QUERIES if operation.kind == "query" else _MUTATIONS
        data = {wanted.name: _open(doors, ask, wanted, done) for wanted in operation.fields}
    except (ValueError, KeyError, TypeError):
        return api.problem(400, "request could not be processed")
    except (Unreadable, Refused) as refusal:
        return in_json(200, {"errors": [{"message": getattr(refusal, "detail", str(refusal))}], "data": None})
    answer = in_json(200, {"data": data})
    return Answer(status=200, headers=answer.headers, body=answer.body, effect=done.effect, pod=done.pod)


def _key(ask: Ask) -> str | None:
    return ask.request.bearer() or ask.request.parameters().get("api_key")


def _is_known(ask: Ask) -> bool:
    owner = ask.emulator.owner_of(_key(ask) or "")
    if owner is not None:
        return ask.emulator.readable(owner, ask.account, ask.now) is not None
    return ask.emulator.settings.api_key in (None, _key(ask))


def _open(doors: dict[str, Any], ask: Ask, wanted: Wanted, done: _Done) -> object:
    door = doors.get(wanted.name)
    if door is None:
        raise Unreadable(f'Cannot query field "{wanted.name}".')
    if wanted.name != "gpuTypes" and not _may(ask, wanted):
        raise Refused(403, "access denied")
    found: object = door(ask, wanted, done)
    return found


def _may(ask: Ask, wanted: Wanted) -> bool:
    """A pod's own key ends that pod, if the settings let it, and reads nothing of the account."""
    owner = ask.emulator.owner_of(_key(ask) or "")
    if owner is None:
        return True
    ends = wanted.name in ("podStop", "podTerminate") and ask.emulator.settings.injected_key_may_delete
    return ends and _pod_id(wanted) == owner


def _myself(ask: Ask, wanted: Wanted, _: _Done) -> object:
    if _key(ask) is None:
        return None
    emulator = ask.emulator
    living = [pod for pod in emulator.listed(ask.account, ask.now) if pod.cluster is None]
    shown: Shown = {
        "id": f"user_{ask.account}",
        "clientBalance": lambda _: round(emulator.balance(ask.now), 6),
        "currentSpendPerHr": lambda _: round(emulator.spend_per_hour(), 6),
        "spendLimit": _SPEND_LIMIT_USD,
        "pubKey": None,
        "pods": lambda fields: [pick(pod_shape(emulator, pod, ask.now), fields) for pod in living],
        "networkVolumes": lambda fields: [
            pick(dict(volume.shown()) | {"dataCenterId": volume.place}, fields)
            for volume in emulator.volumes.values()
            if volume.account == ask.account and volume.ended_at is None
        ],
    }
    return pick(shown, wanted.fields)


def _pod(ask: Ask, wanted: Wanted, _: _Done) -> object:
    pod = ask.emulator.readable(_pod_id(wanted), ask.account, ask.now)
    return None if pod is None else pick(pod_shape(ask.emulator, pod, ask.now), wanted.fields)


def _gpu_types(ask: Ask, wanted: Wanted, _: _Done) -> object:
    asked = wanted.arguments.get(_INPUT, {}).get("id")
    found = [gpu for gpu in catalog.GPUS if asked in (None, gpu.id)]
    return [pick(gpu_type(ask.emulator.settings, gpu), wanted.fields) for gpu in found]


def _stop(ask: Ask, wanted: Wanted, done: _Done) -> object:
    pod = _find(ask, wanted, "stop")
    if not ask.ignore:
        ask.emulator.stop_pod(pod, ask.now)
        done.note("stopped", pod.id)
    return pick(pod_shape(ask.emulator, pod, ask.now), wanted.fields)


def _resume(ask: Ask, wanted: Wanted, done: _Done) -> object:
    pod = _find(ask, wanted, "resume")
    if not ask.ignore:
        ask.emulator.start_pod(pod, ask.now)
        done.note("started", pod.id)
    return pick(pod_shape(ask.emulator, pod, ask.now), wanted.fields)


def _terminate(ask: Ask, wanted: Wanted, done: _Done) -> object:
    pod = _find(ask, wanted, "terminate")
    if not ask.ignore:
        ask.emulator.end_pod(pod, ask.now, shown_for=ask.emulator.settings.stop_lag_seconds)
        done.note("deleted", pod.id)
    return None


def _deploy(ask: Ask, wanted: Wanted, done: _Done) -> object:
    pod = pod_calls.make_pod(ask, pod_wanted(wanted.arguments[_INPUT]))
    if not ask.ignore:
        done.note("created", pod.id)
    return pick(pod_shape(ask.emulator, pod, ask.now), wanted.fields)


def _find(ask: Ask, wanted: Wanted, verb: str) -> pods.Pod:
    pod = ask.emulator.readable(_pod_id(wanted), ask.account, ask.now)
    if pod is None or not pod.alive:
        raise Refused(404, f"pod not found to {verb}")
    return pod


def _pod_id(wanted: Wanted) -> str:
    return str(wanted.arguments[_INPUT]["podId"])


_Door = Callable[[Ask, Wanted, _Done], object]
_QUERIES: Final[dict[str, _Door]] = {"myself": _myself, "pod": _pod, "gpuTypes": _gpu_types}
_MUTATIONS: Final[dict[str, _Door]] = {
    "podStop": _stop,
    "podResume": _resume,
    "podTerminate": _terminate,
    "podFindAndDeployOnDemand": _deploy,
    "deployCpuPod": _deploy,
}
