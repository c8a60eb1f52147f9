"""How do the tasks come to know the store, the world and each other?

`wire` makes cells and tasks on given ports and lets them ring each other. Nothing is opened, called or run here.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from controller.core.policy import HostingPolicy, ModelPolicy
from controller.core.view import View
from controller.daemon.built import Daemon, Mode, Seams
from controller.daemon.launches import Fleet
from controller.daemon.taking_over import Past
from controller.providers.reading import Reading
from controller.providers.writing import Writing
from controller.settings import Settings
from controller.store.adopting import Adopter
from controller.store.doubts import Doubts
from controller.store.store import Store
from controller.store.stream_leases import StreamLeases
from controller.store.waits import Waits
from controller.store.wants import Wants
from controller.supervision import Cell, Informed, Pulse, Runner, Settling, Wake, always, never
from controller.tasks.abandonment_watcher import AbandonmentWatcher
from controller.tasks.account_guard import AccountGuard
from controller.tasks.billing_watcher import BillingWatcher
from controller.tasks.clock_keeper import ClockKeeper
from controller.tasks.crash_loop_detector import CrashLoopDetector
from controller.tasks.evidence_writer import EvidenceWriter
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

EVIDENCE_LULL: Final = timedelta(milliseconds=50)
"""The file may be this late: its reads would stand between the commits of a start."""


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
    wants, waits, leases, doubts = Wants(), Waits(), StreamLeases(lifetime=policy.stream_lease), Doubts()
    executor = Executor(_means(store, ports, view, wiring))
    told = Told(view=view, wants=wants, stream_leases=leases, clock=clock)
    reconciler = Reconciler(store=store, told=told, executor=executor, charter=_charter(wiring))
    prefetcher = _prefetcher(store, view, wants, executor, wiring)
    reaper = IdleReaper(store=store, view=view, stream_leases=leases, policy=policy, models=models)
    abandonment = AbandonmentWatcher(store=store, waits=waits, models=models)
    settler = ObligationSettler(store=store, view=view, stream_leases=leases, executor=executor, policy=policy)
    writer = EvidenceWriter(store=store, path=wiring.settings.places.evidence, blocking=wiring.seams.blocking)
    tasks: list[Informed] = [
        *_eyes(store, ports, view, wants, wiring),
        reconciler,
        prefetcher,
        reaper,
        abandonment,
        *_recovery(store, view, leases, doubts, wiring),
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
        waits=waits,
        stream_leases=leases,
        doubts=doubts,
        executor=executor,
        reconciler=reconciler,
        prefetcher=prefetcher,
        idle_reaper=reaper,
        abandonment=abandonment,
        settler=settler,
        evidence_writer=writer,
        runners=[_runner(task, clock.now(), store) for task in tasks],
        started_at=clock.now(),
    )
    store.on_change(daemon.news)
    view.on_change(daemon.news)
    return daemon


def _eyes(store: Store, ports: Ports, view: Cell[View], wants: Wants, wiring: Wiring) -> tuple[Informed, ...]:
    """The tasks that see, and that say what is odd in what was seen."""
    return (
        _observer(store, ports, view, wants, wiring),
        AccountGuard(store=store, view=view),
        Lookout(store=store, view=view, policy=wiring.policy),
    )


def _recovery(
    store: Store, view: Cell[View], leases: StreamLeases, doubts: Doubts, wiring: Wiring
) -> tuple[Informed, ...]:
    """The tasks that find out what went wrong with a machine that is there, or that no record holds."""
    policy, models = wiring.policy, wiring.models
    return (
        _matcher(store, view, leases, wiring),
        CrashLoopDetector(store=store, view=view, models=models),
        HangDetector(store=store, view=view, stream_leases=leases, doubts=doubts, policy=policy),
        LogWatcher(store=store, view=view, policy=policy, models=models),
        OrphanSweeper(store=store, view=view, policy=policy, models=models, holder=wiring.run_id),
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


def _means(store: Store, ports: Ports, view: Cell[View], wiring: Wiring) -> Means:
    return Means(
        store=store,
        writing=ports.writing,
        policy=wiring.policy,
        holder=wiring.run_id,
        launches=wiring.fleet.launches,
        sighted=lambda key: view.value.sighted.get(key),
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
        barred=wiring.mode.barred,
        config_readable=wiring.mode.config_readable,
    )


def _prefetcher(store: Store, view: Cell[View], wants: Wants, executor: Executor, wiring: Wiring) -> Prefetcher:
    leave = Leave(
        policy=wiring.policy,
        models=wiring.models,
        holder=wiring.run_id,
        randomness=wiring.seams.randomness,
        barred=wiring.mode.barred,
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
        left_open=(lambda: task.left_open) if isinstance(task, Settling) else always,
    )
