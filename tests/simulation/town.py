"""What is the world that a simulated daemon lives in?

One provider with its account, machines of operators, and clients: programs of one kernel. The config is that of the
fault cases: idle after 300 s, startup deadline 900 s, crash rule 3 in 600 s.
"""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from controller.api.client import DaemonClient
from controller.emulators.exchange import Request
from controller.emulators.runpod import Emulator, Settings, build_app
from controller.emulators.runpod.emulator import Call
from controller.emulators.runpod.pods import Pod
from controller.http1 import Outgoing
from tests.scenarios.world import HEAD, MODEL
from tests.simulation.asking import Asking
from tests.simulation.kernel import BEGIN, Kernel
from tests.simulation.machine import SERVER_KEY, Machine
from tests.simulation.staged import Staged
from tests.simulation.wires import Answer, Line, Wire

OWNER: Final = "acme-test"
ACCOUNT_KEY: Final = "account-canary-0815"
SECRETS: Final = (ACCOUNT_KEY, SERVER_KEY)
"""What nothing that is written or sent for others may hold (invariant 7)."""


class Provider(Emulator):
    """The emulator, telling of every call and every change of what bills; it can be ordered from outside of it."""

    def __init__(self, kernel: Kernel, *, seed: int, settings: Settings) -> None:
        self.program = kernel.program("provider")
        self.on_call: Callable[[Call, Request], None] = lambda *_: None
        self.on_made: Callable[[Pod], None] = lambda _: None
        self.on_ended: Callable[[Pod], None] = lambda _: None
        super().__init__(
            clock=lambda: BEGIN.timestamp() + kernel.time, rng=random.Random(f"provider {seed}"), settings=settings
        )

    def settle(self) -> float:
        if self.program.kernel.inside:
            return super().settle()
        with self.program.inside():
            return super().settle()

    def change_settings(self, change: dict[str, Any]) -> None:
        with self.program.inside():
            super().change_settings(change)

    def put_pod(self, given: dict[str, Any]) -> str:
        with self.program.inside():
            return super().put_pod(given)

    def put_volume(self, given: dict[str, Any]) -> str:
        with self.program.inside():
            return super().put_volume(given)

    def put_queued(self, given: dict[str, Any]) -> str:
        with self.program.inside():
            return super().put_queued(given)

    def change_pod(self, pod_id: str, change: dict[str, Any]) -> str:
        with self.program.inside():
            return super().change_pod(pod_id, change)

    def catch_up(self) -> None:
        with self.program.inside():
            super().catch_up()

    def open_call(self, request: Request, now: float) -> Call:
        call = super().open_call(request, now)
        self.on_call(call, request)
        return call

    def add_pod(self, asked: dict[str, Any], now: float, *, lags: bool = True) -> Pod:
        pod = super().add_pod(asked, now, lags=lags)
        self.on_made(pod)
        return pod

    def end_pod(self, pod: Pod, now: float, *, shown_for: float = 0.0) -> None:
        before = pod.ended_at
        super().end_pod(pod, now, shown_for=shown_for)
        if before is None:
            self.on_ended(pod)


class Town:
    """Kernel, provider, machines and the people who use them."""

    def __init__(self, folder: Path, *, seed: int, models: tuple[str, ...] = ("m1",), **settings: Any) -> None:
        self.folder, self.seed, self.models = folder, seed, models
        self.kernel = Kernel(seed)
        secrets = {f"vllm_{alias}": SERVER_KEY for alias in models}
        self.provider = Provider(self.kernel, seed=seed, settings=Settings(**{"secrets": secrets} | settings))
        self.provider_program = self.provider.program
        self._ways = random.Random(f"ways {seed}")
        self._app = build_app(self.provider)
        self.line = self._way()
        self.clients = self.kernel.program("clients")
        self.staged = Staged(self.kernel)
        self.asking = Asking(self.kernel)
        self.machines: dict[str, Machine] = {}
        self.slots: dict[str, int] = {}
        """Of models that are to have more than one machine."""
        self.further: dict[str, str] = {}
        """By model, what else its section says."""
        self.on_machine: Callable[[Machine], None] = lambda _: None

    def _way(self) -> Line:
        """A way to the provider, with a delay for each request."""
        line = Line(self.provider_program, self._app)
        line.delay = lambda: self._ways.uniform(0.002, 0.05)
        return line

    def machine(self, name: str = "box") -> Machine:
        folder = self.folder / name
        folder.mkdir()
        made = self.machines[name] = Machine(self.kernel, name, folder, self._way(), seed=self.seed)
        self.on_machine(made)
        return made

    def configure(
        self,
        machine: Machine,
        *models: str,
        policy: str = "",
        extra: str = "",
        usd_per_day: int = 500,
        account_key: str = ACCOUNT_KEY,
    ) -> None:
        """Write the machine's config with these models, and its keys."""
        keys = machine.folder / "keys"
        keys.mkdir(exist_ok=True, mode=0o700)
        for name in ("runpod", *self.models):
            path = keys / name
            path.write_text(account_key if name == "runpod" else SERVER_KEY)
            path.chmod(0o600)
        head = HEAD.format(state=machine.state, policy=policy, usd_per_day=usd_per_day)
        more = {alias: [extra, self.further.get(alias, "")] for alias in models}
        for alias in self.slots.keys() & more.keys():
            more[alias].append(f"replicas = {self.slots[alias]}")
        sections = (MODEL.format(alias=alias, extra="\n".join(lines)) for alias, lines in more.items())
        machine.config.write_text(head + "".join(sections))
        machine.config.chmod(0o600)

    def operators(self, machine: Machine) -> DaemonClient:
        """The operators' API of a machine, as called from outside of the daemon."""
        return DaemonClient(Wire(self.clients, {"socket": machine.operators_line}), "unix:/run/api.sock:")

    async def chat(self, machine: Machine, alias: str = "m1", *, stream: bool = False, max_tokens: int = 4) -> Answer:
        """Ask a machine's gateway; the answer's head has come. Whoever holds it closes it. Raises http1's errors."""
        body = {"model": alias, "messages": [{"role": "user", "content": "hello"}]}
        request = Outgoing(
            method="POST",
            url="http://gateway/v1/chat/completions",
            headers=((b"content-type", b"application/json"),),
            body=json.dumps(body | {"max_tokens": max_tokens, "stream": stream}).encode(),
            head_limit=None,
            silence_limit=None,
        )
        return await Wire(self.clients, {"gateway": machine.front}).send(request)

    def alive(self) -> list[Pod]:
        """What bills now, in truth."""
        self.provider.settle()
        return [pod for pod in self.provider.pods.values() if pod.alive]
