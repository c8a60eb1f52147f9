"""What does the log say of a request, and what never?"""

import io
import json
from typing import Any

import anyio
import pytest

from controller import log
from controller.gateway.access_log import write
from controller.gateway.passage import Passage
from tests.gateway.test_clients import Kept, client
from tests.gateway.world import CLIENT_KEY, MODEL_KEY, World, asking, in_world

Lines = list[tuple[str, dict[str, Any]]]


def logged(scene: Any, **changes: Any) -> list[dict[str, Any]]:
    """The fields of each line that a scene leaves."""
    lines: Lines = []
    in_world(scene, access_log=lambda event, fields: lines.append((event, fields)), **changes)
    assert {event for event, _ in lines} <= {"request"}
    return [fields for _, fields in lines]


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
    write(log.line_writer(stream=written), Passage("g-registered-secret-1", 0.0), answer=200, now=1.5)
    line = json.loads(written.getvalue())
    assert (line["event"], line["level"], line["request"]) == ("request", "info", "[redacted]-1")
    assert line["at"].endswith("Z")
    log.forget_secrets()
