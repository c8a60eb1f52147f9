"""What does the demo run, and how does all of it end?

In a temporary folder, on loopback: the Runpod emulator with llama.cpp's real server behind its pods, the daemon and the
gateway, each a child process, with short numbers so that a whole life takes half a minute. However it ends, no process,
no emulated pod and no folder is left.
"""

import json
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup, TaskStatus

from controller.api.client import DaemonClient, Problem, Unreachable
from controller.children import Child, start
from controller.demo import story, table
from controller.emulators.llama.tiny_gguf import write_tiny_model
from controller.http1 import Outgoing, Pool, WireError
from controller.ids import SystemRandomness

ALIAS: Final = "tiny"
START_LIMIT: Final = timedelta(seconds=60)
PORT_WISHED: Final = 8080

CONFIG: Final = """
name = "demo-{installation}"
usd_per_day = 50
state_dir = "{folder}/state"

[runpod]
base_url = "http://127.0.0.1:{emulator}/v2"
proxy_url = "http://127.0.0.1:{emulator}/proxy/{{pod}}/{{port}}"

[gateway]
listen = "127.0.0.1:{gateway}"

[policy]                       # short numbers: a real config leaves these out
listing_fast = "1s"
listing_steady = "2s"
listing_idle = "5s"
settle = "10s"
orphan_grace = "10s"
stream_lease = "3s"
stream_lease_renewal = "1s"

[models.{alias}]
model = "demo/tiny-words"
server = "llama_cpp"
served_name = "{alias}"
image = "ghcr.io/ggml-org/llama.cpp:server-b6500"
gpus = ["NVIDIA L40S", "NVIDIA A40"]
context = 2048
max_num_seqs = 4
wires = ["chat", "completions"]
probe_key_file = "keys/{alias}"
idle_after = "10s"
startup_deadline = "60s"
"""


@dataclass(slots=True, kw_only=True)
class Stage:
    """A running demo."""

    folder: Path
    emulator_port: int
    gateway_port: int
    children: list[Child] = field(default_factory=list)
    setup_seconds: float = 0.0
    lines: list[str] = field(default_factory=list)
    """What the children said, newest last."""
    pool: Pool = field(default_factory=Pool)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.gateway_port}/v1"

    @property
    def evidence(self) -> Path:
        return self.folder / "state" / "evidence.jsonl"

    @property
    def config(self) -> Path:
        return self.folder / "config.toml"

    @property
    def daemon(self) -> DaemonClient:
        return DaemonClient.at_socket(str(self.folder / "state" / "api.sock"))

    async def truth(self) -> dict[str, Any]:
        """What the provider knows, for comparison with what we believe."""
        found: dict[str, Any] = json.loads(await self._emulator("GET", "/_emulator/truth"))
        return found

    async def billing(self) -> list[str]:
        """Names of the pods that exist."""
        return [machine["name"] for machine in (await self.truth())["pods"] if machine["deleted_at"] is None]

    async def set_up_emulator(self, settings: dict[str, Any]) -> None:
        await self._emulator("PATCH", "/_emulator/settings", json.dumps(settings).encode())

    async def _emulator(self, method: str, path: str, body: bytes = b"") -> bytes:
        headers = ((b"content-type", b"application/json"),) if body else ()
        url = f"http://127.0.0.1:{self.emulator_port}{path}"
        answer = await self.pool.send(Outgoing(method=method, url=url, headers=headers, body=body))
        return await answer.read(1 << 24)

    def heard(self, name: str, line: str) -> None:
        self.lines.append(f"{name:>8} | {line}")
        del self.lines[:-500]


def run(*, script: bool) -> int:
    """Set the stage, play, take it down. Returns the exit code."""
    return anyio.run(partial(_run, script=script))


async def _run(*, script: bool) -> int:
    code = 1
    async with anyio.create_task_group() as watching:
        asked, play = anyio.Event(), anyio.CancelScope()
        if script:
            asked.set()  # nothing in it looks for the wish to end, so that the first signal has to cut it short
        await watching.start(_watch_signals, asked, play)
        with play:
            async with anyio.create_task_group() as group:
                async with stage(group) as scene:
                    if script:
                        code = await story.play(scene)
                    else:
                        code = 0  # however often the end is asked for
                        _greet(scene)
                        await table.show(scene, asked)
                group.cancel_scope.cancel()
        watching.cancel_scope.cancel()
    return code


async def _watch_signals(
    asked: anyio.Event, play: anyio.CancelScope, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
) -> None:
    """The first signal ends the show, a second one all that still waits; no further one cuts the tidying short."""
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
        task_status.started()
        async for _ in signals:
            if asked.is_set():
                play.cancel()
            asked.set()


@asynccontextmanager
async def stage(group: TaskGroup) -> AsyncIterator[Stage]:
    """Everything up; on leaving, everything down, in seconds."""
    began = time.perf_counter()
    folder = Path(tempfile.mkdtemp(prefix="gpuwarden-demo-"))
    holders = [_held_port(None), _held_port(PORT_WISHED)]
    emulator_port, gateway_port = (int(holder.getsockname()[1]) for holder in holders)
    scene = Stage(folder=folder, emulator_port=emulator_port, gateway_port=gateway_port)
    try:
        settings = _write_files(scene)
        await _start_all(scene, group, settings)
        earlier = float(os.environ.get("GPUWARDEN_DEMO_SETUP_SECONDS", "0") or 0)
        scene.setup_seconds = round(earlier + time.perf_counter() - began, 1)
        yield scene
    finally:
        with anyio.CancelScope(shield=True):
            await _end_all(scene)
        for holder in holders:
            holder.close()
        shutil.rmtree(folder, ignore_errors=True)


def _held_port(wished: int | None) -> socket.socket:
    """A free port on loopback, kept from others until its holder is closed; a server of ours may listen there."""
    for port in (wished, 0):
        if port is None:
            continue
        holder = socket.socket()
        try:
            holder.bind(("127.0.0.1", port))  # plainly: a port that somebody else holds so is not free
        except OSError:
            holder.close()
            continue
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        return holder
    raise OSError("no free port on loopback")


def _write_files(scene: Stage) -> dict[str, Any]:
    """Config, keys and the model; returns the emulator's settings."""
    draw = SystemRandomness()
    write_tiny_model(scene.folder / "tiny.gguf")
    keys = scene.folder / "keys"
    keys.mkdir(mode=0o700)
    server_key = draw.token_hex(24)
    for name, value in (("runpod", draw.token_hex(24)), (ALIAS, server_key)):
        path = keys / name
        path.touch(mode=0o600)
        path.write_text(value)
    scene.config.touch(mode=0o600)
    scene.config.write_text(
        CONFIG.format(
            installation=draw.token_hex(2),
            folder=scene.folder,
            emulator=scene.emulator_port,
            gateway=scene.gateway_port,
            alias=ALIAS,
        )
    )
    program = [sys.executable, "-m", "controller.emulators.llama", "--model", str(scene.folder / "tiny.gguf")]
    return {
        "boot_seconds": 2,
        "ready_seconds": 1,
        "secrets": {f"vllm_{ALIAS}": server_key},
        "exec": {"*": [*program, "--port", "{port}", "--alias", ALIAS]},
    }


async def _start_all(scene: Stage, group: TaskGroup, settings: dict[str, Any]) -> None:
    option = ["--config", str(scene.config)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GPUWARDEN_")}
    commands = (
        ("emulator", ["emulate", "runpod", "--listen", f"127.0.0.1:{scene.emulator_port}"]),
        ("daemon", ["run", *option]),
        ("gateway", ["gateway", *option]),
    )
    with anyio.fail_after(START_LIMIT.total_seconds()):
        for name, arguments in commands:
            child = await start(name, arguments, group=group, say=scene.heard, environment=environment)
            scene.children.append(child)
            await _answers(scene, child)
            if name == "emulator":
                await scene.set_up_emulator(settings)


async def _answers(scene: Stage, child: Child) -> None:
    """Wait until a child serves. Raises RuntimeError with what it said if it ended instead."""
    while True:
        if not child.running:
            raise RuntimeError(f"the {child.name} ended:\n" + "\n".join(scene.lines[-20:]))
        try:
            if child.name == "emulator":
                await scene.truth()
            elif child.name == "daemon":
                await scene.daemon.get("/healthz")
            else:
                url = f"http://127.0.0.1:{scene.gateway_port}/healthz"
                await (await scene.pool.send(Outgoing(method="GET", url=url, headers=(), body=b""))).read(1 << 16)
        except (WireError, Unreachable, Problem):
            await anyio.sleep(0.05)
        else:
            return


async def _end_all(scene: Stage) -> None:
    """Stop the pods through the daemon, then the processes, the emulator last."""
    with anyio.move_on_after(3):
        await _stop_machines(scene)
    async with anyio.create_task_group() as ending:
        for child in scene.children[1:]:
            ending.start_soon(partial(child.end, limit=timedelta(seconds=5)))
    for child in scene.children[:1]:
        await child.end(limit=timedelta(seconds=5))


async def _stop_machines(scene: Stage) -> None:
    try:
        await scene.daemon.post("/v1/stop", {"now": True})
        while await scene.billing():  # noqa: ASYNC110 - the emulator rings nobody
            await anyio.sleep(0.1)
    except (WireError, Unreachable, Problem):
        return


def _greet(scene: Stage) -> None:
    sys.stdout.write(
        f"""
The fixed address is {scene.address} (model "{ALIAS}"). Nothing is rented: a Runpod emulator runs here, with llama.cpp
behind its pods. Ask, from another terminal:

    curl -N {scene.address}/chat/completions -H 'Content-Type: application/json' \\
      -d '{{"model": "{ALIAS}", "stream": true, "messages": [{{"role": "user", "content": "hello"}}]}}'

    from openai import OpenAI
    client = OpenAI(base_url="{scene.address}", api_key="none-needed-on-loopback")
    messages = [{{"role": "user", "content": "hello"}}]
    for chunk in client.chat.completions.create(model="{ALIAS}", messages=messages, stream=True):
        print(chunk.choices[0].delta.content or "" if chunk.choices else "", end="", flush=True)

Evidence: {scene.evidence}   Config: {scene.config}   Ctrl-C ends all of it.
"""
    )
    sys.stdout.flush()
