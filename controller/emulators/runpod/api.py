"""What does Runpod's REST API answer?

By path and method, as a function of the request, the emulator's state and the moment: nothing here waits. Errors are
problem+json. v1 is gone and says so (410), as since 2026-11-15.
"""

from __future__ import annotations

import http
import re
from typing import Any, Final

from controller.emulators.exchange import Answer, in_json
from controller.emulators.runpod import billing, catalog, cpus, network_volumes, pod_calls, queued_pods, secret_store
from controller.emulators.runpod.api_call import Ask, Route
from controller.emulators.runpod.bodies import Refused


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


def _list_registries(ask: Ask, _: str) -> Answer:
    known = ask.emulator.settings.registries
    return in_json(200, {"registries": [{"id": key, "name": name} for key, name in known.items()]})


def _list_cpus(ask: Ask, _: str) -> Answer:
    return in_json(200, {"cpus": cpus.read_cpus(ask.request.parameters())})


def _get_cpu(ask: Ask, flavor: str) -> Answer:
    found = cpus.read_cpu(flavor, ask.request.parameters())
    if found is None:
        raise Refused(404, "resource not found")
    return in_json(200, found)


_ROUTES: Final[list[tuple[re.Pattern[str], dict[str, Route]]]] = [
    (re.compile(r"/v2/pods"), {"GET": pod_calls.list_pods, "POST": pod_calls.create_pod}),
    (
        re.compile(r"/v2/pods/([^/]+)"),
        {"GET": pod_calls.get_pod, "PATCH": pod_calls.patch_pod, "DELETE": pod_calls.delete_pod},
    ),
    (re.compile(r"/v2/pods/([^/]+)/action"), {"POST": pod_calls.act_on_pod}),
    (re.compile(r"/v2/queued-pods"), {"GET": queued_pods.list_queued}),
    (re.compile(r"/v2/queued-pods/([^/]+)"), {"GET": queued_pods.get_queued, "DELETE": queued_pods.cancel_queued}),
    (re.compile(r"/v2/catalog/gpus"), {"GET": _list_gpus}),
    (re.compile(r"/v2/catalog/gpus/(.+)"), {"GET": _get_gpu}),
    (re.compile(r"/v2/catalog/cpus"), {"GET": _list_cpus}),
    (re.compile(r"/v2/catalog/cpus/([^/]+)"), {"GET": _get_cpu}),
    (re.compile(r"/v2/catalog/datacenters"), {"GET": _list_places}),
    (re.compile(r"/v2/catalog/datacenters/([^/]+)"), {"GET": _get_place}),
    (
        re.compile(r"/v2/network-volumes"),
        {"GET": network_volumes.list_volumes, "POST": network_volumes.create_volume},
    ),
    (
        re.compile(r"/v2/network-volumes/([^/]+)"),
        {
            "GET": network_volumes.get_volume,
            "PATCH": network_volumes.change_volume,
            "DELETE": network_volumes.remove_volume,
        },
    ),
    (re.compile(r"/v2/billing"), {"GET": billing.answer_all}),
    (re.compile(r"/v2/billing/pods"), {"GET": billing.answer_pods}),
    # The document of August spells it without a hyphen, the clients of September with one.
    (re.compile(r"/v2/billing/network-?volumes"), {"GET": billing.answer_volumes}),
    (re.compile(r"/v2/registries"), {"GET": _list_registries}),
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
