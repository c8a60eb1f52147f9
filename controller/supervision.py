"""How do background tasks run, fail and show that they live?

One loop for all: a pass reads everything anew, then the task sleeps until its deadline or a wake-up. A task may say
what it looks at (`news`), and sleeps on through what changed none of it. A pass that raises is logged and tried again
later; too many in a row end the daemon, and the unit starts it clean. Every pass is reported, so that a silent task
turns readiness and starves the watchdog (B18). Nobody else loops, sleeps, backs off or catches everything.
"""

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Generic, Protocol, TypeVar, runtime_checkable

import anyio
import anyio.lowlevel
import structlog

from controller.clock import Clock
from controller.news import Change, Looks

SILENT_PERIODS: Final = 3
AT_REST: Final = timedelta(minutes=5)
"""With nothing on record that could bill, so much time may pass: the mending of lost wake-ups can wait."""
GAP_LEAST: Final = timedelta(milliseconds=10)
"""A deadline that stays in the past, by whatever mistake, must not become a busy loop; wake-ups do not wait for it."""
BACKOFF_FIRST: Final = timedelta(seconds=1)
BACKOFF_MOST: Final = timedelta(seconds=30)

T = TypeVar("T")
log = structlog.get_logger(__name__)


class Wake:
    """Run the next pass now. Carries no data; ringing twice is ringing once.

    One future and one timer a wait: an event in a cancel scope costs several times as much, and this is what a daemon
    with nothing to do spends its time on.
    """

    def __init__(self) -> None:
        self._rung = False
        self._waiter: asyncio.Future[None] | None = None

    def ring(self) -> None:
        self._rung = True
        _release(self._waiter)

    @property
    def rung(self) -> bool:
        return self._rung

    def heard(self) -> None:
        """The pass that begins now sees all that was rung for."""
        self._rung = False

    async def wait(self, limit: timedelta) -> None:
        """Return when rung, or after `limit`."""
        if self._rung or limit <= timedelta(0):
            await anyio.lowlevel.checkpoint()
        else:
            await self._wait(limit.total_seconds())
        self.heard()

    async def _wait(self, limit_s: float) -> None:
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        timer = loop.call_later(limit_s, _release, self._waiter)
        try:
            await self._waiter
        finally:
            timer.cancel()
            self._waiter = None


def _release(waiter: "asyncio.Future[None] | None") -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)


class Cell(Generic[T]):
    """A value that one task publishes and others read."""

    def __init__(self, value: T) -> None:
        self._value = value
        self._rings: list[Callable[[], None]] = []

    @property
    def value(self) -> T:
        return self._value

    def publish(self, value: T) -> None:
        self._value = value
        for ring in self._rings:
            ring()

    def on_change(self, ring: Callable[[], None]) -> None:
        self._rings.append(ring)


class Task(Protocol):
    """One background task: a name, how often it must pass at least, and one pass."""

    name: str
    period: timedelta
    """A pass is made at least so often while anything is held or owed; a pass that is later than it meant to be by
    two periods, or takes three, is silence."""

    async def run_pass(self) -> datetime | None:
        """Do all that is due now; return the next instant at which something falls due, if known."""
        ...


def never() -> bool:
    return False


def always() -> bool:
    return True


class Informed(Task, Protocol):
    """A task that says what it looks at."""

    looks_at: Looks


@runtime_checkable
class Settling(Informed, Protocol):
    """A task that also says whether its latest pass left anything open: a part of `Looks.book_open` or `view_open` was
    read, or may decide now."""

    left_open: bool


class GaveUp(Exception):
    """A task failed too often in a row."""

    def __init__(self, name: str, failures: int) -> None:
        super().__init__(f"task {name} failed {failures} times in a row")
        self.name = name


@dataclass(slots=True)
class Pulse:
    """How one task is doing."""

    name: str
    period: timedelta
    last_pass_at: datetime
    failures: int = 0
    passes: int = 0
    problem: str | None = None
    counted_from: datetime | None = None
    """Silence counts from here on: later than the latest pass for a task that means to rest."""

    def silent(self, now: datetime) -> bool:
        return now - (self.counted_from or self.last_pass_at) > SILENT_PERIODS * self.period

    def rests(self, delay: timedelta) -> None:
        """The next pass is meant to come after `delay` at the latest."""
        self.counted_from = self.last_pass_at + max(delay - self.period, timedelta(0))


@dataclass(slots=True)
class Runner:
    """One task with its wake-up and its pulse."""

    task: Task
    wake: Wake
    pulse: Pulse
    on_failure: Callable[[str, str], None] = field(default=lambda name, problem: None)
    lull: timedelta = timedelta(0)
    """A pass begins so long after its wake-up: a burst of them is one pass, and what is more urgent goes first."""
    looks: Looks | None = None
    """What passes look at; `None`: nobody says, and everything that happens wakes it."""
    at_rest: Callable[[], bool] = never
    """Is there nothing on record that could bill?"""
    idle: Callable[[], bool] = never
    """Whatever is committed or seen, is there nothing in it for this task until it is rung for by itself?"""
    left_open: Callable[[], bool] = always
    """Did its latest pass leave something open, which may hang on all that it looks at?"""
    settled: bool = False
    """Its latest pass came to its end and left nothing open; not so while the next one goes on."""

    def news(self, change: Change) -> None:
        """Something was committed or seen. Wakes the task if it looks at any of that; one in the midst of a pass makes
        another after it, for it may have read the part before it was replaced."""
        if self.wake.rung or self.idle():
            return
        if self.looks is None or self.looks.concern(change, settled=self.settled):
            self.wake.ring()


async def contained(work: Callable[[], Awaitable[object]], *, name: str) -> None:
    """Run one piece of work whose failure must not take the others along; it is logged with its traceback."""
    try:
        await work()
    except Exception as problem:
        log.error("work_failed", work=name, error="".join(traceback.format_exception(problem)))
    except asyncio.CancelledError:
        current = asyncio.current_task()
        if current is None or current.cancelling():
            raise
        log.error("work_failed", work=name, error="cancelled by a library")


async def for_each(items: Iterable[T], work: Callable[[T], Awaitable[datetime | None]]) -> datetime | None:
    """Give each item its turn whatever becomes of another, then raise what failed (B18); the earliest deadline."""
    deadlines: list[datetime] = []
    problems: list[Exception] = []
    turns = 0
    for item in items:
        turns += 1
        try:
            until = await work(item)
        except Exception as problem:
            problems.append(problem)
            continue
        if until is not None:
            deadlines.append(until)
    if len(problems) == 1:
        raise problems[0]
    if problems:
        raise ExceptionGroup(f"{len(problems)} of {turns} items failed", problems)
    return min(deadlines, default=None)


async def keep_running(runner: Runner, *, clock: Clock, failures_max: int) -> None:
    """Pass after pass, for ever. Raises GaveUp after `failures_max` failed passes in a row."""
    while True:
        delay = await _one_pass(runner, clock=clock, failures_max=failures_max)
        await runner.wake.wait(delay) if runner.pulse.failures == 0 else await anyio.sleep(delay.total_seconds())
        if runner.lull:
            await anyio.sleep(runner.lull.total_seconds())
            runner.wake.heard()


async def _one_pass(runner: Runner, *, clock: Clock, failures_max: int) -> timedelta:
    pulse = runner.pulse
    pulse.counted_from, runner.settled = clock.now(), False
    try:
        until = await runner.task.run_pass()
    except Exception as problem:
        return _failed(runner, problem, clock=clock, failures_max=failures_max)
    except asyncio.CancelledError as problem:
        current = asyncio.current_task()
        if current is None or current.cancelling():
            raise
        # A library raised it by itself; nobody cancelled us, and the loop must not die of it (B18).
        return _failed(runner, problem, clock=clock, failures_max=failures_max)
    runner.settled = not runner.left_open()
    pulse.failures, pulse.problem = 0, None
    pulse.passes += 1
    pulse.last_pass_at = clock.now()
    delay = max(pulse.period, AT_REST) if runner.at_rest() else pulse.period
    if until is not None:
        delay = min(max(until - pulse.last_pass_at, GAP_LEAST), delay)
    pulse.rests(delay)
    return delay


def _passing(problem: BaseException) -> bool:
    """Is it something outside that a new process would meet as well (a full disk)? Then ending mends nothing."""
    if isinstance(problem, BaseExceptionGroup):
        return all(_passing(part) for part in problem.exceptions)
    return bool(getattr(problem, "passing", False))


def _ends_daemon(problem: BaseException) -> bool:
    """Does it say that this process has no right to go on?"""
    if isinstance(problem, BaseExceptionGroup):
        return any(_ends_daemon(part) for part in problem.exceptions)
    return bool(getattr(problem, "ends_daemon", False))


def _failed(runner: Runner, problem: BaseException, *, clock: Clock, failures_max: int) -> timedelta:
    pulse = runner.pulse
    pulse.failures += 1
    pulse.problem = f"{type(problem).__name__}: {problem}"[:512]
    pulse.last_pass_at = pulse.counted_from = clock.now()
    log.error(
        "pass_failed", task=pulse.name, failures=pulse.failures, error="".join(traceback.format_exception(problem))
    )
    runner.on_failure(pulse.name, pulse.problem)
    if _ends_daemon(problem) or (pulse.failures >= failures_max and not _passing(problem)):
        raise GaveUp(pulse.name, pulse.failures) from problem
    return min(BACKOFF_FIRST * (1 << min(pulse.failures - 1, 10)), BACKOFF_MOST)
