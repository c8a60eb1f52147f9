"""How do the parts of the daemon become one?

`build` makes store, ports, cells and tasks from a config and the seams (clock, randomness, HTTP to the outside, the
database's driver); `Daemon.run` keeps them going until it is cancelled. It adds no signals, sockets or notifications: a
simulation builds the same daemon on virtual time.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

import anyio

from controller.clock import Clock, MachineClock, SystemClock
from controller.core.backoff import Holding
from controller.core.identity import Scope
from controller.core.policy import HostingPolicy, ModelPolicy
from controller.core.view import View
from controller.daemon.launches import Fleet, fleet
from controller.daemon.taking_over import Past, Run, recollect, take_over
from controller.ids import Randomness, SystemRandomness
from controller.providers.reading import Reading
from controller.providers.runpod.account import Account, open_api
from controller.providers.runpod.adapter import RunpodReading, RunpodWriting
from controller.providers.runpod.wire import Namespace
from controller.providers.writing import Writing
from controller.settings import Settings
from controller.store.adopting import Adopter
from controller.store.database import Creator
from controller.store.doubts import Doubts
from controller.store.elapsed import Ceilings
from controller.store.store import Store
from controller.store.stream_leases import StreamLeases
from controller.store.wants import Wants
from controller.supervision import Cell, Changes, Informed, Pulse, Runner, Wake, keep_running, never
from controller.tasks.account_guard import AccountGuard
from controller.tasks.billing_watcher import BillingWatcher
from controller.tasks.clock_keeper import ClockKeeper
from controller.tasks.crash_loop_detector import CrashLoopDetector
from controller.tasks.evidence_writer import Blocking, EvidenceWriter
from controller.tasks.executor import Executor, Means
from controller.tasks.hang_detector import HangDetector
from controller.tasks.idle_reaper import IdleReaper
from controller.tasks.lease_keeper import LeaseKeeper
from controller.tasks.ledger_keeper import LedgerKeeper
from controller.tasks.log_watcher import LogWatcher
from controller.tasks.lookout import Lookout
from controller.tasks.obligation_settler import ObligationSettler
from controller.tasks.observer import Observer, Prober, Rules
from controller.tasks.orphan_sweeper import OrphanSweeper
from controller.tasks.prefetcher import Leave, Prefetcher
from controller.tasks.reconciler import Charter, Reconciler, Told
from controller.tasks.restore_matcher import RestoreMatcher
from controller.transport import AsyncTransport, CallLimits
from controller.upstreams.probe import open_prober

CLOSE_LIMIT = timedelta(seconds=5)
EVIDENCE_LULL = timedelta(milliseconds=50)
"""The file may be this late: its reads would stand between the commits of a start."""
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
    """Does the daemon work normally, or does it only stop what it owes?"""

    stop_only: bool = False
    config_readable: bool = True
    problems: Sequence[str] = ()


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
    stream_leases: StreamLeases
    doubts: Doubts
    executor: Executor
    reconciler: Reconciler
    prefetcher: Prefetcher
    idle_reaper: IdleReaper
    settler: ObligationSettler
    evidence_writer: EvidenceWriter
    runners: list[Runner]
    started_at: datetime
    closers: list[Closer] = field(default_factory=list)
    _changes: Changes = field(init=False)

    def __post_init__(self) -> None:
        self._changes = Changes(runner.looks for runner in self.runners if runner.looks is not None)

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
        for runner in self.runners:
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


async def build(settings: Settings, seams: Seams, *, mode: Mode = Mode()) -> Daemon:
    """Open the store, restore what is owed and wire everything. Calls no provider.

    Raises ConfigProblems, StoreError.
    """
    policy, models = settings.hosting_policy(), settings.model_policies()
    key = settings.runpod_key().get_secret_value()
    # Stop-only, nothing is probed that needs a key: one that cannot be read must not prevent what is owed.
    parts = fleet(settings, probe_keys=not mode.stop_only)
    store = await Store.open(
        settings.places.store,
        identity=(policy.owner, policy.provider, policy.account),
        clock=seams.clock,
        randomness=seams.randomness,
        creator=seams.creator,
        locked_as=settings.places.usual_store,
    )
    store.holding = Holding(after=policy.failed_starts_limit, first=policy.hold_first, most=policy.hold_max)
    run_id = f"c-{seams.randomness.token_hex(4)}"
    try:
        past = await recollect(store, settings.places.evidence, seams.blocking)
        stopping = ("; ".join(mode.problems) or "nothing is started") if mode.stop_only else None
        run = Run(id=run_id, key=key, stop_only=stopping, accepted=settings.accepted(), past=past)
        await store.write(lambda tx: take_over(tx, run, policy))
        if store.book.matching_since is not None:
            store.epochs_known = store.book.epoch_latest
        drains = {alias: model.drain_limit for alias, model in models.items()}
        store.ceilings = Ceilings(policy=policy, drain_limits=drains)
    except BaseException:
        await store.close()
        raise
    world = _reach(settings, seams, policy=policy, store=store, key=key, parts=parts)
    wiring = Wiring(
        settings=settings, seams=seams, mode=mode, policy=policy, models=models, run_id=run_id, fleet=parts, past=past
    )
    daemon = wire(store, world.ports, wiring)
    daemon.closers = world.closers
    return daemon


@dataclass(frozen=True, slots=True, kw_only=True)
class _World:
    """The ways to the outside, and how they are closed."""

    ports: "Ports"
    closers: list[Closer]


def _reach(settings: Settings, seams: Seams, *, policy: HostingPolicy, store: Store, key: str, parts: Fleet) -> _World:
    section = settings.written.runpod
    http = open_api(key=key, api_url=section.api_url, transport=seams.transport, limit=policy.call_limit)
    account = Account(http, clock=store.clock, hear=store.clock.hear, randomness=seams.randomness)
    namespace = Namespace(
        scope=Scope(provider=policy.provider, account=policy.account),
        owner=store.book.owner,
        prefix=section.prefix,
        foreign_prefixes=section.foreign_prefixes,
        proxy_url=section.proxy_url,
    )
    prober = open_prober(
        clock=store.clock,
        transport=seams.transport,
        limits=CallLimits(whole=policy.probe_limit, body_bytes=policy.probe_bytes_max),
    )
    ports = Ports(
        reading=RunpodReading(account, namespace=namespace, models=parts.ordered.values()),
        writing=RunpodWriting(account, namespace=namespace, models=parts.ordered),
        prober=prober,
    )
    return _World(ports=ports, closers=[http.aclose, prober.aclose])


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The ways to the outside."""

    reading: Reading
    writing: Writing
    prober: Prober


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """What the parts are made from."""

    settings: Settings
    seams: Seams
    mode: Mode
    policy: HostingPolicy
    models: dict[str, ModelPolicy]
    run_id: str
    fleet: Fleet
    past: Past = field(default_factory=Past)


def wire(store: Store, ports: Ports, wiring: Wiring) -> Daemon:
    """Make cells and tasks and let them ring each other."""
    clock, policy, models = store.clock, wiring.policy, wiring.models
    view: Cell[View] = Cell(View(interval=policy.listing_fast))
    wants, leases, doubts = Wants(), StreamLeases(lifetime=policy.stream_lease), Doubts()
    executor = Executor(_means(store, ports, wiring))
    told = Told(view=view, wants=wants, stream_leases=leases, clock=clock)
    reconciler = Reconciler(store=store, told=told, executor=executor, charter=_charter(wiring))
    prefetcher = _prefetcher(store, view, wants, executor, wiring)
    reaper = IdleReaper(store=store, view=view, stream_leases=leases, policy=policy, models=models)
    settler = ObligationSettler(store=store, view=view, stream_leases=leases, executor=executor, policy=policy)
    writer = EvidenceWriter(store=store, path=wiring.settings.places.evidence, blocking=wiring.seams.blocking)
    tasks: list[Informed] = [
        _observer(store, ports, view, wants, wiring),
        AccountGuard(store=store, view=view),
        Lookout(store=store, view=view, policy=policy),
        reconciler,
        prefetcher,
        reaper,
        _matcher(store, view, leases, wiring),
        *_recovery(store, view, leases, doubts, wiring),
        OrphanSweeper(store=store, view=view, policy=policy, models=models, holder=wiring.run_id),
        settler,
        *_keepers(store, view, wiring),
        writer,
    ]
    daemon = Daemon(
        settings=wiring.settings,
        mode=wiring.mode,
        policy=policy,
        models=models,
        run_id=wiring.run_id,
        clock=clock,
        store=store,
        view=view,
        wants=wants,
        stream_leases=leases,
        doubts=doubts,
        executor=executor,
        reconciler=reconciler,
        prefetcher=prefetcher,
        idle_reaper=reaper,
        settler=settler,
        evidence_writer=writer,
        runners=[_runner(task, clock.now(), store) for task in tasks],
        started_at=clock.now(),
    )
    store.on_change(daemon.news)
    view.on_change(daemon.news)
    return daemon


def _recovery(
    store: Store, view: Cell[View], leases: StreamLeases, doubts: Doubts, wiring: Wiring
) -> tuple[Informed, ...]:
    """The tasks that find out what went wrong with a machine that is there."""
    policy, models = wiring.policy, wiring.models
    return (
        CrashLoopDetector(store=store, view=view, models=models),
        HangDetector(store=store, view=view, stream_leases=leases, doubts=doubts, policy=policy),
        LogWatcher(store=store, view=view, policy=policy, models=models),
    )


def _keepers(store: Store, view: Cell[View], wiring: Wiring) -> list[Informed]:
    return [
        BillingWatcher(store=store, view=view, policy=wiring.policy, holder=wiring.run_id),
        LeaseKeeper(store=store, policy=wiring.policy, holder=wiring.run_id),
        ClockKeeper(store=store),
        LedgerKeeper(store=store, policy=wiring.policy, models=wiring.models),
    ]


def _observer(store: Store, ports: Ports, view: Cell[View], wants: Wants, wiring: Wiring) -> Observer:
    clock = store.clock
    rules = Rules(policy=wiring.policy, watched=wiring.fleet.watched, wanted=lambda: wants.all(now=clock.now()))
    return Observer(store=store, reading=ports.reading, prober=ports.prober, view=view, clock=clock, rules=rules)


def _means(store: Store, ports: Ports, wiring: Wiring) -> Means:
    return Means(
        store=store,
        writing=ports.writing,
        policy=wiring.policy,
        holder=wiring.run_id,
        launches=wiring.fleet.launches,
    )


def _matcher(store: Store, view: Cell[View], leases: StreamLeases, wiring: Wiring) -> RestoreMatcher:
    return RestoreMatcher(
        store=store,
        view=view,
        stream_leases=leases,
        clock=wiring.seams.clock,
        adopter=Adopter(models=wiring.models, holder=wiring.run_id, policy=wiring.policy),
        recalled=wiring.past.deployments,
    )


def _charter(wiring: Wiring) -> Charter:
    return Charter(
        policy=wiring.policy,
        models=wiring.models,
        holder=wiring.run_id,
        randomness=wiring.seams.randomness,
        stop_only=wiring.mode.stop_only,
        config_readable=wiring.mode.config_readable,
    )


def _prefetcher(store: Store, view: Cell[View], wants: Wants, executor: Executor, wiring: Wiring) -> Prefetcher:
    leave = Leave(
        policy=wiring.policy,
        models=wiring.models,
        holder=wiring.run_id,
        randomness=wiring.seams.randomness,
        stop_only=wiring.mode.stop_only,
    )
    return Prefetcher(store=store, view=view, wants=wants, clock=store.clock, executor=executor, leave=leave)


def _runner(task: Informed, now: datetime, store: Store) -> Runner:
    pulse = Pulse(name=task.name, period=task.period, last_pass_at=now)
    lull = EVIDENCE_LULL if isinstance(task, EvidenceWriter) else timedelta(0)
    return Runner(
        task=task,
        wake=Wake(),
        pulse=pulse,
        lull=lull,
        looks=task.looks_at,
        at_rest=lambda: store.book.at_rest,
        idle=(lambda: task.idle) if isinstance(task, Prefetcher) else never,
    )
