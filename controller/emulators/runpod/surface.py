"""How do tests reach the emulator's own controls over HTTP?

`/_emulator/truth`, `faults`, `settings`, `pods`, `volumes` and `queued-pods`, from this machine only. The rules are in
`control` and `faults`; here they get a path. Bad input is 422, and the key at fault is named.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any, Final

from controller.emulators.exchange import Answer, Request, in_json
from controller.emulators.runpod.api import problem
from controller.emulators.runpod.control import pod_truth
from controller.emulators.runpod.emulator import Emulator
from controller.emulators.runpod.reading import BadControl, table

PREFIX: Final = "/_emulator"
_LOOPBACK: Final = (None, "::1", "localhost", "testclient")


def control_answer(emulator: Emulator, request: Request) -> Answer:
    if request.client not in _LOOPBACK and not (request.client or "").startswith("127."):
        return problem(403, "from this machine only")
    name, _, rest = request.path.removeprefix(PREFIX).strip("/").partition("/")
    control = _CONTROLS.get((request.method, name))
    if control is None:
        return problem(404, "there is no such control")
    try:
        return control(emulator, request, rest)
    except BadControl as fault:
        return problem(422, str(fault), [fault.key])


def _read_truth(emulator: Emulator, _: Request, __: str) -> Answer:
    return in_json(200, emulator.truth())


def _add_faults(emulator: Emulator, request: Request, _: str) -> Answer:
    rules = _read_json(request)
    emulator.add_faults(rules if isinstance(rules, list) else [rules])
    return Answer(status=204)


def _clear_faults(emulator: Emulator, _: Request, __: str) -> Answer:
    emulator.clear_faults()
    return Answer(status=204)


def _read_settings(emulator: Emulator, _: Request, __: str) -> Answer:
    return in_json(200, dataclasses.asdict(emulator.settings))


def _change_settings(emulator: Emulator, request: Request, _: str) -> Answer:
    emulator.change_settings(table("body", _read_json(request)))
    return in_json(200, dataclasses.asdict(emulator.settings))


def _put_pod(emulator: Emulator, request: Request, _: str) -> Answer:
    return in_json(201, _pod(emulator, emulator.put_pod(table("body", _read_json(request)))))


def _put_volume(emulator: Emulator, request: Request, _: str) -> Answer:
    return in_json(201, {"id": emulator.put_volume(table("body", _read_json(request)))})


def _put_queued(emulator: Emulator, request: Request, _: str) -> Answer:
    return in_json(201, {"id": emulator.put_queued(table("body", _read_json(request)))})


def _change_pod(emulator: Emulator, request: Request, pod_id: str) -> Answer:
    if pod_id not in emulator.pods:
        return problem(404, "pod not found")
    return in_json(200, _pod(emulator, emulator.change_pod(pod_id, table("body", _read_json(request)))))


def _pod(emulator: Emulator, pod_id: str) -> dict[str, Any]:
    return pod_truth(emulator, emulator.pods[pod_id], emulator.now())


def _read_json(request: Request) -> Any:
    try:
        return json.loads(request.body)
    except ValueError:
        raise BadControl(key="body", why="must be JSON") from None


_CONTROLS: Final[dict[tuple[str, str], Callable[[Emulator, Request, str], Answer]]] = {
    ("GET", "truth"): _read_truth,
    ("POST", "faults"): _add_faults,
    ("DELETE", "faults"): _clear_faults,
    ("GET", "settings"): _read_settings,
    ("PATCH", "settings"): _change_settings,
    ("POST", "pods"): _put_pod,
    ("PATCH", "pods"): _change_pod,
    ("POST", "volumes"): _put_volume,
    ("POST", "queued-pods"): _put_queued,
}
