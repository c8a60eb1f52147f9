"""Do real programs run behind pods exactly as long as their pods do, and never longer than the emulator?"""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from controller.emulators import tether
from controller.emulators.llama.tiny_gguf import write_tiny_model
from controller.emulators.runpod import Emulator, Settings, build_app
from controller.emulators.serve import open_listener, serve
from tests.emulators.flow import until
from tests.emulators.world import CHAT

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]
# Another program's text: its endless answer keeps a pace, so that it leaves the machine to others.
ECHO = """
import http.server, os, sys, time
class Echo(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        said = (os.environ.get("MODEL_KEY", "") + " " + sys.argv[2]).encode()
        self.send_response(200); self.send_header("content-length", str(len(said))); self.end_headers()
        self.wfile.write(said)
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200); self.end_headers()
        while True:
            self.wfile.write(b"x" * 1000); self.wfile.flush(); time.sleep(0.01)
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Echo).serve_forever()
"""
POD: dict[str, Any] = {"args": "org/model --served-model-name tiny", "env": {"MODEL_KEY": "{{ RUNPOD_SECRET_key }}"}}
HEADERS = {"authorization": "Bearer open-sesame", "user-agent": "tests"}


def behind(*program: str) -> Emulator:
    settings = Settings(secrets={"key": "open-sesame"}, exec={"*": list(program)}, boot_seconds=0)
    return Emulator(settings=settings)


@asynccontextmanager
async def served(emulator: Emulator) -> AsyncIterator[httpx.AsyncClient]:
    listener = open_listener("127.0.0.1", 0)
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: serve(build_app(emulator), listen=listener))
        group.start_soon(emulator.children.keep, emulator)
        try:
            async with httpx.AsyncClient(base_url=address, headers=HEADERS) as client:
                yield client
        finally:
            with anyio.CancelScope(shield=True):
                await emulator.close()
            group.cancel_scope.cancel()


async def answered(client: httpx.AsyncClient, path: str) -> httpx.Response:
    """The first answer of a program that has come up."""
    answer = await client.get(path)
    with anyio.fail_after(10):
        while answer.status_code in (502, 503):
            await anyio.sleep(0.02)
            answer = await client.get(path)
    return answer


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_the_program_gets_its_port_its_model_and_the_resolved_environment() -> None:
    emulator = behind(sys.executable, "-c", ECHO, "{port}", "{model}")
    pod = emulator.put_pod(POD)
    async with served(emulator) as client:
        assert (await answered(client, f"/proxy/{pod}/8000/")).text == "open-sesame tiny"


async def test_the_program_ends_with_its_pod() -> None:
    emulator = behind(sys.executable, "-c", ECHO, "{port}", "{model}")
    pod = emulator.put_pod(POD)
    async with served(emulator) as client:
        await answered(client, f"/proxy/{pod}/8000/")
        (pid,) = emulator.children.pids()
        emulator.change_pod(pod, {"vanish": True})
        await until(lambda: not alive(pid))


async def test_a_program_that_ends_by_itself_is_started_anew() -> None:
    emulator = behind(sys.executable, "-c", ECHO, "{port}", "{model}")
    pod = emulator.put_pod(POD)
    async with served(emulator) as client:
        await answered(client, f"/proxy/{pod}/8000/")
        (first,) = emulator.children.pids()
        os.kill(first, signal.SIGKILL)
        await until(lambda: emulator.children.pids() not in ([], [first]))
        assert (await answered(client, f"/proxy/{pod}/8000/")).status_code == 200


async def test_a_program_that_ignores_sigterm_is_killed() -> None:
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    emulator = behind(sys.executable, "-c", deaf)
    emulator.put_pod(POD)
    await emulator.children.tend(emulator)
    (pid,) = emulator.children.pids()
    await emulator.close()
    assert not alive(pid)


async def test_a_client_that_leaves_is_left_by_the_proxy_too() -> None:
    emulator = behind(sys.executable, "-c", ECHO, "{port}", "{model}")
    pod = emulator.put_pod(POD)
    async with served(emulator) as client:
        await answered(client, f"/proxy/{pod}/8000/")
        async with client.stream("POST", f"/proxy/{pod}/8000/v1/chat/completions", json=CHAT) as stream:
            assert len(await anext(stream.aiter_raw())) > 0
            assert len(emulator.pods[pod].upstream.open) == 1
        await until(lambda: emulator.pods[pod].upstream.aborted == 1)


def test_a_tethered_program_dies_with_the_one_that_started_it() -> None:
    starter = (
        "import os, subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, {tether.__file__!r}, str(os.getpid()), 'sleep', '60'])\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", starter], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert alive(pid)
        parent.kill()
    anyio.run(until, lambda: not alive(pid))


def test_a_tethered_program_whose_starter_is_gone_already_does_not_start() -> None:
    ran = subprocess.run([sys.executable, tether.__file__, "1", "echo", "started"], capture_output=True, check=False)
    assert (ran.returncode, ran.stdout) == (1, b"")


async def test_a_real_model_server_streams_readable_words_through_the_proxy(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp")
    write_tiny_model(tmp_path / "tiny.gguf")
    program = [sys.executable, "-m", "controller.emulators.llama", "--model", str(tmp_path / "tiny.gguf")]
    emulator = behind("env", f"PYTHONPATH={ROOT}", *program, "--port", "{port}", "--alias", "{model}")
    pod = emulator.put_pod(POD | {"env": {"LLAMA_API_KEY": "{{ RUNPOD_SECRET_key }}"}})
    async with served(emulator) as client:
        assert (await answered(client, f"/proxy/{pod}/8000/health")).json() == {"status": "ok"}
        refused = await client.get(f"/proxy/{pod}/8000/v1/models", headers={"authorization": "Bearer wrong"})
        body = CHAT | {"stream": True, "max_tokens": 5, "ignore_eos": True}
        text = (await client.post(f"/proxy/{pod}/8000/v1/chat/completions", json=body)).text
        assert refused.status_code == 401
        assert text.endswith("data: [DONE]\n\n")
        assert text.count('"content":" ') == 5
