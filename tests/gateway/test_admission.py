"""What is refused before any machine is woken, and how."""

from typing import Any

import pytest

from controller.gateway.config import Declared
from tests.gateway.world import Answered, World, asking, in_world


def refused(body: object, **options: Any) -> tuple[Answered, int]:
    """The answer to one request for a cold model, and how many starts it made."""

    async def scene(world: World) -> tuple[Answered, int]:
        return await world.ask(body, **options), len(world.daemon.starts)

    return in_world(scene)


@pytest.mark.parametrize(
    ("body", "options", "status", "code"),
    [
        (asking(), {"key": None}, 401, "wrong_key"),
        (asking(), {"key": "other"}, 401, "wrong_key"),
        (b"{", {"key": "other"}, 401, "wrong_key"),
        (b"x" * (10 * 1024 * 1024 + 1), {}, 413, "body_too_large"),
        (b"{", {}, 400, "bad_request"),
        (b"[]", {}, 400, "bad_request"),
        (b'"m1"', {}, 400, "bad_request"),
        (b'{"model":3}', {}, 400, "bad_request"),
        (b"{}", {}, 400, "bad_request"),
        (b'{"model":"m1","model":"m2"}', {}, 400, "bad_request"),
        (b'{"model":"m1","n":NaN}', {}, 400, "bad_request"),
        (b'\xef\xbb\xbf{"model":"m1"}', {}, 400, "bad_request"),
        (b'{"model":"m\xff1"}', {}, 400, "bad_request"),
        (b'{"a":' + b"[" * 100_000, {}, 400, "bad_request"),
        (asking("nope"), {}, 404, "unknown_model"),
        (asking(), {"path": "/v1/audio/speech"}, 404, "not_served"),
        (asking(), {"path": "/v1/chat/completions/"}, 404, "not_served"),
        (asking(), {"method": "GET"}, 404, "not_served"),
        (asking(), {"method": "HEAD"}, 404, "not_served"),
        (asking(), {"method": "OPTIONS"}, 404, "not_served"),
    ],
)
def test_what_cannot_be_served_is_refused_and_wakes_nothing(
    body: object, options: dict[str, Any], status: int, code: str
) -> None:
    answer, starts = refused(body, **options)
    assert (answer.status, answer.code, starts) == (status, code, 0)


def test_a_refusal_has_the_shape_that_openai_clients_read() -> None:
    answer, _ = refused(asking("nope"))
    assert answer.headers[b"content-type"] == b"application/json"
    assert answer.error.keys() >= {"message", "type", "param", "code"}
    assert answer.error["type"] == "invalid_request_error"


def test_a_wire_that_the_model_server_does_not_speak_is_a_400_and_wakes_nothing() -> None:
    async def scene(world: World) -> tuple[Answered, int]:
        await world.changed(wires=["chat"])
        return await world.ask({"model": "m1", "input": "x"}, path="/v1/embeddings"), len(world.daemon.starts)

    answer, starts = in_world(scene)
    assert (answer.status, answer.code, starts) == (400, "not_served", 0)


def test_tools_that_the_model_does_not_call_are_a_400_and_wake_nothing() -> None:
    async def scene(world: World) -> tuple[int, str, int]:
        await world.changed(tools=False)
        answer = await world.ask(asking(tools=[{"type": "function", "function": {"name": "f"}}]))
        return answer.status, answer.code, len(world.daemon.starts)

    assert in_world(scene) == (400, "not_served", 0)


def test_an_empty_list_of_tools_asks_for_none() -> None:
    async def scene(world: World) -> int:
        await world.changed(tools=False)
        await world.ready()
        return (await world.ask(asking(tools=[]))).status

    assert in_world(scene) == 200


def test_while_no_daemon_has_spoken_the_config_says_which_wires_there_are() -> None:
    async def scene(world: World) -> tuple[int, str, str]:
        world.daemon.down = True
        world.gateway.table.views.clear()
        embedded = await world.ask({"model": "m1", "input": "x"}, path="/v1/embeddings")
        told = await world.ask(asking(tools=[{}]))
        return embedded.status, embedded.code, told.code

    declared = {"m1": Declared(wires=("chat",), tools=False)}
    assert in_world(scene, declared=declared) == (400, "not_served", "not_served")


def test_the_limit_of_a_body_is_itself_allowed() -> None:
    body = b'{"model":"nope","x":"' + b"y" * 78 + b'"}'

    async def scene(world: World) -> int:
        return (await world.ask(body)).status

    assert in_world(scene, body_limit=len(body)) == 404
    assert in_world(scene, body_limit=len(body) - 1) == 413


@pytest.mark.parametrize("path", ["/v1/models", "/healthz", "/metrics"])
def test_reading_wakes_nothing(path: str) -> None:
    async def scene(world: World) -> tuple[int, bytes, int]:
        answer = await world.ask(b"", path=path, method="GET")
        return answer.status, answer.body, len(world.daemon.starts)

    status, body, starts = in_world(scene)
    assert (status, starts) == (200, 0)
    assert path != "/v1/models" or b'"m1"' in body


def test_the_list_of_models_is_for_those_with_a_key() -> None:
    answer, _ = refused(b"", path="/v1/models", method="GET", key=None)
    assert answer.status == 401


def test_a_key_is_taken_from_either_header() -> None:
    async def scene(world: World) -> int:
        await world.ready()
        return (await world.ask(asking(), key=None, headers=[(b"x-api-key", b"client-key")])).status

    assert in_world(scene) == 200


def test_without_configured_keys_anybody_is_served() -> None:
    async def scene(world: World) -> int:
        await world.ready()
        return (await world.ask(asking(), key=None)).status

    assert in_world(scene, client_keys=frozenset()) == 200
