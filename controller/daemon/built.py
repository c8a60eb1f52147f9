"""What is a built daemon, and on what is it built?

The seams are all by which it touches the world (clock, randomness, HTTP to the outside, the database's driver); its
mode says what it may do. `Daemon.run` keeps its tasks going until it is cancelled, and adds no signals, sockets or
notifications: a simulation runs the same daemon on virtual time.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Final, TypeVar

import anyio

from controller.clock import Clock, MachineClock, SystemClock
from controller.core.policy import HostingPolicy, ModelPolicy
from controller.core.view import View
from controller.ids import Randomness, SystemRandomness
from controller.news import Changes
from controller.settings import Settings
from controller.store.database import Creator
from controller.store.doubts import Doubts
from controller.store.store import Store
from controller.store.stream_leases import StreamLeases
from controller.store.waits import Waits
from controller.store.wants import Wants
from controller.supervision import Cell, Pulse, Runner, keep_running
from controller.tasks.abandonment_watcher import AbandonmentWatcher
from controller.tasks.evidence_writer import Blocking, EvidenceWriter
from controller.tasks.executor import Executor
from controller.tasks.idle_reaper import IdleReaper
from controller.tasks.obligation_settler import ObligationSettler
from controller.tasks.prefetcher import Prefetcher
from controller.tasks.reconciler import Reconciler
from controller.transport import AsyncTransport

CLOSE_LIMIT = timedelta(seconds=5)
FAILURES_MAX = 8
"""A task that fails so often in a row ends the daemon; the unit starts it clean."""


T = TypeVar("T")


async def in_thread(work: Callable[[], T]) -> T:
    return await anyio.to_thread.run_sync(work)


Closer = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seams:
    """Where the daemon touches the world: everything that a test replaces."""

    clock: MachineClock = field(default_factory=SystemClock)
    randomness: Randomness = field(default_factory=SystemRandomness)
    transport: AsyncTransport | None = None
    """HTTP to provider and model servers; `None`: real sockets."""
    creator: Creator | None = None
    """The database driver's connection; `None`: aiosqlite."""
    blocking: Blocking = in_thread


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """Does the daemon work normally, on a config that was replaced, or does it only stop what it owes?

    On a config that was replaced by one that would stop everything (RP-40), what runs goes on: it is served, watched
    and reaped as ever. But nothing new is started on it. Who wrote the newer file may well have meant it, and what is
    not rented costs nothing; what is kept ends by its idle time or its lifetime at the latest.
    """

    stop_only: bool = False
    config_readable: bool = True
    problems: Sequence[str] = ()
    refused: str | None = None
    """Which config was not taken, what it would have stopped, and how to mend it."""

    @property
    def name(self) -> str:
        if self.stop_only:
            return "stop-only"
        return "normal" if self.refused is None else "former-config"

    @property
    def barred(self) -> str | None:
        """Why nothing is started, if nothing is."""
        if self.stop_only:
            return "the controller only stops: its config or store is bad"
        return None if self.refused is None else "the config was refused, and nothing new is started on the former one"


NORMAL: Final = Mode()


@dataclass(slots=True, kw_only=True)
class Daemon:
    """A built daemon. `run` it, then `close` it."""

    settings: Settings
    mode: Mode
    policy: HostingPolicy
    models: dict[str, ModelPolicy]
    run_id: str
    clock: Clock
    store: Store
    view: Cell[View]
    wants: Wants
    waits: Waits
    stream_leases: StreamLeases
    doubts: Doubts
    executor: Executor
    reconciler: Reconciler
    prefetcher: Prefetcher
    idle_reaper: IdleReaper
    abandonment: AbandonmentWatcher
    settler: ObligationSettler
    evidence_writer: EvidenceWriter
    runners: list[Runner]
    started_at: datetime
    closers: list[Closer] = field(default_factory=list)
    _changes: Changes = field(init=False)
    _told: list[tuple[Runner, frozenset[str] | None]] = field(init=False)
    """What each task looks at in whatever case: most of what happens is of no concern to most of them."""

    def __post_init__(self) -> None:
        self._changes = Changes(runner.looks for runner in self.runners if runner.looks is not None)
        self._told = [(runner, None if runner.looks is None else runner.looks.names) for runner in self.runners]

    @property
    def pulses(self) -> list[Pulse]:
        return [runner.pulse for runner in self.runners]

    def ring(self, *names: str) -> None:
        """Let these tasks pass now; without names, every one. Raises KeyError for a name that no task has."""
        if not names:
            for runner in self.runners:
                runner.wake.ring()
            return
        by_name = {runner.task.name: runner for runner in self.runners}
        for name in names:
            by_name[name].wake.ring()

    def news(self) -> None:
        """Something was committed or seen: let each task pass that looks at it."""
        change = self._changes.since(self.store.book, self.view.value)
        replaced = change.book | change.view
        for runner, names in self._told:
            if change.rest_changed or names is None or not names.isdisjoint(replaced):
                runner.news(change)

    async def run(self) -> None:
        """Run every task until cancelled. Raises GaveUp when one fails for ever."""
        async with anyio.create_task_group() as group:
            await group.start(self.executor.run)
            for runner in self.runners:
                group.start_soon(
                    partial(keep_running, runner, clock=self.clock, failures_max=FAILURES_MAX), name=runner.task.name
                )

    async def close(self) -> None:
        """Bring the last evidence to the file and give the store back. Stops no machine."""
        async with AsyncExitStack() as stack:  # whatever fails, the rest is given back
            stack.push_async_callback(self.store.close)
            for closer in self.closers:
                stack.push_async_callback(_within_limit, closer)
            await _within_limit(self.evidence_writer.close)


async def _within_limit(work: Closer) -> None:
    with anyio.move_on_after(CLOSE_LIMIT.total_seconds(), shield=True):
        await work()
