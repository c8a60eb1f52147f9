"""How do several programs run on one clock, and how does one of them end in the middle of a line?

Each program (a daemon, a gateway, the provider, the clients) has an event loop of its own; the kernel turns them one
after the other, in an order drawn from the seed, and moves the one clock only when none of them can do anything. So a
program can be stopped (it is not turned for a while), and it can die: it is never turned again. Nothing of it runs any
more then, no `finally`, no shield, no commit; what was suspended stays suspended, and is kept so that no collector
closes it. What a kernel would close (files, connections, locks) is closed by whoever registered it with `at_death`.

Nothing here looks at a real clock, a thread or a socket: the same seed runs the same.
"""

import asyncio
import hashlib
import heapq
import itertools
import random
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from anyio._backends import _asyncio as backend

BEGIN: Final = datetime(2026, 11, 29, 12, tzinfo=UTC)
TURNS_WITHOUT_TIME: Final = 20_000
"""So many turns in one instant are a program that turns in a circle."""
TIMERS_MANY: Final = 256
KEPT: Final = 400
_never_collected: "list[Kernel]" = []
"""A collector would close what is suspended, and that runs its `finally`. A campaign gives each run a process."""

_numbers = itertools.count(1)


class Ordered(asyncio.Task[Any]):
    """A task whose place in a set does not depend on where it lies in memory: the same seed, the same order."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self._number = next(_numbers)
        super().__init__(*args, **options)

    def __hash__(self) -> int:
        return self._number


class InOrder(dict[Any, None]):
    """A set that is walked in the order in which it was filled."""

    def add(self, entry: Any) -> None:
        self[entry] = None

    def discard(self, entry: Any) -> None:
        self.pop(entry, None)

    def remove(self, entry: Any) -> None:
        del self[entry]


def order_scopes() -> None:
    """anyio keeps tasks and scopes in sets; what is cancelled first must not depend on memory either."""
    real = backend.CancelScope.__init__

    def ordered(self: Any, *args: Any, **options: Any) -> None:
        real(self, *args, **options)
        self._child_scopes, self._tasks = InOrder(), InOrder()

    backend.CancelScope.__init__ = ordered  # type: ignore[method-assign]


def restart_numbers() -> None:
    """The next task is the first: a run must not depend on what ran before it in this process."""
    global _numbers  # one counter per run, and a run has the process to itself
    _numbers = itertools.count(1)


class Loop(asyncio.BaseEventLoop):
    """One program's event loop. It never runs by itself: the kernel calls `turn`."""

    def __init__(self, program: "Program") -> None:
        super().__init__()
        self.program = program
        self.waiting: deque[asyncio.Handle] = vars(self)["_ready"]
        self.timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        """A heap; the number keeps those of one instant in the order in which they were set."""
        self._timer_number = itertools.count()
        self._thread_id = threading.get_ident()  # it counts as running: asyncio asks
        self.set_task_factory(lambda loop, coro, **options: Ordered(coro, loop=loop, **options))

    def time(self) -> float:
        return self.program.kernel.time

    def _write_to_self(self) -> None:
        """Nobody sleeps in a selector here."""

    def run_in_executor(self, *_: Any) -> Any:  # type: ignore[override]  # it never returns
        raise RuntimeError("no thread may be used in a simulation")

    def call_at(  # type: ignore[override]  # any arguments
        self, when: float, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self.timers, (when, next(self._timer_number), timer))
        return timer

    def next_timer(self) -> float | None:
        timers = self.timers
        while timers and timers[0][2]._cancelled:  # asked at every step of the clock
            heapq.heappop(timers)
        if len(timers) > TIMERS_MANY and sum(timer.cancelled() for _, _, timer in timers) > len(timers) // 2:
            timers[:] = [entry for entry in timers if not entry[2].cancelled()]
            heapq.heapify(timers)
        return timers[0][0] if timers else None

    def collect(self) -> None:
        """Make ready what is due."""
        timers, now = self.timers, self.program.kernel.time
        while timers and timers[0][0] <= now:
            timer = heapq.heappop(timers)[2]
            if not timer._cancelled:
                self.waiting.append(timer)

    def turn(self, draw: random.Random) -> int:
        """Run what is ready now, in a drawn order; what it makes ready waits for the next turn."""
        batch: list[Any] = list(self.waiting)  # what a handle holds has no public name
        self.waiting.clear()
        if len(batch) > 1:
            draw.shuffle(batch)
        program = self.program
        asyncio._set_running_loop(self)
        try:
            for handle in batch:
                if program.dying:
                    program.count_down()
                if not program.alive:
                    break
                if not handle._cancelled:
                    try:
                        handle._context.run(handle._callback, *handle._args)
                    except (SystemExit, KeyboardInterrupt):
                        raise
                    except BaseException as problem:  # as asyncio's own handles do
                        self.call_exception_handler({"message": f"in {handle!r}", "exception": problem})
        finally:
            asyncio._set_running_loop(None)
        return len(batch)


class Program:
    """Something that runs on a machine of the simulation."""

    def __init__(self, kernel: "Kernel", name: str) -> None:
        self.kernel = kernel
        self.name = name
        self.alive = True
        self.stopped = 0
        """How often it was stopped and not yet continued (SIGSTOP, a machine asleep)."""
        self.loop = Loop(self)
        self.loop.set_exception_handler(self._failed)
        self._at_death: dict[object, Callable[[], None]] = {}
        self._kept: list[Any] = []
        self._dies_in: int | None = None
        self.problems: list[str] = []

    def start(self, main: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Begin a task of this program from outside of it."""
        return self.loop.create_task(main)

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Do something in the program's name from outside of every program: what it wakes needs a loop."""
        former = asyncio._get_running_loop()
        asyncio._set_running_loop(self.loop if former is None else former)
        try:
            yield
        finally:
            asyncio._set_running_loop(former)

    def at_death(self, key: object, act: Callable[[], None]) -> None:
        """What the operating system does for it when it dies."""
        self._at_death[key] = act

    def spare(self, key: object) -> None:
        self._at_death.pop(key, None)

    def dies_in(self, callbacks: int) -> None:
        """Let it die at the callback that many from now: at any await that it may be at."""
        self._dies_in = callbacks

    @property
    def dying(self) -> bool:
        """Is, or was, its end at some callback ordered?"""
        return self._dies_in is not None

    def count_down(self) -> None:
        if self._dies_in is not None:
            self._dies_in -= 1
            if self._dies_in < 0:
                self.die()

    def die(self) -> None:
        """End now. Nothing of it runs any more."""
        if not self.alive:
            return
        self.alive = False
        self._kept += [asyncio.all_tasks(self.loop), list(self.loop.waiting), list(self.loop.timers)]
        self.loop.waiting.clear()
        self.loop.timers.clear()
        self.kernel.bury(self)
        for act in list(self._at_death.values()):
            act()

    async def nevermore(self) -> None:
        """For a coroutine of a program that has just died: it is suspended here for ever."""
        forever = self.loop.create_future()
        self._kept.append(forever)
        await forever

    def _failed(self, _: Any, context: dict[str, Any]) -> None:
        problem = context.get("exception")
        self.problems.append(f"{self.name}: {context.get('message')} {problem!r}")


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened: what a trace is made of."""

    at: float
    who: str
    what: str

    def __str__(self) -> str:
        days, rest = divmod(self.at, 86400)
        return f"{int(days)}d {timedelta(seconds=round(rest, 3))!s:>15}  {self.who:<10} {self.what}"


class Trace:
    """Everything that happened, as a digest, and the last of it in words."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self.last: deque[Event] = deque(maxlen=KEPT)
        self.length = 0
        self.sink: Callable[[Event], None] = lambda _: None
        """Gets every event as well: for whoever wants to read all of it."""
        self.folder: str | None = None
        """Of this run's files. Told as `RUN`: its name is another one each time."""

    def tell(self, event: Event) -> None:
        if self.folder is not None and self.folder in event.what:
            event = replace(event, what=event.what.replace(self.folder, "RUN"))
        self._digest.update(f"{event.at:.6f}|{event.who}|{event.what}\n".encode())
        self.last.append(event)
        self.length += 1
        self.sink(event)

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()


class Deadlock(RuntimeError):
    """No program can do anything, and none ever will."""


class Turning(RuntimeError):
    """Programs do things without end, and no time passes."""


class Kernel:
    """The clock, the programs and the order in which they are turned."""

    def __init__(self, seed: int) -> None:
        _never_collected.append(self)
        self.time = 0.0
        self.trace = Trace()
        self._draw = random.Random(f"schedule {seed}")
        self._programs: list[Program] = []
        self._loops: list[Loop] = []
        """Of the programs that live, in their order."""
        self._buried: list[Program] = []
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._event_number = itertools.count()

    @property
    def now(self) -> datetime:
        return BEGIN + timedelta(seconds=self.time)

    def program(self, name: str) -> Program:
        made = Program(self, name)
        self._programs.append(made)
        self._loops.append(made.loop)
        return made

    def bury(self, program: Program) -> None:
        self._programs.remove(program)
        self._loops.remove(program.loop)
        self._buried.append(program)

    def problems(self) -> list[str]:
        """What went wrong inside programs, dead ones too, that no caller was told."""
        return [problem for program in (*self._buried, *self._programs) for problem in program.problems]

    @property
    def deaths(self) -> int:
        return len(self._buried)

    def at(self, time: float, act: Callable[[], None]) -> None:
        """Let something happen to the world, outside of every program."""
        heapq.heappush(self._events, (max(time, self.time), next(self._event_number), act))

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        self.at(self.time + seconds, act)

    def tell(self, who: str, what: str) -> None:
        self.trace.tell(Event(self.time, who, what))

    def run(self, *, until: Callable[[], bool], limit: float) -> None:
        """Turn everything until a condition holds. Raises Deadlock, Turning, or TimeoutError at the limit."""
        turned = 0
        while not until():
            if self._turn_one():
                turned += 1
                if turned > TURNS_WITHOUT_TIME:
                    raise Turning(f"no time passes at {self.time:.3f}")
                continue
            turned = 0
            self._advance(limit)

    def _turn_one(self) -> bool:
        ready = [loop for loop in self._loops if loop.waiting and not loop.program.stopped]
        if not ready:
            return False
        chosen = ready[0] if len(ready) == 1 else ready[int(self._draw.random() * len(ready))]
        chosen.turn(self._draw)
        return True

    def _advance(self, limit: float) -> None:
        """Move the clock to the next thing that is due, and let it happen."""
        due: float | None = None
        awake = [loop for loop in self._loops if not loop.program.stopped]
        for loop in awake:
            timer = loop.next_timer()
            if timer is not None and (due is None or timer < due):
                due = timer
        if self._events and (due is None or self._events[0][0] <= due):
            at, _, act = heapq.heappop(self._events)
            self._move(at, limit)
            act()
        elif due is not None:
            self._move(due, limit)
            for loop in awake:
                if loop.timers and loop.timers[0][0] <= self.time:
                    loop.collect()
        else:
            raise Deadlock(f"nothing is scheduled at {self.time:.3f}")

    def _move(self, to: float, limit: float) -> None:
        if to > limit:
            self.time = limit
            raise TimeoutError(f"not within {limit:.0f} s")
        self.time = max(self.time, to)
