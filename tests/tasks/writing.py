"""What does the executor write to? The provider, with something done before each call."""

from collections.abc import Callable
from typing import Any

import anyio

from controller.core.identity import ResourceKey
from controller.providers.writing import (
    CreateOutcome,
    Order,
    StopOutcome,
)
from tests.tasks.world import Bench


class Port:
    """The provider's writing port with something done before each call."""

    idempotent = False

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self.before_create: Callable[[Order], object] = lambda order: None
        self.before_stop: Callable[[ResourceKey], object] = lambda key: None
        self.hangs = False
        self.created: list[str] = []
        self.stopped_s: list[float] = []

    async def create(self, order: Order) -> CreateOutcome:
        self.created.append(order.offer)
        self.before_create(order)
        if self.hangs:
            await anyio.sleep_forever()
        return await self._bench.provider.create(order)

    async def stop(self, key: ResourceKey) -> StopOutcome:
        self.stopped_s.append(anyio.current_time())
        self.before_stop(key)
        if self.hangs:
            await anyio.sleep_forever()
        return await self._bench.provider.stop(key)


def broken(*_: object) -> None:
    raise RuntimeError("scripted")


def pauses_after_commit(bench: Bench, seconds: float, *, meanwhile: Callable[[], object] = lambda: None) -> None:
    """This process is stopped right after its next commit, for so long."""
    write = bench.store.write

    async def stopped(work: Any, **options: Any) -> Any:
        bench.store.write = write  # type: ignore[method-assign]
        result = await write(work, **options)
        meanwhile()
        await anyio.sleep(seconds)
        return result

    bench.store.write = stopped  # type: ignore[method-assign]
