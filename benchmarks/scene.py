"""What does a measured installation consist of?

The emulated provider, the daemon and the gateway as processes on loopback, in a folder of their own. The daemon can be
started, killed and started again; the emulator keeps the truth that everything is compared with.
"""

import json
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio

from benchmarks.processes import Started, answering, fetched, free_port, started
from controller.api.client import DaemonClient
from controller.children import Child
from controller.http1 import Outgoing, Pool

SERVER_KEY: Final = "open-sesame"
START_LIMIT_S: Final = 30.0

HEAD: Final = """
name = "bench-7f3a"
usd_per_day = 900000
state_dir = "{folder}/state"

[runpod]
base_url = "http://127.0.0.1:{emulator}/v2"
proxy_url = "http://127.0.0.1:{emulator}/proxy/{{pod}}/{{port}}"

[gateway]
listen = "127.0.0.1:{gateway}"

[policy]
{policy}
"""

MODEL: Final = """
[models.{alias}]
model = "org/{alias}"
image = "vllm/vllm-openai:v0.31.0"
gpus = ["NVIDIA L40S", "NVIDIA A40"]
context = 4096
probe_key_file = "keys/{alias}"
{extra}
"""


@dataclass(slots=True, kw_only=True)
class Scene:
    """One installation. `begin_*` returns when the process answers."""

    folder: Path
    running: Started
    emulator_port: int
    gateway_port: int

    @property
    def daemon(self) -> DaemonClient:
        return DaemonClient.at_socket(str(self.folder / "state" / "api.sock"))

    def configure(self, models: dict[str, str], *, policy: str = "") -> None:
        """Write the config; each model with what is said of it beyond the usual."""
        keys = self.folder / "keys"
        keys.mkdir(mode=0o700, exist_ok=True)
        for name in ("runpod", *models):
            (keys / name).touch(mode=0o600)
            (keys / name).write_text("account-key" if name == "runpod" else SERVER_KEY)
        text = HEAD.format(
            folder=self.folder, emulator=self.emulator_port, gateway=self.gateway_port, policy=policy
        ) + "".join(MODEL.format(alias=alias, extra=extra) for alias, extra in models.items())
        (self.folder / "config.toml").touch(mode=0o600)
        (self.folder / "config.toml").write_text(text)

    async def begin_emulator(self, settings: dict[str, Any]) -> None:
        child = await self.running.command(
            "emulator", "emulate", "runpod", "--listen", f"127.0.0.1:{self.emulator_port}"
        )
        with anyio.fail_after(START_LIMIT_S):
            await answering(self.running, child, self.truth)
        await self.order("PATCH", "settings", settings)

    async def begin_daemon(self) -> tuple[Child, float]:
        """The daemon, and the seconds from its start until it said that it is ready."""
        path = self.folder / "notify.sock"
        path.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as heard:
            heard.bind(str(path))
            began = time.perf_counter()
            child = await self.running.command("daemon", "run", *self._option, NOTIFY_SOCKET=str(path))
            with anyio.fail_after(START_LIMIT_S):
                while not await _said_ready(heard):
                    continue
            return child, time.perf_counter() - began

    async def begin_gateway(self) -> Child:
        child = await self.running.command("gateway", "gateway", *self._option)
        with anyio.fail_after(START_LIMIT_S):
            await answering(self.running, child, partial(fetched, f"http://127.0.0.1:{self.gateway_port}/healthz"))
        return child

    @property
    def _option(self) -> tuple[str, str]:
        return ("--config", str(self.folder / "config.toml"))

    # The provider

    async def truth(self) -> dict[str, Any]:
        """What the provider knows."""
        found: dict[str, Any] = json.loads(await fetched(f"http://127.0.0.1:{self.emulator_port}/_emulator/truth"))
        return found

    async def calls(self, method: str) -> list[dict[str, Any]]:
        """Calls for machines by one method, oldest first; `at` is a wall clock's second."""
        truth = await self.truth()
        return [call for call in truth["calls"] if call["method"] == method and "/pods" in call["path"]]

    async def none_left(self) -> bool:
        """Is every machine gone, and does the daemon know it?"""
        living = [machine for machine in (await self.truth())["pods"] if machine["deleted_at"] is None]
        return not living and not (await self.daemon.get("/v1/status"))["obligations_open"]

    async def order(self, method: str, what: str, content: object = None) -> None:
        """Change how the provider behaves."""
        pool = Pool()
        body = b"" if content is None else json.dumps(content).encode()
        url = f"http://127.0.0.1:{self.emulator_port}/_emulator/{what}"
        answer = await pool.send(
            Outgoing(method=method, url=url, headers=((b"content-type", b"application/json"),), body=body)
        )
        told = await answer.read(1 << 20)
        pool.close()
        if answer.status >= 400:
            raise RuntimeError(f"the emulator refused {what}: {told[:200].decode(errors='replace')}")


async def _said_ready(heard: socket.socket) -> bool:
    await anyio.wait_readable(heard)
    return heard.recv(4096).startswith(b"READY=1")


async def until(look: Callable[[], Any], *, within: float, every: float = 0.05, what: str) -> Any:
    """Ask until the answer is true, and return it. Raises RuntimeError, with `what`, after `within` seconds."""
    ends = time.perf_counter() + within
    while not (found := await look()):
        if time.perf_counter() > ends:
            raise RuntimeError(f"{what}: not within {within:.0f} s")
        await anyio.sleep(every)
    return found


@asynccontextmanager
async def scene(folder: Path) -> AsyncIterator[Scene]:
    """An installation with nothing begun; on leaving, everything that was begun is over."""
    async with started() as running:
        made = Scene(folder=folder, running=running, emulator_port=free_port(), gateway_port=free_port())
        try:
            yield made
        except Exception:
            print(running.last_words())
            raise
