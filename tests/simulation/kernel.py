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
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from tests.simulation.loop import Loop, Ready

BEGIN: Final = datetime(2026, 11, 29, 12, tzinfo=UTC)
TURNS_WITHOUT_TIME: Final = 20_000
"""So many turns in one instant are a program that turns in a circle."""
TIMERS_MANY: Final = 256
"""From so many on, those that were cancelled are thrown out now and then."""
KEPT: Final = 400
_never_collected: "list[Kernel]" = []
"""A collector would close what is suspended, and that runs its `finally`. A campaign gives each run a process."""
Timer = tuple[float, int, Ready]


class Program:
    """Something that runs on a machine of the simulation."""

    def __init__(self, kernel: "Kernel", name: str) -> None:
        self.kernel = kernel
        self.name = name
        self.alive = True
        self._stopped = 0
        self.loop = Loop(self)
        self.loop.set_exception_handler(self._failed)
        self._at_death: dict[object, Callable[[], None]] = {}
        self._kept: list[Any] = []
        self.dying = False
        """Is, or was, its end at some callback ordered?"""
        self._dies_in = 0
        self.problems: list[str] = []

    @property
    def stopped(self) -> int:
        """How often it was stopped and not yet continued (SIGSTOP, a machine asleep)."""
        return self._stopped

    @stopped.setter
    def stopped(self, times: int) -> None:
        self._stopped = times
        if self.alive:
            self.kernel.note_stopped(self)

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
        self.dying, self._dies_in = True, callbacks

    def count_down(self) -> None:
        self._dies_in -= 1
        if self._dies_in < 0:
            self.die()

    def die(self) -> None:
        """End now. Nothing of it runs any more."""
        if not self.alive:
            return
        self.alive = False
        self._kept += [asyncio.all_tasks(self.loop), list(self.loop.waiting), self.kernel.bury(self)]
        self.loop.waiting.clear()
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
        self._draw = random.Random(f"schedule {seed}").random
        self._programs: list[Program] = []
        """Those that live, in their order."""
        self._buried: list[Program] = []
        self._stopped: set[Program] = set()
        self.ready: list[Loop] = []
        """Loops with something to run."""
        self._timers: list[Timer] = []
        """A heap; the number keeps those of one instant in the order in which they were set."""
        self._held: list[Timer] = []
        """Timers that came to be due while their program was stopped."""
        self._timers_many = TIMERS_MANY
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._number = itertools.count()

    @property
    def now(self) -> datetime:
        return BEGIN + timedelta(seconds=self.time)

    def program(self, name: str) -> Program:
        made = Program(self, name)
        self._programs.append(made)
        return made

    def bury(self, program: Program) -> list[Timer]:
        """It is dead. Returns its timers: what they hold must not be collected."""
        self._programs.remove(program)
        self._buried.append(program)
        self._stopped.discard(program)
        if program.loop in self.ready:
            self.ready.remove(program.loop)
        every = self._timers + self._held
        self._keep([timer for timer in every if timer[2]._loop is not program.loop])
        return [timer for timer in every if timer[2]._loop is program.loop]

    def note_stopped(self, program: Program) -> None:
        """It was stopped or continued: what came to be due meanwhile is due then."""
        if program.stopped:
            self._stopped.add(program)
        elif program in self._stopped:
            self._stopped.remove(program)
            self._keep(self._timers + self._held)

    def _keep(self, timers: list[Timer]) -> None:
        """These are the timers from now on, without those that were cancelled."""
        self._timers, self._held = [timer for timer in timers if not timer[2]._cancelled], []
        heapq.heapify(self._timers)
        self._timers_many = max(TIMERS_MANY, 2 * len(self._timers))

    def problems(self) -> list[str]:
        """What went wrong inside programs, dead ones too, that no caller was told."""
        return [problem for program in (*self._buried, *self._programs) for problem in program.problems]

    @property
    def deaths(self) -> int:
        return len(self._buried)

    def at(self, time: float, act: Callable[[], None]) -> None:
        """Let something happen to the world, outside of every program."""
        heapq.heappush(self._events, (max(time, self.time), next(self._number), act))

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        self.at(self.time + seconds, act)

    def set_timer(self, when: float, timer: Ready) -> None:
        heapq.heappush(self._timers, (when, next(self._number), timer))

    @property
    def inside(self) -> bool:
        """Is it a program that acts now?"""
        return asyncio._get_running_loop() is not None

    @property
    def timers(self) -> int:
        """How many are kept."""
        return len(self._timers) + len(self._held)

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
        ready = self.ready
        if self._stopped:
            ready = [loop for loop in ready if loop.program not in self._stopped]
        if not ready:
            return False
        chosen = ready[0] if len(ready) == 1 else ready[int(self._draw() * len(ready))]
        self.ready.remove(chosen)
        chosen.turn(self._draw)
        return True

    def _advance(self, limit: float) -> None:
        """Move the clock to the next thing that is due, and let it happen."""
        due, events = self._due(), self._events
        if events and (due is None or events[0][0] <= due):
            at, _, act = heapq.heappop(events)
            self._move(at, limit)
            act()
        elif due is not None:
            self._move(due, limit)
            self._collect()
        else:
            raise Deadlock(f"nothing is scheduled at {self.time:.3f}")

    def _due(self) -> float | None:
        """When the next timer of a program that is not stopped is due."""
        if len(self._timers) > self._timers_many:
            self._keep(self._timers + self._held)
        timers = self._timers
        while timers:
            when, _, timer = timers[0]
            if timer._cancelled:
                heapq.heappop(timers)
            elif self._stopped and timer._loop.program in self._stopped:
                self._held.append(heapq.heappop(timers))
            else:
                return when
        return None

    def _collect(self) -> None:
        """Make ready what is due."""
        timers, now = self._timers, self.time
        while timers and timers[0][0] <= now:
            due = heapq.heappop(timers)
            timer = due[2]
            if timer._cancelled:
                continue
            if self._stopped and timer._loop.program in self._stopped:
                self._held.append(due)
            else:
                timer._loop.take(timer)

    def _move(self, to: float, limit: float) -> None:
        if to > limit:
            self.time = limit
            raise TimeoutError(f"not within {limit:.0f} s")
        self.time = max(self.time, to)
