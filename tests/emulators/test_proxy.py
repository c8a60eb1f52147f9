"""Does the emulated proxy answer as Runpod's does, whatever is or is not behind it?"""

import asyncio

import anyio
import pytest

from controller.emulators.runpod import Emulator
from tests.emulators.flow import Flow, on_virtual_time
from tests.emulators.world import CHAT, World

HUNG = {"ports": ["8000/http"], "args": "org/model", "upstream": {"state": "hung"}, "image": "vllm/x:1"}


@pytest.mark.parametrize("agent", ["python-httpx/0.28.1", "Python-urllib/3.11", "python-requests/2", "aiohttp/3.9"])
async def test_default_agents_of_python_libraries_are_turned_away(agent: str) -> None:
    world = World()
    answer = await world.client.get(f"/proxy/{await world.ready_pod()}/8000/health", headers={"user-agent": agent})
    assert (answer.status_code, answer.text) == (403, "error code: 1010")


async def test_a_port_that_is_not_exposed_over_http_is_404() -> None:
    world = World()
    pod = await world.ready_pod(ports=["8000", "8001/tcp"])
    for port in (8000, 8001, 9999):
        assert (await world.client.get(f"/proxy/{pod}/{port}/health")).status_code == 404


async def test_an_unknown_or_deleted_pod_is_404() -> None:
    world = World()
    pod = await world.ready_pod()
    await world.client.delete(f"/v2/pods/{pod}")
    assert (await world.ask(pod, "/health")).status_code == 404
    assert (await world.ask("nobody", "/health")).status_code == 404


async def test_vllm_is_502_until_it_is_loaded_and_then_healthy_with_an_empty_body() -> None:
    world = World(boot_seconds=20, ready_seconds=30)
    pod = await world.create()
    seen = []
    for moment in (0, 21, 49, 50):
        world.now = world.emulator.pods[pod].created_at + moment
        answer = await world.ask(pod, "/health")
        seen.append((answer.status_code, answer.text))
    assert seen == [(502, "error code: 502")] * 3 + [(200, "")]


async def test_llama_is_502_then_loading_then_healthy() -> None:
    world = World(boot_seconds=20, ready_seconds=30)
    pod = await world.create(image="ghcr.io/ggml-org/llama.cpp:server-cuda", args="-m x.gguf --port 8000 -a tiny")
    seen = []
    for moment in (19, 20, 50):
        world.now = world.emulator.pods[pod].created_at + moment
        seen.append((await world.ask(pod, "/health")).status_code)
    assert seen == [502, 503, 200]
    assert (await world.ask(pod, "/health")).json() == {"status": "ok"}


async def test_a_server_bound_to_loopback_is_reached_only_through_a_program_in_front() -> None:
    world = World()
    bare = await world.create(args="org/model --host 127.0.0.1")
    serve = ["vllm", "serve", "org/model", "--host", "127.0.0.1", "--port", "8001"]
    fronted = await world.ready_pod(entrypoint=["python3", "/guard.py"], cmd=serve, args="")
    assert (await world.ask(bare, "/health")).status_code == 502
    assert (await world.ask(fronted, "/health")).status_code == 200


async def test_a_container_that_runs_no_model_server_is_502() -> None:
    world = World()
    pod = await world.ready_pod(image="debian:12", args="sleep infinity")
    assert (await world.ask(pod, "/health")).status_code == 502


def test_no_byte_for_100_seconds_is_524() -> None:
    async def main(emulator: Emulator) -> tuple[int | None, bytes, float]:
        pod, flow = emulator.put_pod(HUNG), Flow()
        await flow.run(emulator, "POST", f"/proxy/{pod}/8000/v1/chat/completions", key="any", body=CHAT)
        return flow.status, flow.body, asyncio.get_running_loop().time()

    assert on_virtual_time(main) == (524, b"error code: 524", 100)


def test_a_stream_that_falls_silent_for_100_seconds_is_broken_off() -> None:
    async def main(emulator: Emulator) -> tuple[int | None, bool, float]:
        slow = HUNG | {"upstream": {"state": "ready", "first_token_seconds": 500}}
        pod, flow = emulator.put_pod(slow), Flow()
        body = CHAT | {"stream": True, "model": "org/model"}
        await flow.run(emulator, "POST", f"/proxy/{pod}/8000/v1/chat/completions", key="any", body=body)
        return flow.status, flow.cut, asyncio.get_running_loop().time()

    assert on_virtual_time(main) == (200, True, 100)


def test_a_stream_with_signs_of_life_outlasts_100_seconds() -> None:
    async def main(emulator: Emulator) -> tuple[bool, bool]:
        slow = HUNG | {"args": "org/model --sse-keep-alive-interval 15", "upstream": {"first_token_seconds": 500}}
        pod, flow = emulator.put_pod(slow), Flow()
        await anyio.sleep(60)
        body = CHAT | {"stream": True, "model": "org/model"}
        await flow.run(emulator, "POST", f"/proxy/{pod}/8000/v1/chat/completions", key="any", body=body)
        return flow.cut, flow.body.count(b": keep-alive\n\n") > 30 and flow.events()[-1] == "[DONE]"

    assert on_virtual_time(main) == (False, True)


def test_a_dripping_answer_comes_at_the_ordered_rate() -> None:
    async def main(emulator: Emulator) -> tuple[float, int]:
        emulator.add_faults([{"match": {"path": "/v2/pods"}, "do": {"drip": 10}}])
        flow = Flow()
        await flow.run(emulator, "GET", "/v2/pods", key="any")
        return asyncio.get_running_loop().time(), len(flow.body)

    seconds, size = on_virtual_time(main)
    assert seconds == pytest.approx(size / 10)


def test_the_log_stream_gives_old_and_new_lines_until_the_pod_ends() -> None:
    async def main(emulator: Emulator) -> list[str]:
        pod, flow = emulator.put_pod({"log": ["one", "two", "three"]}), Flow()
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: flow.run(emulator, "GET", f"/v2/pods/{pod}/logs?tail=2", key="any"))
            await anyio.sleep(10)
            emulator.change_pod(pod, {"log": ["four"]})
            await anyio.sleep(10)
            emulator.change_pod(pod, {"vanish": True})
        return [event["line"] for event in flow.events()]

    assert on_virtual_time(main) == ["two", "three", "four"]
