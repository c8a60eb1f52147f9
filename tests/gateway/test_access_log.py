"""What does the log say of a request, and what never?"""

import io
import json
from datetime import UTC, datetime
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller import log
from controller.gateway.access_log import line as line_of
from controller.gateway.passage import Passage
from tests.gateway.test_clients import Kept, client
from tests.gateway.world import CLIENT_KEY, MODEL_KEY, World, asking, in_world, now
from tests.test_log import Terminal


def logged(scene: Any, **changes: Any) -> list[dict[str, Any]]:
    """The fields of each line that a scene leaves, less those that are the same in all."""
    lines: list[str] = []
    in_world(scene, access_log=lines.extend, **changes)
    found: list[dict[str, Any]] = [json.loads(line) for line in lines]
    assert {(line.pop("event"), line.pop("level")) for line in found} <= {("request", "info")}
    assert all(datetime.fromisoformat(line.pop("at")).tzinfo == UTC for line in found)
    return found


def test_a_stream_leaves_one_line_that_says_who_what_how_long_and_how_much() -> None:
    async def scene(world: World) -> None:
        await world.ready()
        world.server.think_s, world.server.gap_s = 0.5, 0.25
        await world.ask(asking(stream=True), key="alice")

    (line,) = logged(scene, read_clients=Kept(client("alice")).read)
    request = line.pop("request")
    assert request.startswith("g-")
    assert line == {
        "client": "alice",
        "model": "m1",
        "wire": "chat",
        "stream": True,
        "answer": 200,
        "outcome": "served",
        "deployment": "d1",
        "waited_seconds": 0.0,
        "first_byte_seconds": 0.5,
        "duration_seconds": 1.25,
        "bytes_in": len(json.dumps(asking(stream=True))),
        "bytes_out": sum(map(len, world_pieces())),
    }


def world_pieces() -> list[bytes]:
    from tests.gateway.stub_server import StubServer

    return StubServer().pieces


def test_a_caller_who_waited_for_a_cold_model_is_told_apart() -> None:
    async def scene(world: World) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(world.ask, asking())
            await anyio.sleep(90)
            world.make_ready()

    (line,) = logged(scene)
    assert (line["outcome"], line["waited_seconds"]) == ("served", pytest.approx(90, abs=1))
    assert line["duration_seconds"] >= line["waited_seconds"]


@pytest.mark.parametrize(
    ("body", "options", "answer", "outcome", "model"),
    [
        (asking(), {"key": "wrong"}, 401, "wrong_key", ""),
        (asking("nope"), {}, 404, "unknown_model", ""),
        (b"{", {}, 400, "bad_request", ""),
        (asking(), {"headers": [(b"prefer", b"wait=0")]}, 503, "model_starting", "m1"),
        (asking(), {"path": "/v1/nothing"}, 404, "not_served", ""),
    ],
)
def test_a_refusal_leaves_a_line(body: object, options: dict[str, Any], answer: int, outcome: str, model: str) -> None:
    async def scene(world: World) -> None:
        await world.ask(body, **options)

    (line,) = logged(scene)
    assert (line["answer"], line["outcome"], line["model"]) == (answer, outcome, model)


def test_a_client_that_leaves_and_a_model_that_complains_are_told() -> None:
    async def scene(world: World) -> None:
        await world.ready()
        world.server.status = 422
        await world.ask(asking())
        world.server.status, world.server.gap_s = 200, 60
        with anyio.move_on_after(1):
            await world.ask(asking(stream=True))
        world.client.answers[-1].close()
        await anyio.sleep(0.1)

    assert [line["outcome"] for line in logged(scene)] == ["answered_4xx", "client_gone"]


def test_probes_and_scrapes_leave_none() -> None:
    async def scene(world: World) -> None:
        for path in ("/healthz", "/metrics", "/v1/models"):
            await world.ask(b"", path=path, method="GET")

    assert logged(scene) == []


CANARIES = ("c4nary-prompt", "c4nary-answer", "c4nary-key", "c4nary-cookie", "c4nary-name", "c4nary-id", "c4nary-query")


def test_no_prompt_answer_key_cookie_or_name_of_the_clients_is_in_any_line(capsys: pytest.CaptureFixture[str]) -> None:
    written = io.StringIO()
    told = io.StringIO()
    log.configure("debug", stream=told)
    headers = [(b"cookie", b"c4nary-cookie"), (b"x-request-id", b"c4nary-id"), (b"user-agent", b"c4nary-name")]

    async def scene(world: World) -> None:
        await world.ready()
        world.server.pieces = [b'data: {"choices":[{"delta":{"content":"c4nary-answer"}}]}\n\n', b"data: [DONE]\n\n"]
        prompt = [{"role": "user", "content": "c4nary-prompt"}]
        for key in ("c4nary-key", CLIENT_KEY):
            for alias in ("m1", "c4nary-name", "m1:c4nary-name"):
                for stream in (True, False):
                    body = asking(alias, messages=prompt, stream=stream, user="c4nary-name")
                    await world.ask(body, key=key, headers=headers)
        await world.ask(asking(), path="/v1/c4nary-name?c4nary-query", headers=headers)
        world.server.cut = True
        await world.ask(asking(messages=prompt, stream=True), headers=headers)

    in_world(scene, access_log=log.line_writer(stream=written))
    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    assert len(lines) == 14
    everything = written.getvalue() + told.getvalue() + capsys.readouterr().out
    assert [word for word in (*CANARIES, CLIENT_KEY, MODEL_KEY) if word in everything] == []


def test_a_line_has_the_look_of_the_others_and_a_registered_secret_is_replaced() -> None:
    written = io.StringIO()
    log.register_secret("g-registered-secret")
    passage = Passage("g-registered-secret-1", 0.0)
    log.line_writer(stream=written)([line_of(passage, answer=200, now=1.5, at="2026-11-29T00:00:00.000000Z")])
    line = json.loads(written.getvalue())
    assert (line["event"], line["level"], line["request"]) == ("request", "info", "[redacted]-1")
    assert line["at"].endswith("Z")
    log.forget_secrets()


@given(st.text(), st.none() | st.integers(200, 599), st.booleans(), st.floats(0, 1e6), st.integers(0))
def test_a_line_is_json_whatever_a_model_or_a_client_is_called(
    name: str, answer: int | None, stream: bool, seconds: float, size: int
) -> None:
    passage = Passage(name, 0.0)
    passage.client = client(name)
    passage.alias = passage.wire = passage.outcome = passage.deployment = name
    passage.stream, passage.bytes_in, passage.bytes_out = stream, size, size
    passage.asked_at, passage.placed_at, passage.first_at = 1.0, seconds + 1.0, seconds * 2 + 1.0
    line = json.loads(line_of(passage, answer=answer, now=seconds, at="now"))
    assert {line[field] for field in ("request", "client", "model", "wire", "outcome", "deployment")} == {name}
    assert (line["answer"], line["stream"], line["bytes_in"], line["bytes_out"]) == (answer, stream, size, size)
    rounded = (line["waited_seconds"], line["first_byte_seconds"], line["duration_seconds"])
    assert rounded == pytest.approx((seconds, seconds, seconds), abs=1e-3)


def test_lines_are_written_together_a_moment_later_and_at_the_end_at_once() -> None:
    writes: list[tuple[float, list[str]]] = []

    async def scene(world: World) -> float:
        for _ in range(3):
            await world.ask(asking("nope"))
        begun = now()
        await anyio.sleep(1)
        await world.ask(asking("nope"))
        return begun

    begun = in_world(scene, access_log=lambda lines: writes.append((now(), list(lines))))
    assert [len(lines) for _, lines in writes] == [3, 1]
    assert [at - begun for at, _ in writes] == pytest.approx([0.1, 1.0], abs=0.02)


def test_a_terminal_gets_words() -> None:
    out = Terminal()
    log.line_writer(stream=out)([line_of(Passage("g-1", 0.0), answer=None, now=1.5, at="2026-11-29T10:20:30.000000Z")])
    assert out.getvalue().startswith("10:20:30 info    request request=g-1 client='' model=''")
