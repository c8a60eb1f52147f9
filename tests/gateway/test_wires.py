"""What is particular to each wire: the name in the body, the ending of a stream, and how its clients are told no."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import anyio
import pytest

from tests.gateway.stub_server import DONE, event
from tests.gateway.world import CLIENT_KEY, MODEL_KEY, Answered, World, in_world

ALL = ["chat", "completions", "responses", "messages"]


def named(kind: str, **members: Any) -> bytes:
    """As llama.cpp and vLLM write the events of both wires that name them."""
    data = json.dumps({"type": kind, **members}, separators=(",", ":"))
    return f"event: {kind}\ndata: {data}\n\n".encode()


def response(status: str, **members: Any) -> bytes:
    return named(f"response.{status}", response={"status": status, **members})


WORD = named("response.output_text.delta", delta="one")
TEXT = named("content_block_delta", index=0, delta={"type": "text_delta", "text": "one"})


@dataclass(frozen=True)
class Case:
    path: str
    body: dict[str, Any]
    whole: list[bytes]


RESPONSES = Case("/v1/responses", {"input": "say"}, [response("in_progress"), WORD, response("completed")])
MESSAGES = Case(
    "/v1/messages",
    {"messages": [{"role": "user", "content": "say"}], "max_tokens": 9},
    [
        named("message_start", message={"stop_reason": None}),
        TEXT,
        named("message_delta", delta={"stop_reason": "end_turn"}),
        named("message_stop"),
    ],
)
CHAT = Case("/v1/chat/completions", {"messages": []}, [event("one"), event("", "stop"), DONE])
COMPLETIONS = Case("/v1/completions", {"prompt": "say"}, [event("one"), DONE])
CASES = pytest.mark.parametrize("case", [CHAT, COMPLETIONS, RESPONSES, MESSAGES], ids=lambda case: str(case.path))


def answered(
    case: Case, arrange: Callable[[World], None] = lambda world: None, *, stream: bool = True, **options: Any
) -> tuple[Answered, World]:
    async def scene(world: World) -> tuple[Answered, World]:
        await world.changed(wires=ALL)
        await world.ready()
        arrange(world)
        answer = await world.ask({"model": "m1", **case.body, "stream": stream}, path=case.path, **options)
        await anyio.sleep(0.1)
        return answer, world

    return in_world(scene)


def writes(*pieces: bytes) -> Callable[[World], None]:
    def arrange(world: World) -> None:
        world.server.pieces = list(pieces)

    return arrange


def last_data(answer: Answered) -> dict[str, Any]:
    line = answer.body.rstrip().rpartition(b"\n")[2]
    found: dict[str, Any] = json.loads(line.removeprefix(b"data: "))
    return found


@CASES
def test_a_whole_stream_passes_byte_for_byte(case: Case) -> None:
    answer, world = answered(case, writes(*case.whole))
    assert (answer.body, answer.whole) == (b"".join(case.whole), True)
    assert world.daemon.kinds() == []


@CASES
def test_only_the_name_changes_in_what_is_asked(case: Case) -> None:
    async def scene(world: World) -> bytes:
        await world.changed(wires=ALL)
        await world.ready()
        await world.ask(b'{"max_tokens":7, "x": {"model":"m1"},"model" : "m1","n":1.50 }', path=case.path)
        return world.server.bodies[0]

    assert in_world(scene) == b'{"max_tokens":7, "x": {"model":"m1"},"model" : "org/m1","n":1.50 }'


@CASES
def test_a_stream_without_its_last_event_was_cut(case: Case) -> None:
    answer, world = answered(case, writes(*case.whole[:-1]))
    assert (answer.whole, last_data(answer)["error"]["code"]) == (False, "upstream_disconnected")
    assert world.daemon.kinds() == ["broken-stream"]


FAILURES = [
    (RESPONSES, [WORD], [named("error", code="x", message="no"), response("completed")]),
    (RESPONSES, [WORD], [b'data: {"error":{"code":500,"message":"no"}}\n\n']),
    (RESPONSES, [WORD], [response("failed", error={"message": "no"})]),
    (RESPONSES, [WORD], [named("response.completed", response={"status": "cancelled"})]),
    (MESSAGES, [TEXT], [named("error", error={"type": "api_error", "message": "no"}), named("message_stop")]),
    (MESSAGES, [TEXT], [b'event: error\ndata: {"code":500,"message":"no","type":"server_error"}\n\n']),
    (MESSAGES, [TEXT], [named("message_delta", delta={"stop_reason": None}), named("message_stop")]),
]


@pytest.mark.parametrize("as_one", [False, True], ids=["apart", "in one piece"])
@pytest.mark.parametrize(("case", "good", "bad"), FAILURES)
def test_a_stream_that_says_it_failed_is_no_success(
    case: Case, good: list[bytes], bad: list[bytes], as_one: bool
) -> None:
    pieces = [b"".join(good + bad)] if as_one else good + bad
    answer, world = answered(case, writes(*pieces))
    assert answer.body.startswith(b"".join(good) + b"event: error\n")
    assert answer.body.count(b"event: error\n") == 1
    assert last_data(answer)["error"]["code"] == "upstream_disconnected"
    assert (answer.whole, world.daemon.kinds()) == (False, ["broken-stream"])


@pytest.mark.parametrize(
    ("case", "pieces"),
    [
        (RESPONSES, [named("response.output_text.delta", delta='event: error "cancelled"'), response("incomplete")]),
        (
            RESPONSES,
            [named("response.completed", response={"status": "completed", "metadata": {"status": "cancelled"}})],
        ),
        (MESSAGES, [named("content_block_delta", text='{"type":"error"} "stop_reason":null'), named("message_stop")]),
    ],
)
def test_words_about_failures_in_the_content_are_content(case: Case, pieces: list[bytes]) -> None:
    answer, _ = answered(case, writes(*pieces))
    assert (answer.body, answer.whole) == (b"".join(pieces), True)


@pytest.mark.parametrize(
    ("case", "plain"),
    [
        (CHAT, {"choices": [{"finish_reason": "stop"}, {"finish_reason": "abort"}]}),
        (COMPLETIONS, {"choices": [{"text": "one", "finish_reason": "abort"}]}),
        (RESPONSES, {"object": "response", "status": "cancelled", "output": []}),
        (RESPONSES, {"object": "response", "status": "failed", "output": []}),
        (MESSAGES, {"type": "message", "content": []}),
    ],
)
def test_a_plain_answer_that_was_broken_off_is_a_502(case: Case, plain: dict[str, Any]) -> None:
    def arrange(world: World) -> None:
        world.server.plain = plain

    answer, world = answered(case, arrange, stream=False)
    assert (answer.status, answer.code, answer.whole) == (502, "upstream_disconnected", True)
    assert world.daemon.kinds() == ["broken-stream"]


@CASES
def test_a_whole_plain_answer_passes(case: Case) -> None:
    answer, _ = answered(case, stream=False)
    assert (answer.status, b"hello" in answer.body) == (200, True)


ANTHROPIC = [(b"anthropic-version", b"2023-06-01")]


@pytest.mark.parametrize(
    ("path", "headers", "anthropic"),
    [
        ("/v1/messages", [], True),
        ("/v1/messages/count_tokens", [], True),
        ("/v1/chat/completions", [], False),
        ("/v1/responses", [], False),
        ("/v1/nothing", [], False),
        ("/v1/nothing", ANTHROPIC, True),
    ],
)
def test_each_client_is_refused_in_its_own_shape(
    path: str, headers: list[tuple[bytes, bytes]], anthropic: bool
) -> None:
    async def scene(world: World) -> Answered:
        return await world.ask({"model": "nope"}, path=path, headers=headers)

    answer = in_world(scene)
    said = json.loads(answer.body)
    assert (answer.status, said["error"]["code"] in ("unknown_model", "not_served")) == (404, True)
    assert (said.get("type"), said["error"]["type"]) == (
        ("error", "not_found_error") if anthropic else (None, "invalid_request_error")
    )


def test_what_a_cold_model_has_to_say_is_in_anthropics_shape_too() -> None:
    async def scene(world: World) -> Answered:
        starting = {"deployment": "d1", "phase": "loading", "eta_seconds": 42.0, "usd_so_far": "0.02"}
        await world.changed(wires=ALL, phase="starting", starting=starting)
        body = {"model": "m1", **MESSAGES.body}
        return await world.ask(body, path="/v1/messages", headers=[(b"prefer", b"wait=0")])

    answer = in_world(scene)
    assert (answer.status, answer.headers[b"retry-after"]) == (503, b"42")
    assert answer.error.items() >= {"type": "overloaded_error", "code": "model_starting", "eta_seconds": 42.0}.items()


def test_a_stream_of_responses_fails_with_an_event_of_that_wire() -> None:
    answer, _ = answered(RESPONSES, writes(WORD))
    assert last_data(answer).items() >= {"type": "error", "code": "upstream_disconnected", "param": None}.items()


@pytest.mark.parametrize("case", [RESPONSES, MESSAGES], ids=lambda case: str(case.path))
def test_an_unserved_wire_and_tools_without_a_parser_wake_nothing(case: Case) -> None:
    async def scene(world: World) -> tuple[list[tuple[int, str]], int]:
        await world.changed(wires=["chat"])
        unserved = await world.ask({"model": "m1", **case.body}, path=case.path)
        await world.changed(wires=ALL, tools=False)
        tools = await world.ask({"model": "m1", **case.body, "tools": [{"name": "f"}]}, path=case.path)
        return [(answer.status, answer.code) for answer in (unserved, tools)], len(world.daemon.starts)

    assert in_world(scene) == ([(400, "not_served")] * 2, 0)


def test_what_would_be_computed_in_the_background_is_refused() -> None:
    async def scene(world: World) -> tuple[int, str, int]:
        await world.changed(wires=ALL)
        answer = await world.ask({"model": "m1", "input": "x", "background": True}, path="/v1/responses")
        return answer.status, answer.code, len(world.daemon.starts)

    assert in_world(scene) == (400, "not_served", 0)


def test_a_key_as_anthropics_clients_send_it_opens_and_stays_here() -> None:
    answer, world = answered(
        MESSAGES, stream=False, key=None, headers=[*ANTHROPIC, (b"x-api-key", CLIENT_KEY.encode())]
    )
    seen = world.server.headers[0]
    assert answer.status == 200
    assert seen[b"authorization"] == f"Bearer {MODEL_KEY}".encode()
    assert not {b"x-api-key", b"anthropic-version"} & seen.keys()


def test_an_adapter_is_asked_for_on_every_wire() -> None:
    from controller.gateway.config import Declared

    async def scene(world: World) -> list[str]:
        await world.changed(wires=ALL)
        await world.ready()
        for case in (RESPONSES, MESSAGES):
            await world.ask({**case.body, "model": "m1:sql"}, path=case.path)
        return [asked["model"] for asked in world.server.asked]

    assert in_world(scene, declared={"m1": Declared(wires=(), tools=False, adapters=("sql",))}) == ["sql", "sql"]


def conversation(*roles: str) -> list[dict[str, str]]:
    return [{"role": role, "content": f"{role}{number}"} for number, role in enumerate(roles)]


@pytest.mark.parametrize(
    ("path", "body", "merge", "expected"),
    [
        (
            "/v1/responses",
            {"instructions": "I", "input": conversation("user", "developer", "user", "system")},
            False,
            {"instructions": "I", "input": ["developer1", "system3", "user0", "user2"]},
        ),
        (
            "/v1/responses",
            {"instructions": "I", "input": conversation("user", "system")},
            True,
            {"instructions": "I\n\nsystem1", "input": ["user0"]},
        ),
        (
            "/v1/messages",
            {"system": [{"type": "text", "text": "S"}], "messages": conversation("user", "system", "assistant")},
            True,
            {"system": "S\n\nsystem1", "messages": ["user0", "assistant2"]},
        ),
        (
            "/v1/messages",
            {"system": "S", "messages": conversation("user", "system")},
            False,
            {"system": "S", "messages": ["system1", "user0"]},
        ),
        ("/v1/messages", {"messages": conversation("user", "system")}, True, {"messages": ["system1", "user0"]}),
        ("/v1/responses", {"input": "words"}, True, {"input": "words"}),
    ],
)
def test_llama_cpp_gets_the_systems_words_first_on_every_wire(
    path: str, body: dict[str, Any], merge: bool, expected: dict[str, Any]
) -> None:
    async def scene(world: World) -> dict[str, Any]:
        await world.changed(wires=ALL, server="llama_cpp", merge_system=merge)
        await world.ready()
        await world.ask({"model": "m1", **body}, path=path)
        return world.server.asked[0]

    asked = in_world(scene)
    seen = {
        name: [entry["content"] for entry in asked[name]]
        if name in ("messages", "input") and body[name] != "words"
        else asked[name]
        for name in expected
    }
    assert seen == expected
