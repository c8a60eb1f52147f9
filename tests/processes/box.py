"""What does one machine look like to a test: provider, daemon and gateway as processes, and a way to each?

The emulator is the provider; its truth is what the tests believe. Numbers are short, as the demo's are, so that a life
takes seconds. Everything lies in one folder, whose path is short because a socket's path is.
"""

import atexit
import json
import re
import shutil
import socket
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx

from controller.api.client import DaemonClient, Problem, Unreachable
from controller.http1 import Pool
from controller.store.database import prepare
from tests.processes.children import Child, until
from tests.processes.commands import Ran, inherited, ran_forked
from tests.processes.notifications import notify_socket

SERVER_KEY = "open-sesame"
TEST_LIMIT = 60.0
START_LIMIT = 60.0

CONFIG = """
name = "acme-test"
usd_per_day = 500
state_dir = "{state}"
log_level = "info"

[runpod]
base_url = "{provider}/v2"
proxy_url = "{provider}/proxy/{{pod}}/{{port}}"

[gateway]
listen = "127.0.0.1:{gateway}"
{gateway_extra}

[policy]
listing_fast = "1s"
listing_steady = "1s"
listing_idle = "1s"
settle = "10s"
orphan_grace = "10s"
stream_lease = "3s"
stream_lease_renewal = "500ms"
stop_again_after = "2s"
stop_backoff_max = "2s"
round_gap = "1s"
starts_per_hour = 100
starts_per_day = 100
{policy}

[models.m1]
model = "org/m1"
image = "vllm/vllm-openai:v0.31.0"
gpus = ["NVIDIA L40S", "NVIDIA A40"]
context = 4096
startup_deadline = "60s"
idle_after = "{idle_after}"
{model}
"""

_template: list[Path] = []


class Box:
    """`provider` is the emulator's address; `anew`: every process that stays is an interpreter of its own."""

    def __init__(self, folder: Path, *, anew: bool = False) -> None:
        self.folder = folder
        self.anew = anew
        self.children: list[Child] = []
        self.provider = ""
        self.state = folder / "state"
        self.gateway_port = free_port()
        self._pool = Pool()
        self._http = httpx.AsyncClient(timeout=10, trust_env=False)

    # Places

    @property
    def store(self) -> Path:
        return self.state / "gpuwarden.db"

    @property
    def evidence(self) -> Path:
        return self.state / "evidence.jsonl"

    @property
    def config(self) -> Path:
        return self.folder / "config.toml"

    @property
    def address(self) -> str:
        """The fixed one, for clients."""
        return f"http://127.0.0.1:{self.gateway_port}/v1"

    @property
    def daemon(self) -> DaemonClient:
        return DaemonClient(self._pool, f"unix:{self.state}/api.sock:")

    # Config

    def configure(
        self, *, policy: str = "", model: str = "", gateway: str = "", idle_after: str = "10m", provider: str = ""
    ) -> None:
        keys = self.folder / "keys"
        keys.mkdir(mode=0o700, exist_ok=True)
        for name, value in (("runpod", "account-key"), ("m1", SERVER_KEY)):
            (keys / name).write_text(value)
            (keys / name).chmod(0o600)
        text = CONFIG.format(
            state=self.state,
            provider=provider or self.provider,
            gateway=self.gateway_port,
            gateway_extra=gateway,
            policy=policy,
            model=model,
            idle_after=idle_after,
        )
        self.config.write_text(text)
        self.config.chmod(0o600)

    def break_config(self) -> None:
        """One key that may not be what it is."""
        self.config.write_text(self.config.read_text().replace("usd_per_day = 500", "usd_per_day = -1"))

    def migrated(self) -> None:
        """A store as a former start left it: what a migration takes is measured elsewhere."""
        if not _template:
            made = Path(tempfile.mkdtemp(prefix="gpuwarden-template-")) / "gpuwarden.db"
            prepare(made)
            atexit.register(shutil.rmtree, made.parent, ignore_errors=True)
            _template.append(made)
        self.state.mkdir(mode=0o700, exist_ok=True)
        shutil.copy2(_template[0], self.store)

    # Processes

    def spawn(self, name: str, *words: str, output: int | None = None, **environment: str) -> Child:
        """An interpreter of its own; `output` is a descriptor for its words, instead of a file."""
        return self._child(Child.started, name, words, output, environment)

    def fork(self, name: str, *words: str, output: int | None = None, **environment: str) -> Child:
        """The same in a moment, where nobody looks at how it was started."""
        return self._child(Child.started if self.anew else Child.forked, name, words, output, environment)

    def _child(
        self,
        begin: Callable[..., Child],
        name: str,
        words: tuple[str, ...],
        output: int | None,
        environment: dict[str, str],
    ) -> Child:
        log = self.folder / f"{len(self.children)}-{name}.log"
        child = begin(name, list(words), log=log, output=output, environment=inherited() | environment)
        self.children.append(child)
        return child

    async def start_emulator(self, **settings: Any) -> Child:
        child = self.fork("emulator", "emulate", "runpod", "--listen", "127.0.0.1:0")
        pattern = re.compile(r"base_url (http://\S+)/v2")
        found = await until(lambda: pattern.search(child.text()), within=START_LIMIT, what="the emulator's address")
        self.provider = found[1]
        usual = {"boot_seconds": 0.1, "ready_seconds": 0.1, "secrets": {"vllm_m1": SERVER_KEY}, "token_rate": 500}
        await self.order(usual | settings)
        return child

    async def run_daemon(self, *, output: int | None = None, **environment: str) -> Child:
        """Until systemd would take it for ready."""
        with notify_socket(self.folder / "notify.sock") as told:
            words = ("run", "--config", str(self.config))
            child = self.fork("daemon", *words, output=output, NOTIFY_SOCKET=told.name, **environment)
            await until(lambda: told.said("READY=1") or not child.running, within=START_LIMIT, what="READY")
        assert child.running, child.text()
        return child

    async def run_gateway(self) -> Child:
        child = self.fork("gateway", "gateway", "--config", str(self.config))
        await self.eventually(self._gateway_answers, within=START_LIMIT, what="the gateway's answer")
        return child

    async def _gateway_answers(self) -> bool:
        try:
            answer = await self._http.get(f"http://127.0.0.1:{self.gateway_port}/healthz")
        except httpx.TransportError:
            return False
        return answer.status_code == 200

    async def cli(self, *words: str, within: float = 20.0, **environment: str) -> Ran:
        """One command to its end."""
        with anyio.fail_after(within):
            return await ran_forked([*words, "--config", str(self.config)], inherited() | environment)

    # The provider

    async def order(self, settings: dict[str, Any]) -> None:
        (await self._http.patch(f"{self.provider}/_emulator/settings", json=settings)).raise_for_status()

    async def fault(self, do: dict[str, Any], *, method: str = "*", path: str = "*", times: int | None = None) -> None:
        rule = {"match": {"method": method, "path": path}, "times": times, "do": do}
        (await self._http.post(f"{self.provider}/_emulator/faults", json=[rule])).raise_for_status()

    async def clear_faults(self) -> None:
        (await self._http.delete(f"{self.provider}/_emulator/faults")).raise_for_status()

    async def put_pod(self, pod: dict[str, Any]) -> str:
        """A machine that nobody asked for; returns its id."""
        answer = await self._http.post(f"{self.provider}/_emulator/pods", json=pod)
        found: str = answer.raise_for_status().json()["id"]
        return found

    async def change(self, resource: str, change: dict[str, Any]) -> None:
        (await self._http.patch(f"{self.provider}/_emulator/pods/{resource}", json=change)).raise_for_status()

    async def truth(self) -> dict[str, Any]:
        answer = await self._http.get(f"{self.provider}/_emulator/truth")
        found: dict[str, Any] = answer.raise_for_status().json()
        return found

    async def pods(self) -> list[dict[str, Any]]:
        """Every one that ever was."""
        found: list[dict[str, Any]] = (await self.truth())["pods"]
        return found

    async def alive(self) -> list[dict[str, Any]]:
        return [pod for pod in await self.pods() if pod["deleted_at"] is None]

    async def calls(self, method: str, path: str = "") -> list[dict[str, Any]]:
        """Calls to the provider's API, without those to the pods."""
        return [call for call in (await self.truth())["calls"] if call["method"] == method and path in call["path"]]

    async def creates(self) -> list[dict[str, Any]]:
        return [call for call in await self.calls("POST") if call["path"].endswith("/pods")]

    # The daemon

    async def status(self) -> dict[str, Any]:
        return await self.daemon.get("/v1/status")

    async def model(self) -> dict[str, Any]:
        """The model's entry, or an empty one while the daemon is away."""
        try:
            found: dict[str, Any] = (await self.status())["models"][0]
        except (Unreachable, Problem, IndexError):
            return {"phase": None}
        return found

    async def start_model(self) -> None:
        await self.daemon.post("/v1/models/m1/start")

    async def serving(self, *, within: float = 15.0) -> dict[str, Any]:
        """Started, and ready; returns its deployment."""
        await self.start_model()
        await self.phase("ready", within=within)
        return (await self.deployments())[-1]

    async def phase(self, phase: str, *, within: float = 15.0) -> None:
        async def reached() -> bool:
            return bool((await self.model())["phase"] == phase)

        await self.eventually(reached, within=within, what=f"phase {phase}")

    async def deployments(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self.daemon.get("/v1/deployments"))["deployments"]
        return found

    async def obligations(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self.daemon.get("/v1/obligations?all=1"))["obligations"]
        return found

    async def all_ended(self, *, within: float = 20.0) -> None:
        """Nothing open any more, and nothing that bills."""

        async def nothing_open() -> bool:
            return not any(duty["ended_at"] is None for duty in await self.obligations())

        await self.eventually(nothing_open, within=within, what="the end of every obligation")
        assert await self.alive() == []

    # What is written

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """From the store, as anybody may read it beside the daemon."""
        with closing(sqlite3.connect(f"file:{self.store}?mode=ro", uri=True, timeout=5)) as connection:
            return connection.execute(query).fetchall()

    def open_duties(self) -> list[tuple[Any, ...]]:
        """Id and epoch of each."""
        return self.rows("SELECT id, epoch FROM obligations WHERE ended_at_ms IS NULL")

    async def marked(self) -> None:
        """A create is on record as on its way."""

        def found() -> bool:
            return bool(self.rows("SELECT 1 FROM creates WHERE submitting_at_ms IS NOT NULL AND answer IS NULL"))

        await until(found, within=10, what="the mark of a create")

    @contextmanager
    def write_lock(self) -> Iterator[None]:
        """Nobody else can commit meanwhile."""
        with closing(sqlite3.connect(self.store, timeout=5, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield
            connection.execute("ROLLBACK")

    def lines(self, event: str | None = None) -> list[dict[str, Any]]:
        """The evidence file."""
        text = self.evidence.read_text() if self.evidence.exists() else ""
        found = [json.loads(line) for line in text.splitlines()]
        return [line for line in found if event is None or line["event"] == event]

    async def recorded(self, event: str) -> list[dict[str, Any]]:
        """The same, once there is one: the file follows the store."""
        found: list[dict[str, Any]] = await until(lambda: self.lines(event), within=10, what=f"{event} in the file")
        return found

    async def require_whole_evidence(self) -> None:
        """Chained, complete, and each line once."""
        verified = await self.cli("evidence", "verify")
        assert verified.code == 0, verified.err
        numbers = [line["seq"] for line in self.lines()]
        assert numbers == list(range(1, len(numbers) + 1))

    # Waiting

    async def eventually(self, condition: Callable[[], Awaitable[bool]], *, within: float, what: str) -> None:
        with anyio.move_on_after(within):
            while not await condition():  # noqa: ASYNC110 - another process rings nobody
                await anyio.sleep(0.05)
            return
        raise AssertionError(f"not within {within} s: {what}")

    async def close(self) -> None:
        self._pool.close()
        await self._http.aclose()
        for child in reversed(self.children):
            child.end()

    def told(self) -> str:
        """The last words of every process."""
        return "\n".join(f"== {child.name}\n{child.text()[-3000:]}" for child in self.children)


@asynccontextmanager
async def box(
    *, limit: float = TEST_LIMIT, configure: bool = True, anew: bool = False, **settings: Any
) -> AsyncIterator[Box]:
    """An emulator that runs, and a config for it; all of it is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="gpuwarden-"))
    found = Box(folder, anew=anew)
    try:
        with anyio.fail_after(limit):
            await found.start_emulator(**settings)
            if configure:
                found.configure()
                found.migrated()
            yield found
    except BaseException:
        print(found.told())
        raise
    finally:
        with anyio.CancelScope(shield=True):
            await found.close()
        shutil.rmtree(folder, ignore_errors=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
