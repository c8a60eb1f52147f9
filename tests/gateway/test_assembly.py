"""What is put together of a stream is what the plain answer would have been, and a broken stream is none (PF-10)."""

import json
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from controller.gateway.assembly import Assembly
from controller.gateway.wires import CHAT, COMPLETIONS
from tests.gateway.stub_server import DONE, event
from tests.gateway.world import Answered, World, asking, in_world

HEAD = {"id": "c1", "object": "chat.completion.chunk", "created": 7, "model": "org/m1"}


def chunk(*choices: dict[str, Any], **members: Any) -> bytes:
    return b"data: " + json.dumps({**HEAD, "choices": list(choices), **members}).encode() + b"\n\n"


def delta(index: int = 0, finish: str | None = None, **members: Any) -> dict[str, Any]:
    return {"index": index, "delta": members, "finish_reason": finish, "logprobs": None}


def put_together(*events: bytes) -> dict[str, Any]:
    assembly = Assembly(CHAT)
    for piece in events:
        assembly.take(piece)
    found: dict[str, Any] = json.loads(assembly.answer())
    return found


def test_words_are_joined_by_choice_and_usage_is_kept() -> None:
    answer = put_together(
        chunk(delta(1, role="assistant", content=""), delta(0, role="assistant", content="")),
        chunk(delta(0, content="one", reasoning="because"), usage=None),
        chunk(delta(1, content="zwei")),
        chunk(delta(0, content=" two", finish="length")),
        chunk(delta(1, finish="stop")),
        chunk(usage={"prompt_tokens": 3, "completion_tokens": 4}) + DONE,
    )
    assert answer == {
        **HEAD,
        "object": "chat.completion",
        "usage": {"prompt_tokens": 3, "completion_tokens": 4},
        "choices": [
            {
                "index": 0,
                "finish_reason": "length",
                "logprobs": None,
                "message": {"role": "assistant", "content": "one two", "reasoning": "because"},
            },
            {
                "index": 1,
                "finish_reason": "stop",
                "logprobs": None,
                "message": {"role": "assistant", "content": "zwei"},
            },
        ],
    }


def test_calls_of_tools_are_put_together_by_their_index() -> None:
    first = {"index": 0, "id": "t0", "type": "function", "function": {"name": "f", "arguments": '{"a'}}
    second = {"index": 1, "id": "t1", "type": "function", "function": {"name": "g", "arguments": "{}"}}
    more = {"index": 0, "function": {"arguments": '":1}'}}
    answer = put_together(
        chunk(delta(role="assistant", content="")),
        chunk(delta(tool_calls=[first])),
        chunk(delta(tool_calls=[second, more])),
        chunk(delta(finish="tool_calls")),
    )
    message = answer["choices"][0]["message"]
    assert message["content"] is None
    assert message["tool_calls"] == [
        {"id": "t0", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}},
        {"id": "t1", "type": "function", "function": {"name": "g", "arguments": "{}"}},
    ]


def test_probabilities_are_lengthened() -> None:
    def piece(word: str) -> bytes:
        return chunk({"index": 0, "delta": {"content": word}, "logprobs": {"content": [{"token": word}]}})

    answer = put_together(chunk(delta(role="assistant")), piece("a"), piece("b"))
    assert answer["choices"][0]["logprobs"] == {"content": [{"token": "a"}, {"token": "b"}]}


def test_a_completion_has_its_text() -> None:
    assembly = Assembly(COMPLETIONS)
    for word in ("one", " two"):
        assembly.take(chunk({"index": 0, "text": word, "finish_reason": None}))
    answer = json.loads(assembly.answer())
    assert (answer["object"], answer["choices"][0]["text"]) == ("text_completion", "one two")


def answered(body: Any, arrange: Callable[[World], None], path: str = "/v1/chat/completions") -> tuple[Answered, World]:
    async def scene(world: World) -> tuple[Answered, World]:
        await world.changed(stream_plain=True)
        await world.ready()
        arrange(world)
        answer = await world.ask(body, path=path)
        await anyio.sleep(0.1)
        return answer, world

    return in_world(scene)


def writes(*pieces: bytes, gap_s: float = 0.0) -> Callable[[World], None]:
    def arrange(world: World) -> None:
        world.server.pieces = list(pieces)
        world.server.gap_s = gap_s

    return arrange


def test_a_plain_request_is_asked_as_a_stream_and_answered_plain_however_long_it_takes() -> None:
    answer, world = answered(asking(stream=False), writes(event("one"), event(" two", "stop"), DONE, gap_s=90))
    asked = world.server.asked[0]
    assert (asked["stream"], asked["stream_options"]) == (True, {"include_usage": True})
    assert (answer.status, answer.headers[b"content-type"], answer.whole) == (200, b"application/json", True)
    assert json.loads(answer.body)["choices"][0]["message"] == {"role": "assistant", "content": "one two"}


@pytest.mark.parametrize(
    "pieces",
    [
        [event("one")],
        [event("one"), event("", "abort"), DONE],
        [b'data: {"error":{"message":"no"}}\n\n', DONE],
        [b"data: x\n\n", DONE],
    ],
    ids=["no end", "abort", "error", "no JSON"],
)
def test_a_stream_that_breaks_off_is_a_plain_502(pieces: list[bytes]) -> None:
    answer, world = answered(asking(), writes(*pieces))
    assert (answer.status, answer.code, answer.whole) == (502, "upstream_disconnected", True)
    assert world.daemon.kinds() == ["broken-stream"]


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (asking(best_of=2), "/v1/chat/completions"),
        ({"model": "m1", "input": "word"}, "/v1/embeddings"),
    ],
)
def test_what_comes_in_no_stream_is_asked_as_it_is(body: dict[str, Any], path: str) -> None:
    answer, world = answered(body, writes(), path)
    assert (answer.status, "stream" in world.server.asked[0]) == (200, False)


def test_without_the_key_a_plain_request_stays_plain() -> None:
    async def scene(world: World) -> bool:
        await world.ready()
        await world.ask(asking())
        return "stream" in world.server.asked[0]

    assert in_world(scene) is False
