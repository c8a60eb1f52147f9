"""Does the emulator behave on a real socket as in process?"""

import contextlib
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.abc
import httpx
import pytest

from controller.emulators.runpod import Emulator, Settings, build_app, run_emulator
from controller.emulators.serve import open_listener, serve
from tests.emulators.flow import until
from tests.emulators.world import CHAT

HEADERS = {"authorization": "Bearer open-sesame", "user-agent": "tests"}
READY: dict[str, Any] = {
    "image": "vllm/vllm-openai:v0.32.0",
    "args": "org/model --served-model-name tiny",
    "env": {"VLLM_API_KEY": "open-sesame"},
    "upstream": {"state": "ready"},
}


@asynccontextmanager
async def served(emulator: Emulator) -> AsyncIterator[httpx.AsyncClient]:
    listener = open_listener("127.0.0.1", 0)
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: serve(build_app(emulator), listen=listener))
        async with httpx.AsyncClient(base_url=address, headers=HEADERS) as client:
            yield client
        group.cancel_scope.cancel()


def upstream(emulator: Emulator, pod: str) -> dict[str, int]:
    found: dict[str, int] = next(e["upstream"] for e in emulator.truth()["pods"] if e["id"] == pod)
    return found


async def test_a_dropped_call_resets_the_connection() -> None:
    emulator = Emulator()
    emulator.add_faults([{"match": {"path": "/v2/pods"}, "times": 1, "do": {"drop": "before"}}])
    async with served(emulator) as client:
        with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
            await client.get("/v2/pods")
        assert (await client.get("/v2/pods")).status_code == 200


async def test_a_truncated_answer_ends_before_its_stated_length() -> None:
    emulator = Emulator()
    emulator.add_faults([{"match": {"path": "/v2/pods"}, "do": {"malformed": "truncated"}}])
    async with served(emulator) as client:
        with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
            await client.get("/v2/pods")


@pytest.mark.parametrize("reset", [True, False])
async def test_a_client_that_closes_or_resets_its_connection_aborts_the_request(reset: bool) -> None:
    emulator = Emulator()
    pod = emulator.put_pod(READY)
    async with served(emulator) as client:
        body = json.dumps(CHAT | {"stream": True, "max_tokens": 100_000})
        stream = await anyio.connect_tcp("127.0.0.1", client.base_url.port or 0)
        head = (
            f"POST /proxy/{pod}/8000/v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer open-sesame\r\n"
        )
        await stream.send(f"{head}content-length: {len(body)}\r\n\r\n{body}".encode())
        assert (await stream.receive()).startswith(b"HTTP/1.1 200")
        await until(lambda: upstream(emulator, pod)["running"] == 1)
        if reset:
            raw = stream.extra(anyio.abc.SocketAttribute.raw_socket)
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        await stream.aclose()
        await until(lambda: upstream(emulator, pod) == {"running": 0, "aborted": 1, "requests": 1})


async def test_a_model_server_that_dies_resets_its_streams() -> None:
    emulator = Emulator()
    pod = emulator.put_pod(READY | {"upstream": {"state": "ready", "die_after_chunks": 2}})
    async with served(emulator) as client:
        body = CHAT | {"stream": True, "max_tokens": 50}
        with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
            await client.post(f"/proxy/{pod}/8000/v1/chat/completions", json=body)


async def test_serving_ends_at_once_when_cancelled_though_a_stream_is_open() -> None:
    emulator = Emulator()
    pod = emulator.put_pod(READY)
    body = CHAT | {"stream": True, "max_tokens": 100_000}

    async def listen_on(client: httpx.AsyncClient) -> None:
        with contextlib.suppress(httpx.HTTPError):
            await client.post(f"/proxy/{pod}/8000/v1/chat/completions", json=body)

    with anyio.fail_after(1):
        async with served(emulator) as client, anyio.create_task_group() as group:
            group.start_soon(listen_on, client)
            await until(lambda: upstream(emulator, pod)["running"] == 1)
            group.cancel_scope.cancel()
    assert upstream(emulator, pod)["running"] == 0


async def test_nothing_is_logged_about_connections_that_were_reset_on_purpose(caplog: pytest.LogCaptureFixture) -> None:
    emulator = Emulator()
    emulator.add_faults([{"match": {"path": "/v2/pods"}, "do": {"drop": "after"}}])
    async with served(emulator) as client:
        with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
            await client.get("/v2/pods")
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


async def test_serving_frees_its_port_when_cancelled() -> None:
    listener = open_listener("127.0.0.1", 0)
    port = listener.getsockname()[1]
    with anyio.fail_after(2):
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: run_emulator(listen=listener, settings=Settings()))
            async with httpx.AsyncClient(headers=HEADERS) as client:
                assert (await client.get(f"http://127.0.0.1:{port}/v2/pods")).status_code == 200
            group.cancel_scope.cancel()
    open_listener("127.0.0.1", port).close()


async def test_an_address_that_is_taken_is_refused() -> None:
    with open_listener("127.0.0.1", 0) as taken, pytest.raises(OSError, match="in use"):
        open_listener("127.0.0.1", taken.getsockname()[1])
