"""What passes between client and model server, and how an answer that goes wrong ends."""

import json
from collections.abc import Callable

import anyio
import pytest

from tests.gateway.stub_server import DONE, event
from tests.gateway.world import ENDPOINT, MODEL_KEY, Answered, World, asking, in_world, now
from tests.support.fake_daemon import route

HTML = [(b"content-type", b"text/html")]
PLAIN = [(b"content-type", b"text/plain")]


def answered(body: object, arrange: Callable[[World], None] = lambda world: None) -> tuple[Answered, World]:
    async def scene(world: World) -> tuple[Answered, World]:
        await world.ready()
        arrange(world)
        answer = await world.ask(body)
        await anyio.sleep(0.1)
        return answer, world

    return in_world(scene)


def data_of(answer: Answered) -> list[bytes]:
    return [part.removeprefix(b"data: ") for part in answer.body.split(b"\n\n") if part.startswith(b"data: ")]


def test_a_plain_answer_passes_with_its_status_type_and_bytes() -> None:
    answer, world = answered(asking())
    assert (answer.status, answer.headers[b"content-type"], answer.whole) == (200, b"application/json", True)
    assert json.loads(answer.body)["choices"][0]["message"]["content"] == "hello"
    assert world.upstream.open == 0


def test_a_stream_passes_byte_for_byte() -> None:
    answer, world = answered(asking(stream=True))
    assert answer.body == b"".join(world.server.pieces)
    assert answer.whole


def test_each_piece_passes_as_it_comes() -> None:
    async def scene(world: World) -> list[float]:
        await world.ready()
        world.server.gap_s = 2
        begun = now()
        answer = await world.open(asking(stream=True))
        return [round(now() - begun, 1) async for _ in answer.chunks()]

    assert in_world(scene) == [0, 2, 4]


def test_the_model_server_sees_its_own_key_and_name_and_no_header_of_the_clients() -> None:
    async def scene(world: World) -> World:
        await world.ready()
        await world.ask(asking(), headers=[(b"cookie", b"c=1"), (b"x-secret", b"2"), (b"user-agent", b"OpenAI/Python")])
        return world

    world = in_world(scene)
    seen = world.server.headers[0]
    assert seen[b"authorization"] == b"Bearer model-key"
    assert seen[b"user-agent"].startswith(b"Mozilla/5.0")
    assert not {b"cookie", b"x-secret"} & seen.keys()
    assert world.server.asked[0]["model"] == "org/m1"


def test_the_client_sees_no_cookie_and_no_server_name_of_the_model_servers() -> None:
    answer, _ = answered(asking(stream=True))
    assert not {b"set-cookie", b"server"} & answer.headers.keys()


def test_only_the_name_changes_in_the_body() -> None:
    body = b'{ "messages" : [{"role":"user","content":"\\u00e9\xc3\xa9","model":"x"}],\n"model":  "m1","n":1.50 }'
    _, world = answered(body)
    assert world.server.bodies == [body.replace(b'"m1"', b'"org/m1"')]


def test_system_messages_come_first_for_llama_cpp_alone() -> None:
    messages = [{"role": r, "content": c} for r, c in (("user", "a"), ("system", "b"), ("user", "c"), ("system", "d"))]

    async def scene(world: World) -> list[list[str]]:
        seen = []
        for server in ("llama_cpp", "vllm"):
            await world.changed(server=server)
            await world.ready()
            await world.ask({"model": "m1", "messages": messages})
            seen.append([message["content"] for message in world.server.asked[-1]["messages"]])
        return seen

    assert in_world(scene) == [["b", "d", "a", "c"], ["a", "b", "c", "d"]]


def test_system_messages_are_made_one_where_the_template_takes_no_more() -> None:
    messages = [{"role": r, "content": c} for r, c in (("user", "a"), ("system", "b"), ("system", "c"))]

    async def scene(world: World) -> list[str]:
        await world.changed(server="llama_cpp", merge_system=True)
        await world.ready()
        await world.ask({"model": "m1", "messages": messages})
        return [message["content"] for message in world.server.asked[-1]["messages"]]

    assert in_world(scene) == ["b\n\nc", "a"]


def test_what_cannot_be_streamed_is_answered_whole_however_long_it_waits() -> None:
    async def scene(world: World) -> Answered:
        await world.changed(wires=["rerank"])
        await world.ready()
        world.server.think_s = 60
        return await world.ask({"model": "m1", "query": "a", "documents": ["b"], "stream": True}, path="/v1/rerank")

    answer = in_world(scene)
    assert (answer.status, answer.headers[b"content-type"]) == (200, b"application/json")
    assert "results" in json.loads(answer.body)


def test_an_error_of_the_models_own_is_passed_on() -> None:
    def arrange(world: World) -> None:
        world.server.status = 400
        world.server.complaint = ([(b"content-type", b"application/json")], b'{"error":{"message":"too long"}}')

    answer, world = answered(asking(), arrange)
    assert (answer.status, answer.body) == (400, b'{"error":{"message":"too long"}}')
    assert world.daemon.kinds() == []


def test_a_refusal_that_quotes_the_models_key_passes_without_it() -> None:
    quoted = json.dumps({"error": {"message": f"not with Bearer {MODEL_KEY}"}}).encode()

    def arrange(world: World) -> None:
        world.server.status = 400
        world.server.complaint = ([(b"content-type", b"application/json")], quoted)

    answer, _ = answered(asking(), arrange)
    assert (answer.status, answer.body) == (400, b'{"error": {"message": "not with Bearer [redacted]"}}')


@pytest.mark.parametrize(
    ("status", "headers", "body", "expected"),
    [
        (524, HTML, b"<html>a timeout occurred", (504, "upstream_timeout")),
        (502, HTML, b"<html>bad gateway", (502, "upstream_disconnected")),
        (503, HTML, b"<html>", (502, "upstream_disconnected")),
        (504, PLAIN, b"late", (504, "upstream_timeout")),
        (404, PLAIN, b"not found", (502, "upstream_disconnected")),
        (403, PLAIN, b"error code: 1010", (502, "upstream_disconnected")),
    ],
)
def test_a_page_of_the_providers_proxy_never_passes_as_the_models_answer(
    status: int, headers: list[tuple[bytes, bytes]], body: bytes, expected: tuple[int, str]
) -> None:
    def arrange(world: World) -> None:
        world.server.status = status
        world.server.complaint = (headers, body)

    answer, world = answered(asking(), arrange)
    assert (answer.status, answer.code) == expected
    assert body not in answer.body
    assert world.daemon.kinds() == ["unreachable"]


def test_a_refused_key_is_reported_and_is_not_the_clients_401() -> None:
    def arrange(world: World) -> None:
        world.server.status = 401
        world.server.complaint = ([(b"content-type", b"application/json")], b'{"error":"Unauthorized"}')

    answer, world = answered(asking(), arrange)
    assert (answer.status, answer.code) == (502, "upstream_disconnected")
    assert world.daemon.kinds() == ["key-refused"]


def cut_after(*pieces: bytes) -> Callable[[World], None]:
    def arrange(world: World) -> None:
        world.server.pieces = list(pieces)
        world.server.cut = True

    return arrange


def test_a_server_that_dies_before_its_first_byte_is_a_502() -> None:
    answer, world = answered(asking(stream=True), cut_after())
    assert (answer.status, answer.code, answer.whole) == (502, "upstream_disconnected", True)
    assert world.daemon.kinds() == ["broken-stream"]


def test_a_server_that_dies_in_its_stream_leaves_one_error_and_a_cut_connection() -> None:
    answer, world = answered(asking(stream=True), cut_after(event("one"), event("two")))
    data = data_of(answer)
    assert (len(data), answer.whole) == (3, False)
    assert json.loads(data[2])["error"]["code"] == "upstream_disconnected"
    assert len(world.server.bodies) == 1


def test_half_an_event_is_not_passed_on() -> None:
    answer, _ = answered(asking(stream=True), cut_after(event("one"), event("two")[:20]))
    data = data_of(answer)
    assert len(data) == 2
    assert json.loads(data[1])["error"]["code"] == "upstream_disconnected"


@pytest.mark.parametrize(
    "pieces",
    [
        [event("one"), b'data: {"error": {"message": "EngineCore encountered an issue"}}\n\n', DONE],
        [event("one"), event("", "abort"), DONE],
        [event("one") + event("", "abort") + DONE],
        [event("one"), event("", "abort")[:30], event("", "abort")[30:] + DONE],
        [event("one")],
    ],
    ids=["error event", "abort", "in one piece", "split", "no [DONE]"],
)
def test_a_stream_that_says_it_failed_or_was_cut_is_no_success(pieces: list[bytes]) -> None:
    def arrange(world: World) -> None:
        world.server.pieces = pieces

    answer, world = answered(asking(stream=True), arrange)
    data = data_of(answer)
    assert [b"one" in item for item in data] == [True, False]
    assert json.loads(data[1])["error"]["code"] == "upstream_disconnected"
    assert not answer.whole
    assert world.daemon.kinds() == ["broken-stream"]


def test_words_about_errors_in_the_content_are_content() -> None:
    def arrange(world: World) -> None:
        world.server.pieces = [event('{"error": {"finish_reason":"abort"}}'), event("", "stop"), DONE]

    answer, world = answered(asking(stream=True), arrange)
    assert answer.whole
    assert answer.body == b"".join(world.server.pieces)


def test_a_stream_that_falls_silent_ends_with_a_timeout() -> None:
    def arrange(world: World) -> None:
        world.server.pieces = [event("one")]
        world.server.silent = True

    answer, world = answered(asking(stream=True), arrange)
    assert json.loads(data_of(answer)[-1])["error"]["code"] == "upstream_timeout"
    assert (answer.whole, world.server.aborted, world.upstream.open) == (False, 1, 0)


def test_a_server_that_never_answers_is_a_504() -> None:
    def arrange(world: World) -> None:
        world.server.think_s = 10_000

    answer, world = answered(asking(), arrange)
    assert (answer.status, answer.code, world.server.aborted) == (504, "upstream_timeout", 1)


def test_a_long_first_word_is_bridged_by_comments() -> None:
    def arrange(world: World) -> None:
        world.server.think_s = 25

    answer, _ = answered(asking(stream=True), arrange)
    assert answer.body.count(b"\n: ") + answer.body.startswith(b": ") == 2
    assert answer.body.endswith(DONE)


def test_an_error_after_signs_of_life_is_told_in_the_stream() -> None:
    def arrange(world: World) -> None:
        world.server.think_s = 15
        world.server.status = 400

    answer, _ = answered(asking(stream=True), arrange)
    assert (answer.status, len(data_of(answer)), answer.whole) == (200, 1, False)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("after_s", [0.5, 3.0])
def test_a_client_that_leaves_takes_the_upstream_with_it(stream: bool, after_s: float) -> None:
    async def scene(world: World) -> tuple[int, int, int, int]:
        await world.ready()
        world.server.think_s, world.server.gap_s = 1.0, 60.0
        if not stream:
            world.server.think_s = 60.0
        with anyio.move_on_after(after_s):
            await world.ask(asking(stream=stream))
        if world.client.answers[-1].status:
            world.client.answers[-1].close()
        await anyio.sleep(0.1)
        return world.server.aborted, world.upstream.open, world.gateway.leases.open_requests, world.gateway.live

    assert in_world(scene) == (1, 0, 0, 0)


def test_a_client_that_stops_reading_is_let_go() -> None:
    async def scene(world: World) -> tuple[int, int]:
        await world.ready()
        world.server.pieces = [event("x" * 100)] * 10_000
        answer = await world.open(asking(stream=True))
        await anyio.sleep(130)
        assert answer.status == 200
        return world.gateway.live, world.upstream.open

    assert in_world(scene) == (0, 0)


def test_many_clients_that_leave_leave_nothing_behind() -> None:
    async def scene(world: World) -> tuple[int, int, int, int]:
        await world.ready()
        world.server.gap_s = 60
        async with anyio.create_task_group() as group:
            for number in range(300):
                group.start_soon(world.ask, asking(stream=number % 2 == 0))
            await anyio.sleep(0.01)
            group.cancel_scope.cancel()
        for answer in world.client.answers:
            answer.close()
        await anyio.sleep(1)
        status = (await world.ask(asking())).status
        await anyio.sleep(0.01)
        return status, world.upstream.open, world.gateway.leases.open_requests, world.gateway.live

    assert in_world(scene) == (200, 0, 0, 0)


def test_open_streams_end_with_an_error_when_the_gateway_stops() -> None:
    async def scene(world: World) -> tuple[Answered, float]:
        await world.ready()
        world.server.gap_s = 60
        results: list[Answered] = []

        async def ask() -> None:
            results.append(await world.ask(asking(stream=True)))

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await anyio.sleep(1)
            begun = now()
            await world.gateway.drain()
            took = now() - begun
        return results[0], took

    answer, took = in_world(scene)
    assert json.loads(data_of(answer)[-1])["error"]["code"] == "upstream_disconnected"
    assert not answer.whole
    assert took < 15


def test_a_request_that_could_not_be_sent_goes_to_another_deployment() -> None:
    async def scene(world: World) -> tuple[list[int], list[str]]:
        routes = [route("gone", "https://gone/v1/"), route("d1", ENDPOINT)]
        await world.changed(phase="ready", routes=routes)
        # Some of so many conversations are the gone one's.
        said = ([{"role": "user", "content": f"{number}"}] for number in range(12))
        statuses = [(await world.ask(asking(messages=each))).status for each in said]
        await anyio.sleep(0.1)
        return statuses, world.daemon.kinds()

    assert in_world(scene) == ([200] * 12, ["unreachable"])


def test_a_request_that_can_be_sent_nowhere_is_a_502() -> None:
    async def scene(world: World) -> Answered:
        await world.changed(phase="ready", routes=[route("gone", "https://gone/v1/")])
        return await world.ask(asking())

    assert (answer := in_world(scene)).code == "upstream_disconnected"
    assert answer.status == 502


def test_embeddings_pass() -> None:
    async def scene(world: World) -> Answered:
        await world.ready()
        return await world.ask({"model": "m1", "input": "word"}, path="/v1/embeddings")

    assert in_world(scene).status == 200
