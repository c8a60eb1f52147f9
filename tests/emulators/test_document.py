"""Is every answer of every operation one that Runpod's document allows, and which operations are not served?

The other tests of the emulator hold each answer that they get to the document, too. Here each operation is asked for
what it gives and for each refusal that the document names, so that none is left out.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import anyio
import httpx
import pytest

from controller.emulators.runpod import Emulator
from tests.emulators.document import (
    LATER,
    OPERATIONS,
    PROBLEM,
    answers_of,
    faults_in,
    faults_of,
    operation_of,
)
from tests.emulators.flow import Flow, on_virtual_time
from tests.emulators.vendor import differences
from tests.emulators.world import A40, VLLM_BODY, World

SERVERLESS: Final = "serverless endpoints are no machines of ours"
TEMPLATES: Final = "what a pod is made of is always said in full"
REGISTRIES: Final = "a credential is named by its id, and nothing of ours makes one"
NOT_SERVED: Final[Mapping[str, str]] = {
    "GET /v2/serverless": SERVERLESS,
    "POST /v2/serverless": SERVERLESS,
    "GET /v2/serverless/{id}": SERVERLESS,
    "PATCH /v2/serverless/{id}": SERVERLESS,
    "DELETE /v2/serverless/{id}": SERVERLESS,
    "GET /v2/serverless/{id}/workers": SERVERLESS,
    "GET /v2/serverless/{id}/releases": SERVERLESS,
    "GET /v2/serverless/{id}/workers/{workerId}/logs": SERVERLESS,
    "GET /v2/templates": TEMPLATES,
    "POST /v2/templates": TEMPLATES,
    "GET /v2/templates/{id}": TEMPLATES,
    "PATCH /v2/templates/{id}": TEMPLATES,
    "DELETE /v2/templates/{id}": TEMPLATES,
    "POST /v2/registries": REGISTRIES,
    "GET /v2/registries/{id}": REGISTRIES,
    "DELETE /v2/registries/{id}": REGISTRIES,
    "GET /v2/registries/delegations": REGISTRIES,
    "POST /v2/registries/delegations": REGISTRIES,
    "DELETE /v2/registries/delegations/{id}": REGISTRIES,
    "GET /v2/billing/serverless": SERVERLESS,
    "GET /v2/billing/endpoints": SERVERLESS,
    "GET /v2/billing/clusters": "clusters are never ours; their pods are left alone",
}
SERVED: Final = tuple(name for name in (*OPERATIONS, *LATER) if name not in NOT_SERVED)
VOLUME: Final[dict[str, Any]] = {"name": "weights", "size": 10, "dataCenter": "EU-SE-1"}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """How an operation is asked: of which thing that exists, with what."""

    thing: str = ""
    body: Any = None
    query: str = ""


GOOD: Final[Mapping[str, Asked]] = {
    "GET /v2/pods": Asked(),
    "GET /v2/registries": Asked(),
    "POST /v2/pods": Asked(body=VLLM_BODY),
    "GET /v2/pods/{id}": Asked(thing="pod"),
    "PATCH /v2/pods/{id}": Asked(thing="pod", body={"name": "renamed"}),
    "DELETE /v2/pods/{id}": Asked(thing="pod"),
    "GET /v2/pods/{id}/logs": Asked(thing="pod"),
    "POST /v2/pods/{id}/action": Asked(thing="pod", body={"action": "stop"}),
    "GET /v2/network-volumes": Asked(),
    "POST /v2/network-volumes": Asked(body=VOLUME),
    "GET /v2/network-volumes/{id}": Asked(thing="volume"),
    "PATCH /v2/network-volumes/{id}": Asked(thing="volume", body={"size": 20}),
    "DELETE /v2/network-volumes/{id}": Asked(thing="volume"),
    "GET /v2/catalog/gpus": Asked(query="include=AVAILABILITY&product=POD"),
    "GET /v2/catalog/gpus/{id}": Asked(thing="gpu", query="include=AVAILABILITY&product=POD"),
    "GET /v2/catalog/cpus": Asked(query="include=AVAILABILITY&product=POD"),
    "GET /v2/catalog/cpus/{id}": Asked(thing="cpu", query="include=AVAILABILITY&product=POD"),
    "GET /v2/catalog/datacenters": Asked(query="include=GPU_AVAILABILITY,CPU_AVAILABILITY"),
    "GET /v2/catalog/datacenters/{id}": Asked(thing="place", query="include=GPU_AVAILABILITY,CPU_AVAILABILITY"),
    "GET /v2/billing": Asked(query="bucketSize=hour"),
    "GET /v2/billing/pods": Asked(query="bucketSize=hour"),
    "GET /v2/billing/networkvolumes": Asked(query="bucketSize=hour"),
    "GET /v2/billing/network-volumes": Asked(query="bucketSize=hour"),
    "GET /v2/queued-pods": Asked(),
    "GET /v2/queued-pods/{id}": Asked(thing="queued"),
    "DELETE /v2/queued-pods/{id}": Asked(thing="queued"),
    "GET /v2/account/secrets": Asked(),
    "POST /v2/account/secrets": Asked(body={"name": "new", "value": "v"}),
    "GET /v2/account/secrets/{id}": Asked(thing="secret"),
    "PATCH /v2/account/secrets/{id}": Asked(thing="secret", body={"value": "w"}),
    "DELETE /v2/account/secrets/{id}": Asked(thing="secret"),
}
REFUSED_BODIES: Final[Mapping[tuple[str, str], Any]] = {
    ("POST /v2/pods", "400"): VLLM_BODY | {"cpu": {"id": "cpu3c", "vcpuCount": 2}},
    ("PATCH /v2/pods/{id}", "400"): {"mounts": {"network": []}},
    ("POST /v2/network-volumes", "400"): VOLUME | {"dataCenter": "XX-NOWHERE-1"},
    ("PATCH /v2/network-volumes/{id}", "400"): {"size": 10},
    ("POST /v2/account/secrets", "400"): b"{",
    ("PATCH /v2/account/secrets/{id}", "400"): b"{",
    ("POST /v2/pods/{id}/action", "400"): b"{",
    ("POST /v2/pods/{id}/action", "409"): {"action": "start"},
}
NAMED: Final = [
    (name, status)
    for name in SERVED
    for status, shape in answers_of(name).items()
    if shape == PROBLEM and status != "default"
]


async def furnished() -> tuple[World, dict[str, str]]:
    """A world with one of everything, and the ids."""
    world = World()
    pod = await world.ready_pod(startSsh=True, mounts={"persistent": {"size": 20, "path": "/w"}}, cmd=["serve"])
    await world.create(gpu=A40 | {"count": 2}, globalNetworking=True)
    world.emulator.put_pod({"status": "EXITED", "cluster": {"id": "c", "rank": 0}})
    volume = world.emulator.put_volume(VOLUME | {"size": 15})
    world.emulator.put_queued({"state": "FAILED", "failure": "no machine"})
    queued = world.emulator.put_queued({"expires_in_seconds": 10_000})
    world.now += 4000
    (secret,) = (await world.client.get("/v2/account/secrets")).json()["secrets"]
    things = {"pod": pod, "volume": volume, "queued": queued, "secret": secret["id"]}
    return world, things | {"gpu": "NVIDIA A40", "cpu": "cpu3c", "place": "EU-SE-1"}


async def ask(world: World, name: str, thing: str, body: Any, query: str = "", **headers: str) -> httpx.Response:
    verb, _, path = name.partition(" ")
    content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    address = path.replace("{id}", thing) + (f"?{query}" if query else "")
    return await world.client.request(verb, address, content=content, headers=headers)


def judged(name: str, answer: httpx.Response) -> list[str]:
    verb, _, path = name.partition(" ")
    return faults_in(
        verb, path.replace("{id}", "x"), answer.status_code, answer.headers.get("content-type", ""), answer.content
    )


def test_each_operation_of_the_document_is_served_or_said_not_to_be() -> None:
    assert set(GOOD) | set(NOT_SERVED) == set(OPERATIONS) | set(LATER)
    assert set(GOOD) & set(NOT_SERVED) == set()


@pytest.mark.parametrize("name", NOT_SERVED)
async def test_what_is_not_served_is_a_404_and_beside_what_is_a_405(name: str) -> None:
    answer = await ask(World(), name, "x", None)
    beside = name.partition(" ")[2] in {served.partition(" ")[2] for served in SERVED}
    told = (405, "method not allowed") if beside else (404, "resource not found")
    assert (answer.status_code, answer.json()["detail"]) == told


@pytest.mark.parametrize("name", [name for name in SERVED if not name.endswith("/logs")])
async def test_what_is_asked_for_rightly_is_given_as_the_document_says(name: str) -> None:
    world, things = await furnished()
    asked = GOOD[name]
    answer = await ask(world, name, things.get(asked.thing, ""), asked.body, asked.query)
    assert str(answer.status_code) in answers_of(name) and answer.status_code < 300, answer.text
    assert judged(name, answer) == []


def test_a_log_is_a_stream_of_events_each_with_its_moment_source_and_line() -> None:
    async def read(emulator: Emulator) -> Flow:
        pod, flow = emulator.put_pod({"log": ["one"]}), Flow()
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: flow.run(emulator, "GET", f"/v2/pods/{pod}/logs", key="any"))
            await anyio.sleep(2)
            flow.leave()
        return flow

    flow = on_virtual_time(read)
    mark, _ = flow.body.decode().splitlines()[:2]
    (line,) = flow.events()
    assert flow.headers["content-type"] == "text/event-stream"
    assert mark == f"id: {line['ts']}/000000000001"
    assert faults_of("ts: moment, source: LogSource, line: text", line) == []


@pytest.mark.parametrize(("name", "status"), NAMED)
async def test_each_refusal_that_the_document_names_is_given_as_it_says(name: str, status: str) -> None:
    world, things = await furnished()
    asked = GOOD[name]
    thing, body, query, headers = things.get(asked.thing, ""), asked.body, asked.query, {}
    if status == "401":
        headers = {"authorization": ""}
    elif status == "403":
        headers = {"authorization": f"Bearer {await foreign_key(world)}"}
    elif status == "404":
        thing = "none"
    elif status == "429":
        world.emulator.add_faults([{"match": {}, "do": {"answer": 429}}])
    elif (name, status) in REFUSED_BODIES:
        body = REFUSED_BODIES[name, status]
    elif body is not None:
        body = body | {"surprise": 1}
    else:
        query = "limit=0"
    answer = await ask(world, name, thing, body, query, **headers)
    assert (str(answer.status_code), judged(name, answer)) == (status, [])


async def foreign_key(world: World) -> str:
    """The key of a pod, which may read that pod alone."""
    return world.emulator.injected_key(world.emulator.pods[await world.create()])


@pytest.mark.parametrize("status", [402, 409, 413, 500, 502, 503])
async def test_refusals_that_no_operation_names_are_problems_too(status: int) -> None:
    world = World()
    world.emulator.add_faults([{"match": {}, "do": {"answer": status}}])
    answer = await world.client.post("/v2/pods", json=VLLM_BODY)
    assert (answer.status_code, judged("POST /v2/pods", answer)) == (status, [])


@pytest.mark.parametrize(
    ("shape", "content", "fault"),
    [
        ("Pagination", {"nextCursor": None, "hasNextPage": False}, None),
        ("Pagination", {"nextCursor": None}, "$: 'hasNextPage' is a required property"),
        ("Pagination", {"nextCursor": 1, "hasNextPage": False}, "$.nextCursor"),
        ("Pagination", {"nextCursor": None, "hasNextPage": False, "x": 1}, "$: Additional properties are not allowed"),
        ("problem", {"title": "t", "status": 1, "detail": "d", "errors": [1]}, "$.errors[0]"),
        ("Queue", {"expiresAt": "yesterday"}, "$.expiresAt"),
        ("{text}", {"A": 1}, "$.A"),
        ("VolumeType", "SLOW", "$: 'SLOW' is not one of"),
        ("CpuType", {}, "$: 'price' is a required property"),
    ],
)
def test_the_document_is_read_strictly(shape: str, content: object, fault: str | None) -> None:
    found = faults_of(shape, content)
    assert found == [] if fault is None else any(said.startswith(fault) for said in found), found


def test_an_operation_is_known_by_its_method_and_path() -> None:
    assert operation_of("GET", "/v2/pods/x") == "GET /v2/pods/{id}"
    assert operation_of("POST", "/v2/pods/x/action") == "POST /v2/pods/{id}/action"
    assert operation_of("POST", "/v2/pods/x") is operation_of("GET", "/v1/pods") is None


def test_what_the_vendors_document_says_otherwise_is_named() -> None:
    told = {"application/json": {"schema": {"$ref": "#/components/schemas/Mounts"}}}
    size = {"type": "string"}
    mount = {"required": ["path"], "properties": {"size": size, "path": {"type": ["string", "null"]}}}
    theirs = {
        "paths": {"/v2/new": {"get": {"responses": {200: {"content": told}}}}},
        "components": {"schemas": {"PersistentMount": {"allOf": [mount]}, "Cloud": {"enum": ["SECURE"]}}},
    }
    found = differences(theirs)
    assert "operation GET /v2/new: theirs {'200': 'Mounts'}, ours None" in found
    assert (
        "shape PersistentMount: theirs {'size?': 'text', 'path': 'text or null'},"
        " ours {'size': 'whole', 'path': 'text'}"
    ) in found
    assert "words Cloud: theirs ['SECURE'], ours ['SECURE', 'COMMUNITY']" in found
