"""How does one program's event loop run, turn by turn, the same each time?

It never runs by itself: the kernel turns it, and keeps its timers with those of all other programs. What it does is
what asyncio's own loop does, without what a debugger would ask for: that was a fifth of a simulated day. Where the
order of something would depend on where it lies in memory, it is put into an order here.
"""

import asyncio
import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context, copy_context
from functools import partial
from typing import TYPE_CHECKING, Any
from unittest import mock

from anyio._backends import _asyncio as backend
from anyio._core import _eventloop

if TYPE_CHECKING:
    from tests.simulation.kernel import Program

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

    add = dict.setdefault
    remove = dict.__delitem__

    def discard(self, entry: Any) -> None:
        self.pop(entry, None)


@contextmanager
def scopes_in_order() -> Iterator[None]:
    """anyio keeps tasks and scopes in sets; what is cancelled first must not depend on memory either. While inside, and
    no longer: whoever runs an event loop of his own in this process next would be told that one runs already."""
    real = backend.CancelScope.__init__

    def ordered(self: Any, *args: Any, **options: Any) -> None:
        real(self, *args, **options)
        self._child_scopes, self._tasks = InOrder(), InOrder()

    with (
        mock.patch.object(backend.CancelScope, "__init__", ordered),
        mock.patch.object(_eventloop, "current_async_library", lambda: "asyncio"),  # else each call finds out anew
    ):
        yield


def restart_numbers() -> None:
    """The next task is the first: a run must not depend on what ran before it in this process."""
    global _numbers  # one counter per run, and a run has the process to itself
    _numbers = itertools.count(1)


class Ready(asyncio.Handle):
    """What is run at the next turn, or at its time."""

    __slots__ = ()
    _repr = _source_traceback = None
    _loop: "Loop"

    def __init__(self, callback: Any, args: Any, loop: "Loop", context: Context | None) -> None:
        self._callback, self._args, self._loop = callback, args, loop
        self._context = copy_context() if context is None else context
        self._cancelled = False

    def cancel(self) -> None:
        self._cancelled = True
        self._callback, self._args = None, ()


class Loop(asyncio.BaseEventLoop):
    """One program's event loop. It never runs by itself: the kernel calls `turn`."""

    def __init__(self, program: "Program") -> None:
        super().__init__()
        self.program, self.kernel = program, program.kernel
        self.waiting: deque[Any] = vars(self)["_ready"]  # what a handle holds has no public name
        self._thread_id = threading.get_ident()  # it counts as running: asyncio asks
        self.create_future = partial(asyncio.Future, loop=self)  # type: ignore[method-assign]

    def time(self) -> float:
        return self.kernel.time

    def _write_to_self(self) -> None:
        """Nobody sleeps in a selector here."""

    def run_in_executor(self, *_: Any) -> Any:  # type: ignore[override]  # it never returns
        raise RuntimeError("no thread may be used in a simulation")

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        return Ordered(coro, loop=self, **options)

    def call_soon(  # type: ignore[override]  # any arguments
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> Any:
        ready, waiting = Ready(callback, args, self, context), self.waiting
        if not waiting:
            self.kernel.ready.append(self)
        waiting.append(ready)
        return ready

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> Any:
        timer = Ready(callback, args, self, context)
        self.kernel.set_timer(when, timer)
        return timer

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Any, *args: Any, context: Context | None = None
    ) -> Any:
        timer = Ready(callback, args, self, context)
        self.kernel.set_timer(self.kernel.time + delay, timer)
        return timer

    def take(self, ready: Ready) -> None:
        """Let what was set for this instant be run at the next turn."""
        if not self.waiting:
            self.kernel.ready.append(self)
        self.waiting.append(ready)

    def turn(self, draw: Callable[[], float]) -> None:
        """Run what is ready now, in a drawn order; what it makes ready waits for the next turn."""
        batch, program = list(self.waiting), self.program
        self.waiting.clear()
        for place in range(len(batch) - 1, 0, -1):
            other = int(draw() * (place + 1))
            batch[place], batch[other] = batch[other], batch[place]
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
