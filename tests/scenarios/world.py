"""What does a whole-daemon scenario run in?

The real daemon, its API and a gateway, against the emulator in process, on virtual time with the real numbers. The
settings are those of the fault cases: idle 300 s, startup deadline 900 s, crash rule 3 in 600 s, 2 USD an hour. A
scenario is a function that gets the world, acts, and asks the emulator's truth; after it the design's invariants are
asked of truth, store and file.
"""

import json
import random
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import TaskGroup

from controller.api.app import gateways_app, operators_app
from controller.api.board import Closing
from controller.api.client import DaemonClient
from controller.cli.gateway import declared
from controller.daemon.build import build
from controller.daemon.built import Daemon, Mode, Seams
from controller.daemon.modes import decide
from controller.daemon.serving import panel_of
from controller.emulators.runpod import Emulator, Settings, build_app
from controller.emulators.runpod.control import pod_truth
from controller.gateway.app import Gateway
from controller.gateway.app import build as build_gateway
from controller.gateway.config import GatewayConfig
from controller.http1 import Disconnected, Outgoing
from controller.ids import SeededRandomness
from controller.settings import load
from controller.store.database import Creator
from tests.scenarios.invariants import Scene, check
from tests.support.asgi_transport import AsgiTransport
from tests.support.asgi_wire import AsgiAnswer, AsgiWire
from tests.support.loop_clock import BEGIN, LoopClock
from tests.support.places import in_memory
from tests.support.reading import Reads
from tests.support.stores import template
from tests.support.threadless_sqlite import threadless
from tests.support.virtual_time import run_virtual

SERVER_KEY = "open-sesame"
ACCOUNT_KEY = "account-key"
L40S, A40 = "NVIDIA L40S", "NVIDIA A40"

HEAD = """
name = "acme-test"
usd_per_day = {usd_per_day}
state_dir = "{state}"

[runpod]
base_url = "http://127.0.0.1:1/v2"
proxy_url = "http://127.0.0.1:1/proxy/{{pod}}/{{port}}"

[policy]
{policy}
"""

MODEL = """
[models.{alias}]
model = "org/{alias}"
image = "vllm/vllm-openai:v0.31.0"
gpus = ["NVIDIA L40S", "NVIDIA A40"]
context = 4096
idle_after = "300s"
startup_deadline = "900s"
crash_restart_limit = 3
max_usd_per_hour = 2
{extra}
"""


async def _at_once(work: Callable[[], Any]) -> Any:
    return work()


class World:
    """One box, one provider, one account."""

    def __init__(self, folder: Path, group: TaskGroup, **settings: Any) -> None:
        self.folder = folder
        self.group = group
        self.clock = LoopClock()
        chosen = {"secrets": {"vllm_m1": SERVER_KEY, "vllm_m2": SERVER_KEY}} | settings
        self.emulator = Emulator(
            clock=lambda: self.clock.true().timestamp(), rng=random.Random(7), settings=Settings(**chosen)
        )
        self.emulator_app = build_app(self.emulator)
        self.transport = AsgiTransport(self.emulator_app)
        self.connect: Callable[[Path], Creator] = threadless
        self.blocking = _at_once
        self.runs = 0
        self.client_keys: frozenset[str] = frozenset()  # digests; empty: the gateway asks for none
        self.excepted: set[str] = set()
        """Which invariants this scenario stages an exception from."""

    @property
    def state(self) -> Path:
        return self.folder / "state"

    # Config

    def configure(self, *models: str, policy: str = "", extra: str = "", usd_per_day: int = 200) -> Path:
        """Write the config of these models and the keys; returns its path."""
        sections = "".join(MODEL.format(alias=alias, extra=extra) for alias in models)
        return self.write(sections, policy=policy, usd_per_day=usd_per_day)

    def write(self, sections: str, *, policy: str = "", usd_per_day: int = 200) -> Path:
        """Write a config with these sections for models, and the keys; returns its path."""
        keys = self.folder / "keys"
        keys.mkdir(exist_ok=True, mode=0o700)
        for name in ("runpod", "m1", "m2"):
            key = keys / name
            key.write_text(ACCOUNT_KEY if name == "runpod" else SERVER_KEY)
            key.chmod(0o600)
        config = self.folder / "config.toml"
        config.write_text(HEAD.format(state=self.state, policy=policy, usd_per_day=usd_per_day) + sections)
        config.chmod(0o600)
        return config

    # The daemon

    @asynccontextmanager
    async def daemon(self, *, mode: Mode | None = None, crash: bool = False) -> AsyncIterator[Daemon]:
        """Run the daemon while inside. Leaving is an orderly stop; with `crash`, the disk is left as it was then."""
        self.runs += 1
        decided = decide(self.folder / "config.toml", {})
        if not (store := decided.settings.places.store).exists():
            store.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            store.touch(mode=0o600)
            store.write_bytes(template())
        seams = Seams(
            clock=self.clock,
            randomness=SeededRandomness(self.runs),
            transport=self.transport,
            creator=self.connect(store),
            blocking=self.blocking,
        )
        daemon = await build(decided.settings, seams, mode=mode or decided.mode)
        (reads := Reads()).watch(daemon)
        kept = self.folder / "as-it-was"
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(daemon.run)
                try:
                    yield daemon
                finally:
                    if crash:
                        shutil.copytree(self.state, kept)
                    group.cancel_scope.cancel()
            untold = reads.untold()
            assert not untold, f"a task reads what it is not woken for: {sorted(untold)}"
        finally:
            await daemon.close()
            if crash:
                shutil.rmtree(self.state)
                kept.rename(self.state)

    @asynccontextmanager
    async def front(self, *models: str) -> AsyncIterator["Front"]:
        """A gateway that outlives the daemons behind it."""
        socket: MutableMapping[str, Any] = {"socket": None}
        wire, upstream = AsgiWire(socket), AsgiWire({"127.0.0.1:1": self.emulator_app})
        keys, settings = {alias: lambda: SERVER_KEY for alias in models}, load(self.folder / "config.toml", {})
        gateway = build_gateway(
            GatewayConfig(models=keys, declared=declared(settings), client_keys=self.client_keys),
            daemon=DaemonClient(wire, "unix:/run/gateway.sock:"),
            upstream=upstream,
            clock=self.clock,
            randomness=SeededRandomness(100 + self.runs),
        )
        async with anyio.create_task_group() as group:
            group.start_soon(gateway.run)
            yield Front(gateway=gateway, upstream=upstream, socket=socket)
            group.cancel_scope.cancel()

    @asynccontextmanager
    async def box(self, *, front: "Front | None" = None, crash: bool = False) -> AsyncIterator["Box"]:
        """A daemon with its API and a gateway, as one machine runs them; `front`: a gateway that is there already."""
        async with AsyncExitStack() as stack:
            daemon = await stack.enter_async_context(self.daemon(crash=crash))
            if front is None:
                front = await stack.enter_async_context(self.front(*daemon.models))
            closing = Closing()
            panel = panel_of(daemon, closing)
            operators = DaemonClient(AsgiWire({"socket": operators_app(panel)}), "unix:/run/api.sock:")
            front.socket["socket"] = gateways_app(panel)
            try:
                yield Box(daemon=daemon, gateway=front.gateway, operators=operators, upstream=front.upstream)
            finally:
                front.socket["socket"] = None
                closing.set()

    def ours(self, daemon: Daemon, **changed: str) -> dict[str, str]:
        """The environment of a pod that this daemon might have made."""
        owner = daemon.store.book.owner
        tags = {"owner": owner.name, "installation": owner.installation, "epoch": str(daemon.store.epochs_known)}
        tags |= {"request": "r0123456789abcdef"} | changed
        return {f"GPUWARDEN_{name.upper()}": value for name, value in tags.items()}

    def soon(self, asking: Awaitable["Answered"]) -> "Pending":
        """Let a client ask while the scenario goes on."""
        pending = Pending()

        async def ask() -> None:
            try:
                pending.answered = await asking
            except Disconnected:
                pending.cut = True

        self.group.start_soon(ask)
        return pending

    # The truth

    @property
    def now_s(self) -> float:
        """Seconds since the world began."""
        return (self.clock.true() - BEGIN).total_seconds()

    def pods(self) -> list[dict[str, Any]]:
        """Every pod that ever was, as the provider knows it."""
        now = self.emulator.settle()
        return [pod_truth(self.emulator, pod, now) for pod in self.emulator.pods.values()]

    def alive(self) -> list[dict[str, Any]]:
        return [pod for pod in self.pods() if pod["deleted_at"] is None]

    def calls(self, method: str, *, effect: str | None = None) -> list[dict[str, Any]]:
        """Calls of one method, with the seconds at which they came."""
        return [
            {"s": call.at - BEGIN.timestamp(), "path": call.path, "status": call.status, "pod": call.pod}
            for call in self.emulator.calls
            if call.method == method and effect in {None, call.effect}
        ]

    def creates(self) -> list[dict[str, Any]]:
        return [call for call in self.calls("POST") if call["path"].endswith("/pods")]

    def deletes(self) -> list[dict[str, Any]]:
        return self.calls("DELETE")

    def evidence(self) -> list[dict[str, Any]]:
        """The evidence file, line by line."""
        path = self.state / "evidence.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def events(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.evidence() if line["event"] == event]

    # Time

    async def until(self, condition: Callable[[], bool], *, within: float) -> float:
        """Let time pass until something holds; returns the second of the world. Fails after `within` seconds."""
        ends = self.now_s + within
        while not condition():
            if self.now_s >= ends:
                raise AssertionError(f"not within {within} s")
            await anyio.sleep(0.25)
        return self.now_s

    async def at(self, second: float) -> None:
        """Let time pass until a second of the world."""
        await anyio.sleep(max(second - self.now_s, 0))


@dataclass(slots=True, kw_only=True)
class Answered:
    """What a client got: `at` is the second at which it was whole."""

    status: int
    headers: dict[bytes, bytes]
    body: bytes
    at: float

    @property
    def error(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)["error"]
        return found


@dataclass(slots=True)
class Pending:
    """An answer that is awaited elsewhere."""

    answered: Answered | None = None
    cut: bool = False
    """It broke off before its end."""

    @property
    def done(self) -> bool:
        return self.answered is not None

    @property
    def got(self) -> Answered:
        assert self.answered is not None
        return self.answered


@dataclass(slots=True, kw_only=True)
class Front:
    """A gateway; `socket` holds the app of the daemon behind it, `None` while there is none."""

    gateway: Gateway
    upstream: AsgiWire
    socket: MutableMapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Box:
    """A daemon, its API and its gateway."""

    daemon: Daemon
    gateway: Gateway
    operators: DaemonClient
    upstream: AsgiWire

    async def open(self, alias: str = "m1", *, stream: bool = False, **options: Any) -> AsgiAnswer:
        """Begin a chat; the answer's head has come. Whoever holds it closes it."""
        headers = [(b"content-type", b"application/json")]
        if "prefer" in options:
            headers.append((b"prefer", options.pop("prefer").encode()))
        body = {"model": alias, "messages": [{"role": "user", "content": "hello"}], "max_tokens": 4, "stream": stream}
        request = Outgoing(
            method="POST",
            url="http://gateway/v1/chat/completions",
            headers=tuple(headers),
            body=json.dumps(body | options).encode(),
            head_limit=None,
            silence_limit=None,
        )
        return await AsgiWire({"gateway": self.gateway.app}).send(request)

    async def chat(self, world: World, alias: str = "m1", **options: Any) -> Answered:
        """Ask, wait, and take the whole answer."""
        answer = await self.open(alias, **options)
        try:
            body = await answer.read(1 << 20)
        finally:
            answer.close()
        return Answered(status=answer.status, headers=dict(answer.headers), body=body, at=world.now_s)


def scenario(play: Callable[[World], Awaitable[None]], *, seed: int | None = None, **settings: Any) -> None:
    """Play one scenario on virtual time in a folder of its own."""

    async def main() -> None:
        async with AsyncExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gpuwarden-", dir=in_memory())))
            group = await stack.enter_async_context(anyio.create_task_group())
            world = World(folder, group, **settings)
            await play(world)
            group.cancel_scope.cancel()
            truth, secrets = world.emulator.truth(), (SERVER_KEY, ACCOUNT_KEY)
            check(Scene(state=world.state, truth=truth, secrets=secrets, excepted=frozenset(world.excepted)))

    try:
        run_virtual(main, seed=seed)
    except BaseExceptionGroup as problems:
        raise _only(problems) from None


def _only(problem: BaseException) -> BaseException:
    """The one thing that went wrong, out of the task groups around it."""
    while isinstance(problem, BaseExceptionGroup) and len(problem.exceptions) == 1:
        problem = problem.exceptions[0]
    return problem


def sabotage(daemon: Daemon, name: str, *, times: int, error: Callable[[], BaseException]) -> None:
    """Let the next passes of one task fail."""
    (task,) = [runner.task for runner in daemon.runners if runner.task.name == name]
    real, left = task.run_pass, [times]

    async def failing() -> datetime | None:
        if left[0] > 0:
            left[0] -= 1
            raise error()
        return await real()

    task.run_pass = failing  # type: ignore[method-assign]


def seconds(value: float) -> timedelta:
    return timedelta(seconds=value)
