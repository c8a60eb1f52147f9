"""What does the observer look at? The provider, with what it was asked and when."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial

import anyio

from controller.core.deployment import Record
from controller.core.identity import ResourceKey
from controller.core.inventory import Listing, Read, Unreadable
from controller.core.machine_log import Log
from controller.core.storage import Storage
from controller.providers.fake.adapter import FakeProvider
from controller.providers.reading import Prices, Stock
from controller.supervision import Pulse, Runner, Wake, keep_running
from controller.tasks.observer import Observer, Rules, Watched
from tests.tasks.world import Bench


class Port:
    """The provider's reading port, with the seconds at which it was asked and something done meanwhile."""

    def __init__(self, provider: FakeProvider) -> None:
        self._provider = provider
        self.listed_s: list[float] = []
        self.read_keys: list[ResourceKey] = []
        self.meanwhile: Callable[[], object] = lambda: None
        self.takes_s = 0.0
        self.at_once = 0
        self.at_once_most = 0

    async def list_resources(self) -> Listing:
        self.listed_s.append(anyio.current_time())
        listing = await self._provider.list_resources()
        self.meanwhile()
        await anyio.sleep(self.takes_s)
        return replace(listing, ended_at=listing.ended_at + timedelta(seconds=self.takes_s))

    async def read_resource(self, key: ResourceKey) -> Read:
        self.read_keys.append(key)
        self.at_once += 1
        self.at_once_most = max(self.at_once_most, self.at_once)
        await anyio.lowlevel.checkpoint()
        self.at_once -= 1
        return await self._provider.read_resource(key)

    async def read_log(self, key: ResourceKey) -> Log | Unreadable:
        return await self._provider.read_log(key)

    async def read_prices(self) -> Prices:
        return await self._provider.read_prices()

    async def read_storage(self) -> Storage:
        return await self._provider.read_storage()

    async def read_stock(self, model: str) -> Stock:
        return await self._provider.read_stock(model)


def key_of(record: Record) -> ResourceKey:
    assert record.key is not None
    return record.key


def watch(bench: Bench, observer: Observer) -> Runner:
    """Let it look under supervision."""
    pulse = Pulse(name="observer", period=observer.period, last_pass_at=bench.clock.now())
    runner = Runner(task=observer, wake=Wake(), pulse=pulse)
    bench.store.on_change(runner.wake.ring)
    bench.group.start_soon(partial(keep_running, runner, clock=bench.clock, failures_max=3))
    return runner


async def looked_again(bench: Bench, observer: Observer, kind: str, *, after_s: float) -> int:
    """How many calls of this kind a pass makes so long after the last one."""
    before = bench.provider.calls[kind]
    await bench.move(after_s)
    await observer.run_pass()
    return bench.provider.calls[kind] - before


def told(bench: Bench, **changes: object) -> Observer:
    """An observer that was told this of the model."""
    watched = replace(Watched(server="vllm", secret_reference=None, credential=None), **changes)  # type: ignore[arg-type]
    return bench.observer(rules=Rules(policy=bench.policy, watched={"qwen": watched}, wanted=frozenset))
