"""Does the fixed address do what its description says, and never a 500, whatever it is sent?"""

import json
import os
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.core.errors import Code
from controller.gateway.openapi import codes_by_status, document
from controller.gateway.refusals import STATUS, Refused
from controller.gateway.wires import BY_PATH
from tests.gateway.world import CLIENT_KEY, Answered, World, in_world
from tests.support.fuzzing import Asked, asked, spoilt_by_one

EXAMPLES = int(os.environ.get("GPUWARDEN_FUZZ", "4"))
"""Each with up to 40 requests."""
DOCUMENT = document("0")
KNOWN: dict[str, list[Any]] = {
    "model": ["m1", "m2", "m1:x", "m3"],
    "messages": [[{"role": "user", "content": "say"}], [{"role": "system", "content": "a"}, {"role": "user"}]],
    "input": ["say", ["a", "b"]],
}
HEADERS = {
    "prefer": [b"wait=0", b"wait=99999", b"wait=1", b"wait"],
    "content-type": [b"text/plain", b"application/json; charset=latin-1"],
    "anthropic-version": [b"2023-06-01"],
    "x-api-key": [b"wrong"],
}


async def asked_of(world: World, each: Asked) -> Answered:
    answer = await world.open(each.body, path=each.path, headers=each.headers, method=each.method)
    pieces, whole = b"", True
    try:
        async for piece in answer.chunks():
            pieces += piece
    except Exception:
        whole = False
    assert answer.failure is None, (each, answer.failure)
    return Answered(answer.status, dict(answer.headers), pieces, whole, 0.0)


def require_described(each: Asked, answer: Answered) -> None:
    assert answer.status != 500, each
    operation = DOCUMENT["paths"][each.template].get(each.method.lower())
    if answer.status < 400 or answer.headers.get(b"content-type") != b"application/json":
        assert answer.status == 200, (each, answer)
        return
    told = json.loads(answer.body) if answer.body else None
    if told is None or operation is None:
        assert answer.status in (401, 404), (each, answer)
        return
    said = operation["responses"].get(str(answer.status))
    assert said is not None, (each, answer)
    assert told["error"]["code"] in said["x-codes"], (each, answer)
    name = said["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
    jsonschema.validate(told, DOCUMENT["components"]["schemas"][name])


@settings(max_examples=EXAMPLES, derandomize=EXAMPLES <= 4, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(asked(DOCUMENT, KNOWN, HEADERS), min_size=30, max_size=40))
def test_nothing_that_is_sent_is_answered_with_500_or_what_is_not_described(requests: list[Asked]) -> None:
    async def scene(world: World) -> None:
        await world.ready("m1")
        world.daemon.change("m1", wires=sorted({shape.name for shape in BY_PATH.values()}))
        for each in requests:
            require_described(each, await asked_of(world, each))
        assert (world.gateway.live, world.gateway.leases.open_requests) == (0, 0)

    in_world(scene)


WHOLE: dict[str, Any] = {
    "model": "m1",
    "stream": False,
    "messages": [{"role": "system", "content": "a"}, {"role": "user", "content": "say"}],
    "input": "say",
    # Not described, and read by us all the same, on one path or another.
    **dict.fromkeys(("tools", "prompt", "system", "instructions", "background", "query")),
}


@pytest.mark.parametrize("template", sorted(BY_PATH))
def test_no_member_of_a_body_that_is_spoilt_is_answered_with_500(template: str) -> None:
    """Of a model whose messages are rearranged, and so read."""

    async def scene(world: World) -> None:
        await world.ready("m1")
        wires = sorted({shape.name for shape in BY_PATH.values()})
        await world.changed(wires=wires, server="llama_cpp", merge_system=True)
        for spoilt in spoilt_by_one(WHOLE):
            body = json.dumps(spoilt).encode()
            each = Asked(method="POST", path=template, template=template, headers=(), body=body)
            require_described(each, await asked_of(world, each))
        assert world.gateway.live == 0

    in_world(scene)


def test_the_description_is_served_as_it_is_and_needs_no_key() -> None:
    async def scene(world: World) -> Answered:
        return await world.ask(b"", path="/openapi.json", method="GET", key=None)

    told = json.loads(in_world(scene).body)
    assert told["info"]["version"] != "0"
    assert told["paths"] == json.loads(json.dumps(DOCUMENT))["paths"]


def test_every_wire_and_every_other_path_is_described() -> None:
    others = {"/v1/models", "/v1/models/{model}", "/healthz", "/metrics", "/openapi.json"}
    assert set(DOCUMENT["paths"]) == set(BY_PATH) | others


@pytest.mark.parametrize("code", [code for code in Code if code is not Code.NOT_FOUND])
def test_every_word_of_refusal_is_described_with_its_status(code: Code) -> None:
    found = codes_by_status()
    statuses = {400, 404, 503} if code is Code.NOT_SERVED else {Refused(code, "x").status}
    assert {status for status, words in found.items() if code.value in words} == statuses
    assert set(STATUS.values()) <= set(found)


def test_a_key_that_is_wrong_is_told_as_described() -> None:
    async def scene(world: World) -> list[Any]:
        answers = []
        for path, methods in DOCUMENT["paths"].items():
            for method, operation in methods.items():
                if "401" in operation["responses"] and path != "/metrics":
                    answer = await world.ask(
                        {"model": "m1"}, path=path.replace("{model}", "m1"), method=method.upper(), key=CLIENT_KEY + "x"
                    )
                    answers.append((answer.status, answer.code))
        return answers

    found = in_world(scene)
    assert set(found) == {(401, "wrong_key")}
    assert len(found) == len(BY_PATH) + 2
