"""One emulated account, with our adapters and prober before it."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

from controller.core.identity import ResourceKey
from controller.core.inventory import Present
from controller.emulators.runpod import Emulator, Settings, build_app
from controller.providers.runpod.account import Account, open_api
from controller.providers.runpod.adapter import RunpodReading, RunpodWriting
from controller.providers.writing import (
    CreateAccepted,
    Launch,
)
from controller.upstreams import vllm
from controller.upstreams.probe import Probe, ProbeTarget, open_prober
from tests.support.asgi_transport import AsgiTransport
from tests.support.draw import Draw
from tests.support.loop_clock import LoopClock
from tests.support.runpod_samples import API_KEY, MODEL, NAMESPACE, ORDER
from tests.support.virtual_time import run_virtual

T = TypeVar("T")

SERVED = vllm.VllmModel(
    repository="Qwen/Qwen3-8B", served_name="qwen3", context=32768, key_reference=MODEL.key_reference
)
LAUNCHED = replace(ORDER, launch=Launch(argv=vllm.argv(SERVED), environment=vllm.environment(SERVED)))


class World:
    """One emulated account with our adapters and prober before it, on the running loop's time."""

    def __init__(self, **settings: Any) -> None:
        self.clock = LoopClock()
        self.emulator = Emulator(
            clock=lambda: self.clock.now().timestamp(),
            rng=random.Random(1),
            settings=Settings(secrets={"vllm_qwen": "the-servers-key"}, **settings),
        )
        self.transport = AsgiTransport(build_app(self.emulator))
        http = open_api(key=API_KEY, api_url="http://runpod.example/v2", transport=self.transport)
        self.heard: list[tuple[datetime | None, timedelta]] = []
        self.account = account = Account(http, clock=self.clock, hear=self._hear, randomness=Draw(0))
        namespace = replace(NAMESPACE, proxy_url="http://runpod.example/proxy/{pod}/{port}")
        self.reading = RunpodReading(account, namespace=namespace, models=[MODEL])
        self.writing = RunpodWriting(account, namespace=namespace, models={"qwen": MODEL})
        self.prober = open_prober(clock=self.clock, transport=self.transport)

    def _hear(self, said: datetime | None, *, round_trip: timedelta) -> None:
        self.heard.append((said, round_trip))

    def fault(self, method: str, path: str, **do: Any) -> None:
        self.emulator.add_faults([{"match": {"method": method, "path": path}, "times": 1, "do": do}])

    @property
    def alive(self) -> int:
        return sum(pod["deleted_at"] is None for pod in self.emulator.truth()["pods"])

    async def make(self) -> ResourceKey:
        outcome = await self.writing.create(LAUNCHED)
        assert isinstance(outcome, CreateAccepted), outcome
        return outcome.resource.key

    async def seen(self, key: ResourceKey) -> Any:
        found = await self.reading.read_resource(key)
        assert isinstance(found, Present), found
        return found.resource

    async def probe(self, key: ResourceKey, *, credential: str | None = None) -> Probe:
        endpoint = (await self.seen(key)).endpoint
        assert endpoint is not None
        return await self.prober.probe(
            ProbeTarget(endpoint=endpoint, server="vllm", secret_reference=MODEL.key_reference, credential=credential)
        )


def in_world(test: Callable[[World], Awaitable[T]], **settings: Any) -> T:
    async def main() -> T:
        return await test(World(**settings))

    return run_virtual(main)
