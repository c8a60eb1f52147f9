"""What is a task that does what a test scripted, and how is it run on virtual time?"""

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

import anyio

from controller.supervision import Pulse, Runner, Wake, keep_running
from tests.support.loop_clock import BEGIN, LoopClock
from tests.support.virtual_time import run_virtual

S = timedelta(seconds=1)


class Passes:
    """A task that does what was scripted for each pass, and writes down when each began."""

    name = "passes"
    period = 60 * S

    def __init__(self, *script: Callable[[], Awaitable[datetime | None]]) -> None:
        self._script = list(script)
        self.began_s: list[float] = []

    async def run_pass(self) -> datetime | None:
        self.began_s.append(anyio.current_time())
        return await self._script.pop(0)() if self._script else None


async def fail() -> datetime | None:
    raise RuntimeError("scripted")


def at(second: float) -> Callable[[], Awaitable[datetime | None]]:
    async def passed() -> datetime | None:
        return BEGIN + second * S

    return passed


def runner_of(task: Passes) -> Runner:
    return Runner(task=task, wake=Wake(), pulse=Pulse(name=task.name, period=task.period, last_pass_at=BEGIN))


def kept_running(task: Passes, *, for_s: float, failures_max: int = 8) -> Runner:
    """Run it on virtual time for so long."""
    runners: list[Runner] = []

    async def main() -> None:
        runners.append(runner_of(task))
        with anyio.move_on_after(for_s):
            await keep_running(runners[0], clock=LoopClock(), failures_max=failures_max)

    run_virtual(main)
    return runners[0]
