"""Does the emulated model server behave as vLLM and llama.cpp were seen to?"""

import asyncio
from typing import Any

import anyio
import pytest

from controller.emulators.runpod import Emulator
from tests.emulators.flow import Flow, on_virtual_time
from tests.emulators.world import CHAT, World

READY: dict[str, Any] = {
    "image": "vllm/vllm-openai:v0.32.0",
    "args": "org/model --served-model-name tiny",
    "env": {"VLLM_API_KEY": "open-sesame"},
    "upstream": {"state": "ready"},
}
LLAMA: dict[str, Any] = {
    "image": "ghcr.io/ggml-org/llama.cpp:server-cuda",
    "args": "-m /m.gguf -a tiny --port 8000 --metrics",
    "env": {"LLAMA_API_KEY": "open-sesame"},
}
ASK = "/v1/chat/completions"


@pytest.mark.parametrize(
    ("path", "keyless"),
    [
        ("/health", 200),
        ("/ping", 200),
        ("/metrics", 200),
        ("/version", 200),
        ("/load", 200),
        ("/v1/models", 401),
        ("/v1/nothing", 401),
        ("/nothing", 404),
    ],
)
async def test_vllm_guards_its_v1_paths_and_leaves_the_rest_open(path: str, keyless: int) -> None:
    world = World()
    pod = await world.ready_pod()
    assert (await world.ask(pod, path)).status_code == keyless


async def test_vllm_refuses_a_wrong_key_in_its_own_words() -> None:
    world = World()
    answer = await world.ask(await world.ready_pod(), ASK, key="guess", json=CHAT)
    assert (answer.status_code, answer.json()) == (401, {"error": "Unauthorized"})


@pytest.mark.parametrize("path", ["/metrics", "/v1/models", "/slots", "/props", ASK])
async def test_llama_guards_everything_but_its_health(path: str) -> None:
    world = World()
    pod = await world.ready_pod(**LLAMA)
    refused = await world.ask(pod, path)
    assert refused.json()["error"] == {"message": "Invalid API Key", "type": "authentication_error", "code": 401}
    assert (await world.ask(pod, path, key="open-sesame")).status_code in (200, 404)
    assert (await world.ask(pod, "/health")).status_code == 200


async def test_the_key_is_the_secrets_value_and_not_the_reference() -> None:
    world = World()
    pod = await world.ready_pod()
    literal = await world.ask(pod, "/v1/models", key="{{ RUNPOD_SECRET_key }}")
    real = await world.ask(pod, "/v1/models", key="open-sesame")
    assert (literal.status_code, real.status_code) == (401, 200)


@pytest.mark.parametrize("settings", [{"secrets": {}}, {"substitute_secrets": False}])
async def test_a_reference_that_is_not_replaced_is_the_key_itself(settings: dict[str, Any]) -> None:
    world = World(**settings)
    pod = await world.ready_pod()
    assert (await world.ask(pod, "/v1/models", key="{{ RUNPOD_SECRET_key }}")).status_code == 200


async def test_without_a_key_nothing_is_guarded() -> None:
    world = World()
    pod = await world.ready_pod(env={})
    assert (await world.ask(pod, "/v1/models")).status_code == 200


async def test_the_served_name_is_in_the_models_and_in_the_metrics() -> None:
    world = World()
    pod = await world.ready_pod()
    models = (await world.ask(pod, "/v1/models", key="open-sesame")).json()
    assert [entry["id"] for entry in models["data"]] == ["tiny"]
    assert 'vllm:num_requests_running{engine="0",model_name="tiny"} 0.0' in (await world.ask(pod, "/metrics")).text


async def test_llama_metrics_name_no_model() -> None:
    world = World()
    text = (await world.ask(await world.ready_pod(**LLAMA), "/metrics", key="open-sesame")).text
    assert "llamacpp:requests_processing 0" in text
    assert "tiny" not in text


async def test_vllm_does_not_know_another_name_and_llama_does_not_look() -> None:
    world = World(token_rate=1e6)
    body = CHAT | {"model": "nope"}
    vllm = await world.ask(await world.ready_pod(), ASK, key="open-sesame", json=body)
    llama = await world.ask(await world.ready_pod(**LLAMA), ASK, key="open-sesame", json=body)
    assert (vllm.status_code, vllm.json()["error"]["type"]) == (404, "NotFoundError")
    assert (llama.status_code, llama.json()["model"]) == (200, "tiny")


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        (ASK, CHAT, 3),
        (ASK, CHAT | {"max_tokens": None}, 16),
        (ASK, CHAT | {"max_completion_tokens": 5}, 5),
        ("/v1/completions", {"model": "tiny", "prompt": "say", "max_tokens": 2}, 2),
    ],
)
async def test_an_answer_has_as_many_words_as_asked_for(path: str, body: dict[str, Any], words: int) -> None:
    world = World(token_rate=1e6)
    pod = await world.ready_pod()
    answer = (await world.ask(pod, path, key="open-sesame", json=body)).json()
    choice = answer["choices"][0]
    text = choice["message"]["content"] if "message" in choice else choice["text"]
    assert (len(text.split()), answer["usage"]["completion_tokens"]) == (words, words)
    assert (await world.ask(pod, path, key="open-sesame", json=body)).json()["choices"] == answer["choices"]


async def test_messages_and_responses_are_served_in_their_own_shapes() -> None:
    world = World(token_rate=1e6)
    pod = await world.ready_pod()
    messages = (await world.ask(pod, "/v1/messages", key="open-sesame", json=CHAT)).json()
    asked = {"model": "tiny", "input": "say", "max_output_tokens": 2}
    responses = (await world.ask(pod, "/v1/responses", key="open-sesame", json=asked)).json()
    assert (messages["type"], messages["usage"]["output_tokens"]) == ("message", 3)
    assert len(responses["output"][0]["content"][0]["text"].split()) == 2


async def test_a_prompt_longer_than_the_context_is_400() -> None:
    world = World()
    pod = await world.ready_pod(args="org/model --served-model-name tiny --max-model-len 4")
    body = CHAT | {"messages": [{"role": "user", "content": "one two three four five"}]}
    answer = await world.ask(pod, ASK, key="open-sesame", json=body)
    assert (answer.status_code, "maximum context length is 4 tokens" in answer.text) == (400, True)


@pytest.mark.parametrize("body", [[], "text", {"model": "tiny"}])
async def test_a_body_without_a_prompt_is_400(body: Any) -> None:
    world = World()
    assert (await world.ask(await world.ready_pod(), ASK, key="open-sesame", json=body)).status_code == 400


@pytest.mark.parametrize(
    ("state", "answers"),
    [
        ("booting", {"/health": 502, "/v1/models": 502}),
        ("ready", {"/health": 200, "/v1/models": 200}),
        ("hung", {"/health": 200, "/v1/models": 200}),
        ("refusing-key", {"/health": 200, "/v1/models": 401}),
        ("open", {"/health": 200, "/v1/models": 200}),
    ],
)
async def test_a_state_can_be_ordered_at_any_time(state: str, answers: dict[str, int]) -> None:
    world = World()
    pod = await world.create()
    world.emulator.change_pod(pod, {"upstream": {"state": state}})
    seen = {path: (await world.ask(pod, path, key="open-sesame")).status_code for path in answers}
    assert seen == answers


async def test_a_wrong_model_is_seen_in_the_metrics_and_does_not_know_ours() -> None:
    world = World()
    pod = await world.ready_pod()
    world.emulator.change_pod(pod, {"upstream": {"state": "wrong-model"}})
    assert 'model_name="some-other-model"' in (await world.ask(pod, "/metrics")).text
    assert (await world.ask(pod, ASK, key="open-sesame", json=CHAT)).status_code == 404


def upstream_of(emulator: Emulator, pod: str) -> dict[str, int]:
    found: dict[str, int] = next(e["upstream"] for e in emulator.truth()["pods"] if e["id"] == pod)
    return found


def test_a_stream_comes_word_by_word_with_usage_and_done_at_the_end() -> None:
    async def main(emulator: Emulator) -> tuple[list[Any], list[float], dict[str, int]]:
        pod, flow = emulator.put_pod(READY | {"upstream": {"state": "ready", "first_token_seconds": 2}}), Flow()
        body = CHAT | {"stream": True, "stream_options": {"include_usage": True}}
        await flow.run(emulator, "POST", f"/proxy/{pod}/8000{ASK}", key="open-sesame", body=body)
        return flow.events(), [at for at, _ in flow.pieces], upstream_of(emulator, pod)

    events, times, counts = on_virtual_time(main, token_rate=10)
    assert times == pytest.approx([0, 2.1, 2.2, 2.3, 2.3, 2.3])
    assert [bool(event["choices"]) for event in events[:-1]] == [True] * 4 + [False]
    assert (events[-2]["usage"]["completion_tokens"], events[-1]) == (3, "[DONE]")
    assert counts == {"running": 0, "aborted": 0, "requests": 1}


@pytest.mark.parametrize("streams", [True, False])
def test_a_client_that_leaves_ends_its_request_at_once_and_is_counted(streams: bool) -> None:
    async def main(emulator: Emulator) -> list[dict[str, int]]:
        pod, flow = emulator.put_pod(READY), Flow()
        body = CHAT | {"stream": streams, "max_tokens": 100_000}
        seen = []
        async with anyio.create_task_group() as group:
            group.start_soon(
                lambda: flow.run(emulator, "POST", f"/proxy/{pod}/8000{ASK}", key="open-sesame", body=body)
            )
            await anyio.sleep(5)
            seen.append(upstream_of(emulator, pod))
            flow.leave()
            await flow.ended.wait()
            seen.append(upstream_of(emulator, pod))
            assert asyncio.get_running_loop().time() == pytest.approx(5)
        return seen

    assert on_virtual_time(main) == [
        {"running": 1, "aborted": 0, "requests": 1},
        {"running": 0, "aborted": 1, "requests": 1},
    ]


@pytest.mark.parametrize("end", [{"vanish": True}, {"status": "EXITED"}, {"restart": True}])
def test_a_pod_that_ends_breaks_its_streams_off(end: dict[str, Any]) -> None:
    async def main(emulator: Emulator) -> tuple[bool, dict[str, int]]:
        pod, flow = emulator.put_pod(READY), Flow()
        body = CHAT | {"stream": True, "max_tokens": 100_000}
        async with anyio.create_task_group() as group:
            group.start_soon(
                lambda: flow.run(emulator, "POST", f"/proxy/{pod}/8000{ASK}", key="open-sesame", body=body)
            )
            await anyio.sleep(5)
            emulator.change_pod(pod, end)
        return flow.cut, upstream_of(emulator, pod)

    assert on_virtual_time(main) == (True, {"running": 0, "aborted": 0, "requests": 1})


def test_a_server_that_hangs_falls_silent_in_the_middle_of_its_streams() -> None:
    async def main(emulator: Emulator) -> tuple[bool, float, float]:
        pod, flow = emulator.put_pod(READY), Flow()
        body = CHAT | {"stream": True, "max_tokens": 100_000}
        async with anyio.create_task_group() as group:
            group.start_soon(
                lambda: flow.run(emulator, "POST", f"/proxy/{pod}/8000{ASK}", key="open-sesame", body=body)
            )
            await anyio.sleep(5)
            emulator.change_pod(pod, {"upstream": {"state": "hung"}})
        return flow.cut, flow.pieces[-1][0], asyncio.get_running_loop().time()

    cut, last_word_at, ended_at = on_virtual_time(main)
    assert cut
    assert (last_word_at, ended_at) == pytest.approx((5, 105), abs=0.1)


def test_a_crash_loop_ordered_later_begins_with_a_crash() -> None:
    async def main(emulator: Emulator) -> tuple[bool, float]:
        pod, flow = emulator.put_pod(READY), Flow()
        body = CHAT | {"stream": True, "max_tokens": 100_000}
        async with anyio.create_task_group() as group:
            group.start_soon(
                lambda: flow.run(emulator, "POST", f"/proxy/{pod}/8000{ASK}", key="open-sesame", body=body)
            )
            await anyio.sleep(5)
            emulator.change_pod(pod, {"upstream": {"crash_every_seconds": 40}})
        return flow.cut, asyncio.get_running_loop().time()

    cut, ended_at = on_virtual_time(main)
    assert cut
    assert ended_at == pytest.approx(5)


def test_a_server_that_dies_after_some_words_breaks_off_and_starts_anew() -> None:
    async def main(emulator: Emulator) -> tuple[bool, int, int | None]:
        pod, flow = emulator.put_pod(READY | {"upstream": {"state": "ready", "die_after_chunks": 2}}), Flow()
        body = CHAT | {"stream": True, "max_tokens": 50}
        await anyio.sleep(100)
        await flow.run(emulator, "POST", f"/proxy/{pod}/8000{ASK}", key="open-sesame", body=body)
        shown = Flow()
        await anyio.sleep(1)
        await shown.run(emulator, "GET", f"/v2/pods/{pod}", key="any")
        events = [event for event in flow.events() if event["choices"][0]["delta"]["content"]]
        return flow.cut, len(events), int(shown.body.decode().split('"uptime":')[1].split(",")[0])

    assert on_virtual_time(main) == (True, 2, 1)


def test_a_whole_answer_from_a_server_that_dies_is_502() -> None:
    async def main(emulator: Emulator) -> int | None:
        pod, flow = emulator.put_pod(READY | {"upstream": {"state": "ready", "die_after_chunks": 2}}), Flow()
        await flow.run(emulator, "POST", f"/proxy/{pod}/8000{ASK}", key="open-sesame", body=CHAT)
        return flow.status

    assert on_virtual_time(main) == 502


def test_a_crash_breaks_off_a_stream_at_its_time() -> None:
    async def main(emulator: Emulator) -> tuple[bool, float]:
        pod, flow = emulator.put_pod(READY | {"upstream": {"state": "ready", "crash_every_seconds": 30}}), Flow()
        body = CHAT | {"stream": True, "max_tokens": 100_000}
        await anyio.sleep(10)
        await flow.run(emulator, "POST", f"/proxy/{pod}/8000{ASK}", key="open-sesame", body=body)
        return flow.cut, asyncio.get_running_loop().time()

    assert on_virtual_time(main) == (True, 30)


async def process_start(world: World, pod: str) -> float:
    page = (await world.ask(pod, "/metrics")).text
    (line,) = [line for line in page.splitlines() if line.startswith("process_start_time_seconds ")]
    return float(line.rpartition(" ")[2])


async def test_a_process_that_starts_anew_moves_its_own_start_and_nothing_that_the_provider_shows() -> None:
    world = World()
    pod = await world.ready_pod()
    before, shown = await process_start(world, pod), await world.read(pod)
    world.emulator.change_pod(pod, {"upstream": {"state": "ready", "respawn_every_seconds": 60}})
    world.now += 59
    assert await process_start(world, pod) == before
    world.now += 1
    assert await process_start(world, pod) == world.now
    after = await world.read(pod)
    assert after["startedAt"] == shown["startedAt"]
    assert after["runtime"]["uptime"] == shown["runtime"]["uptime"] + 60


def test_an_engine_that_hangs_goes_on_saying_what_it_counted_last() -> None:
    async def main(emulator: Emulator) -> list[str]:
        pod, flow, page = emulator.put_pod(READY), Flow(), Flow()
        body = CHAT | {"stream": True, "max_tokens": 100_000}
        async with anyio.create_task_group() as group:
            group.start_soon(
                lambda: flow.run(emulator, "POST", f"/proxy/{pod}/8000{ASK}", key="open-sesame", body=body)
            )
            await anyio.sleep(5)
            emulator.change_pod(pod, {"upstream": {"state": "hung"}})
            group.cancel_scope.cancel()
        await page.run(emulator, "GET", f"/proxy/{pod}/8000/metrics", key="any")
        return [line for line in page.body.decode().splitlines() if line.startswith("vllm:num_requests_running{")]

    (line,) = on_virtual_time(main)
    assert line.endswith(" 1.0")
