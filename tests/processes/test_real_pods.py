"""Does a client get real llama.cpp's words out of a pod that was rented for it, and does each key stay on its side?

Everything between our processes and the pod passes a wire that keeps what it saw.
"""

import hashlib
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import anyio
import httpx
import pytest
from anyio.abc import ByteStream, SocketAttribute

from controller.emulators.llama.tiny_gguf import write_tiny_model
from tests.processes.box import SERVER_KEY, Box, box

pytestmark = pytest.mark.process

CLIENT_KEY = "a-clients-key"
BROWSER = {"user-agent": "Mozilla/5.0"}
"""The provider's proxy refuses robots."""
MODEL = 'server = "llama_cpp"\nserved_name = "m1"\nwires = ["chat", "completions"]\nprobe_key_file = "keys/m1"'
ASK = {"model": "m1", "messages": [{"role": "user", "content": "count"}], "max_tokens": 5}


@dataclass
class Tap:
    """Passes bytes on to `port`, and keeps those of each direction."""

    port: int = 0
    listening: int = 0
    asked: bytearray = field(default_factory=bytearray)
    answered: bytearray = field(default_factory=bytearray)

    async def serve(self, near: ByteStream) -> None:
        async with near, await anyio.connect_tcp("127.0.0.1", self.port) as far, anyio.create_task_group() as group:
            group.start_soon(_pass, near, far, self.asked)
            await _pass(far, near, self.answered)
            group.cancel_scope.cancel()


async def _pass(source: ByteStream, target: ByteStream, kept: bytearray) -> None:
    with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
        while True:
            data = await source.receive()
            kept.extend(data)
            await target.send(data)


@asynccontextmanager
async def rented_llama() -> AsyncIterator[tuple[Box, Tap]]:
    """A config whose pods run llama.cpp, and a daemon and a gateway that have rented none."""
    tap = Tap()
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    tap.listening = listener.extra(SocketAttribute.local_port)
    async with listener, box() as world, anyio.create_task_group() as group:
        group.start_soon(listener.serve, tap.serve)
        tap.port = urlsplit(world.provider).port or 0
        write_tiny_model(world.folder / "tiny.gguf")
        program = [sys.executable, "-m", "controller.emulators.llama", "--model", str(world.folder / "tiny.gguf")]
        await world.order({"exec": {"*": [*program, "--port", "{port}", "--alias", "m1"]}})
        world.configure(model=MODEL, gateway=f'keys = ["sha256:{hashlib.sha256(CLIENT_KEY.encode()).hexdigest()}"]')
        text = world.config.read_text().replace("vllm/vllm-openai:v0.31.0", "ghcr.io/ggml-org/llama.cpp:server-b6500")
        proxy = f'proxy_url = "{world.provider}'
        assert proxy in text
        world.config.write_text(text.replace(proxy, f'proxy_url = "http://127.0.0.1:{tap.listening}'))
        await world.run_daemon()
        await world.run_gateway()
        yield world, tap
        group.cancel_scope.cancel()


async def test_a_pod_s_key_opens_that_pod_alone_and_a_client_s_the_gateway_alone() -> None:
    async with rented_llama() as (world, tap), httpx.AsyncClient(timeout=30, trust_env=False) as client:

        async def told(address: str, key: str | None) -> httpx.Response:
            headers = BROWSER if key is None else {"authorization": f"Bearer {key}"} | BROWSER
            return await client.post(f"{address}/chat/completions", json=ASK, headers=headers)

        answer = await told(world.address, CLIENT_KEY)
        assert answer.status_code == 200 and answer.json()["choices"][0]["message"]["content"]
        assert SERVER_KEY not in answer.text and SERVER_KEY not in str(answer.headers)
        (pod,) = await world.alive()
        at_pod = f"{world.provider}/proxy/{pod['id']}/8000/v1"
        statuses = [(await told(at_pod, key)).status_code for key in (SERVER_KEY, None, CLIENT_KEY, "another")]
        assert statuses == [200, 401, 401, 401]
        assert [(await told(world.address, key)).status_code for key in (SERVER_KEY, None)] == [401, 401]
        (create,) = await world.creates()
        assert SERVER_KEY not in str(create)
    assert b"Bearer " + SERVER_KEY.encode() in tap.asked
    assert CLIENT_KEY.encode() not in tap.asked
    assert SERVER_KEY.encode() not in tap.answered
