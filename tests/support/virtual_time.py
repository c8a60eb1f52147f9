"""How do hours pass in a test without anyone waiting?

The loop keeps its own clock. It stands still while any callback can run, and while work given to a thread is out; when
nothing can run, it jumps to the next timer. With no timer either nothing can ever happen again: that is a deadlock, and
it is raised with the virtual time at which it was found, instead of hanging the test.

With a seed, callbacks that are ready together run in a drawn order: another seed explores another schedule, the same
seed repeats it. Only work started through `run_in_executor` is counted as out; `anyio.to_thread` brings its own threads
and must not be used under this loop.
"""

import asyncio
import random
import selectors
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

OUTSIDE_WORK_LIMIT_S: Final = 60.0


class Deadlock(RuntimeError):
    """Nothing is ready, scheduled or running elsewhere: the awaited event cannot come."""

    def __init__(self, *, virtual_s: float) -> None:
        super().__init__(f"deadlock at virtual second {virtual_s:.3f}: nothing is scheduled and no outside work runs")
        self.virtual_s = virtual_s


class OutsideWorkStuck(RuntimeError):
    """A thread did not come back in real time, so virtual time could never move again."""


class _Selector(selectors.DefaultSelector):
    """The one place where a loop waits, and so the one place where its clock may move."""

    def __init__(self, on_idle: Callable[[float | None], float | None]) -> None:
        super().__init__()
        self._on_idle = on_idle

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if events or timeout == 0:
            return events
        real_wait = self._on_idle(timeout)
        if real_wait is None:
            return []
        events = super().select(real_wait)
        if not events:
            raise OutsideWorkStuck(f"work in a thread took longer than {real_wait} real seconds")
        return events


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time moves only when there is nothing else left to do."""

    def __init__(self, *, seed: int | None = None) -> None:
        self._virtual_s = 0.0
        self._outside = 0
        self._random = None if seed is None else random.Random(seed)
        super().__init__(_Selector(self._idle))
        self._clock_resolution = 1e-9

    def time(self) -> float:
        return self._virtual_s

    def run_in_executor(self, executor: Any, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        future = super().run_in_executor(executor, func, *args)
        self._outside += 1
        future.add_done_callback(self._outside_work_ended)
        return future

    async def shutdown_default_executor(self, *args: Any) -> None:
        # The joining thread is outside work too, though no executor runs it.
        self._outside += 1
        try:
            await super().shutdown_default_executor(*args)
        finally:
            self._outside -= 1

    def _outside_work_ended(self, _: object) -> None:
        self._outside -= 1

    def _idle(self, timeout: float | None) -> float | None:
        """Moves the clock, or says how long to wait in real time for a thread."""
        if self._outside:
            return OUTSIDE_WORK_LIMIT_S
        if timeout is None:
            raise Deadlock(virtual_s=self._virtual_s)
        # The loop computed `timeout` as next timer - now, so this lands on the timer but for the last bit of a float.
        self._virtual_s += max(timeout, 0.0)
        return None

    def _run_once(self) -> None:
        # Private to asyncio, but the only point at which a whole batch of ready callbacks can be seen.
        ready: deque[asyncio.Handle] = vars(self)["_ready"]
        if self._random is not None and len(ready) > 1:
            order = list(ready)
            self._random.shuffle(order)
            ready.clear()
            ready.extend(order)
        super()._run_once()  # type: ignore[misc]  # not in the stubs


def run_virtual(main: Callable[[], Awaitable[T]], *, seed: int | None = None) -> T:
    """Runs `main` to its end on a fresh `VirtualLoop`; raises what it raises, or `Deadlock`."""

    async def awaited() -> T:
        return await main()

    with asyncio.Runner(loop_factory=lambda: VirtualLoop(seed=seed)) as runner:
        return runner.run(awaited())
