"""What does one pass of one task run on?

A real store without threads, the provider in plain Python and virtual time. Steps that a test is not about are taken
here, each as the tasks take it; what a test is about it does itself.
"""

import inspect
import json
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from functools import wraps
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from controller.core.deployment import Record, SeenResource
from controller.core.evidence import StopReason
from controller.core.identity import DeploymentId, RequestId, ResourceKey, Scope, Tags
from controller.core.obligation import Obligation
from controller.core.readiness import Verdict
from controller.core.runtime import Scrape
from controller.core.view import View
from controller.ids import SeededRandomness
from controller.providers.fake.adapter import FakeProvider
from controller.providers.writing import CreateAccepted, Launch, Order
from controller.store import deployments, duties, restoring
from controller.store.deployments import Declaration, Planned
from controller.store.errors import StoreUnwritable
from controller.store.outbox import lines_after
from controller.store.store import Store
from controller.store.stream_leases import StreamLease, StreamLeases
from controller.store.wants import Wants
from controller.supervision import Cell
from controller.tasks.account_guard import AccountGuard
from controller.tasks.executor import Executor, Means
from controller.tasks.lease_keeper import LeaseKeeper
from controller.tasks.observer import Observer, Rules, Watched
from controller.tasks.reconciler import Charter, Reconciler, Told
from controller.upstreams.probe import Probe, ProbeTarget
from tests.core.samples import hosting_policy, model_policy, spec, wish
from tests.support.loop_clock import LoopClock
from tests.support.stores import open_store
from tests.support.virtual_time import run_virtual

SCOPE: Final = Scope(provider="runpod", account="main")
LAUNCH: Final = Launch(argv=("serve",))


async def at_once(work: Callable[[], Any]) -> Any:
    """Do what blocks on files here and now."""
    return work()


class ScriptedProber:
    """Says of each endpoint what it was told to say, and remembers when it was asked."""

    def __init__(self, clock: LoopClock) -> None:
        self._clock = clock
        self.verdict = Verdict.READY
        self.answered = True
        self.served: tuple[str, ...] | None = None
        self.scrape: Scrape | None = None
        self.asked: list[tuple[float, ProbeTarget]] = []

    async def probe(self, target: ProbeTarget) -> Probe:
        self.asked.append((self._clock.boot().total_seconds(), target))
        return Probe(
            verdict=self.verdict,
            served=self.served,
            detail="scripted",
            observed_at=self._clock.now(),
            answered=self.answered,
            scrape=self.scrape,
        )


class Bench:
    """Everything that a task may be given."""

    group: TaskGroup

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = LoopClock()
        self.provider = FakeProvider(scope=SCOPE, clock=self.clock)
        self.prober = ScriptedProber(self.clock)
        self.policy = hosting_policy(max_active=8, usd_per_day=Decimal(200))
        self.model = model_policy(usd_per_hour_max=Decimal(1))
        self.view: Cell[View] = Cell(View())
        self.wants = Wants()
        self.leases = StreamLeases(lifetime=self.policy.stream_lease)
        self.runs = 0
        self.store: Store
        self.guard: AccountGuard

    @property
    def holder(self) -> str:
        return f"c-{self.runs}"

    # The process

    async def open(self) -> None:
        """Begin a run of the daemon: open the store and take over what is on record."""
        self.runs += 1
        self.store = await open_store(self.folder, self.clock, seed=self.runs, threads=False)
        policy, holder = self.policy, self.holder
        await self.store.write(lambda tx: restoring.restore(tx, policy=policy, holder=holder))
        self.guard = AccountGuard(store=self.store, view=self.view)

    async def restart(self) -> None:
        """End this run and begin another: views, wishes and stream leases are forgotten."""
        await self.store.close()
        self.view, self.wants = Cell(View()), Wants()
        self.leases = StreamLeases(lifetime=self.policy.stream_lease)
        await self.open()

    async def close(self) -> None:
        await self.store.close()

    async def executor(self, **changes: Any) -> Executor:
        """A running executor."""
        means = Means(
            store=self.store,
            writing=self.provider,
            policy=self.policy,
            holder=self.holder,
            launches={"qwen": LAUNCH, "other": LAUNCH},
            sighted=lambda key: self.view.value.sighted.get(key),
        )
        executor = Executor(replace(means, **changes))
        await self.group.start(executor.run)
        return executor

    def reconciler(self, executor: Executor, **changes: Any) -> Reconciler:
        charter = Charter(
            policy=self.policy,
            models={"qwen": self.model},
            holder=self.holder,
            randomness=SeededRandomness(99),
        )
        return Reconciler(
            store=self.store,
            told=Told(view=self.view, wants=self.wants, stream_leases=self.leases, clock=self.clock),
            executor=executor,
            charter=replace(charter, **changes),
        )

    def observer(self, **changes: Any) -> Observer:
        parts: dict[str, Any] = {
            "store": self.store,
            "reading": self.provider,
            "prober": self.prober,
            "view": self.view,
            "clock": self.clock,
            "rules": Rules(
                policy=self.policy,
                watched={"qwen": Watched(server="vllm", secret_reference=None, credential=None)},
                wanted=lambda: self.wants.all(now=self.clock.now()),
            ),
        }
        return Observer(**parts | changes)

    async def renew(self) -> None:
        """Keep our leases."""
        await LeaseKeeper(store=self.store, policy=self.policy, holder=self.holder).run_pass()

    async def look(self, *, judge: bool = True) -> View:
        """List, read what is doubtful and probe, once; `judge`: let the account guard have its pass after it."""
        observer = self.observer()
        await observer.run_pass()
        await observer.run_pass()  # what the listing showed is probed in the next pass
        if judge:
            await self.guard.run_pass()
        return self.view.value

    # Deployments

    async def plan(self, name: str = "qwen-1", *, model: str = "qwen", slot: int = 0) -> Planned:
        """Declared, with a create on record that is not sent."""
        asked = wish(spec=spec(id=DeploymentId(name), model=model), slot=slot)
        declaration = Declaration(wish=asked, offer="L40S", ceiling=Decimal(1), holder=self.holder)
        return await self.store.write(lambda tx: deployments.declare(tx, declaration, policy=self.policy))

    async def submit(self, name: str = "qwen-1", **where: Any) -> Planned:
        """The create is marked as sent, and unanswered."""
        planned = await self.plan(name, **where)
        request = planned.create.request
        create = await self.store.write(lambda tx: deployments.mark_submitting(tx, request, holder=self.holder))
        return replace(planned, create=create)

    def order(self, planned: Planned) -> Order:
        tags = self.tags(planned.create.request, epoch=planned.record.epoch)
        return Order(spec=planned.record.spec, tags=tags, offer=planned.create.offer, launch=LAUNCH)

    def tags(self, request: str | None = "r1", *, epoch: int = 0) -> Tags:
        owner = self.store.book.owner
        wanted = None if request is None else RequestId(request)
        return Tags(owner=owner.name, installation=owner.installation, epoch=epoch, request=wanted)

    async def start(self, name: str = "qwen-1", **where: Any) -> Record:
        """Requested: the provider made it."""
        return await self.accept(await self.submit(name, **where))

    async def accept(self, planned: Planned) -> Record:
        outcome = await self.provider.create(self.order(planned))
        assert isinstance(outcome, CreateAccepted)
        return await self.store.write(lambda tx: deployments.record_accepted(tx, planned.create, outcome.resource))

    async def serve(self, name: str = "qwen-1", **where: Any) -> Record:
        """Active: it was seen, and serves."""
        record = await self.start(name, **where)
        await self.store.write(lambda tx: duties.note_seen(tx, self.duty(record).id))
        return await self.store.write(lambda tx: deployments.record_ready(tx, record))

    async def lose(self, name: str = "qwen-1", *, made: bool = False, slot: int = 0) -> Record:
        """Uncertain: the create's answer was lost; `made` says what became of it in truth."""
        planned = await self.submit(name, slot=slot)
        if made:
            await self.provider.create(self.order(planned))
        return await self.store.write(lambda tx: deployments.record_unknown(tx, planned.create, detail="lost"))

    async def require_stop(
        self, record: Record, reason: StopReason = StopReason.OPERATOR_REQUEST, *, drain: float | None = None
    ) -> Obligation:
        """Owe its stop, with a drain of so many seconds."""
        until = None if drain is None else self.clock.now() + timedelta(seconds=drain)
        current = self.record(record.id)
        await self.store.write(lambda tx: deployments.require_stop(tx, current, reason, drain_until=until))
        return self.duty(record)

    def record(self, name: str = "qwen-1") -> Record:
        return self.store.book.records[DeploymentId(name)]

    def duty(self, record: Record | None = None) -> Obligation:
        """The latest obligation of a deployment, ended or not."""
        name = "qwen-1" if record is None else record.id
        return [duty for duty in self.store.book.obligations.values() if duty.deployment == name][-1]

    def use(self, record: Record, *, open_requests: int = 1, gateway: str = "g1") -> None:
        """A gateway states that it has open requests there."""
        now = self.clock.now()
        lease = StreamLease(deployment=record.id, epoch=record.epoch, open_requests=open_requests, last_byte_at=now)
        self.leases.put(gateway, [lease], now=now)

    def stray(self, incarnation: str = "x1", *, tags: Tags | None = None, **changes: Any) -> SeenResource:
        """A resource that no record holds; put into the account."""
        name = f"gpuwarden-qwen-{incarnation}"
        key = ResourceKey(provider=SCOPE.provider, account=SCOPE.account, name=name, incarnation=incarnation)
        seen = replace(self.provider.described(key, tags=tags or self.tags("rstray")), **changes)
        self.provider.put(seen)
        return seen

    # Trouble

    def break_store(self) -> None:
        """From now on no transaction that changes anything can be committed; reading goes on."""
        self._sql("CREATE TRIGGER full BEFORE UPDATE ON meta BEGIN SELECT RAISE(ABORT, 'scripted: disk full'); END")

    def lock_store(self, *, meanwhile: Callable[[], object] = lambda: None) -> None:
        """From now on no transaction can begin, so that none can refuse anything; `meanwhile`: while one waits."""

        async def locked(*_: object, **__: object) -> None:
            meanwhile()
            raise StoreUnwritable("scripted: database is locked")

        vars(self.store)["write"] = locked

    def lose_file(self) -> None:
        """Somebody removes the lock's file."""
        (self.folder / "store.db.lock").unlink()

    async def taken_over(self) -> None:
        """Another daemon begins on the store."""
        self.lose_file()
        second = await open_store(self.folder, self.clock, seed=2, threads=False)
        await second.write(lambda tx: tx.line("daemon.started"))
        await second.close()

    def mend_store(self) -> None:
        self._sql("DROP TRIGGER full")

    def _sql(self, statement: str) -> None:
        with closing(sqlite3.connect(self.folder / "store.db")) as connection:
            connection.execute(statement)
            connection.commit()

    # What came of it

    async def move(self, seconds: float) -> None:
        """Let time pass."""
        await anyio.sleep(seconds)

    async def settle(self) -> None:
        """Let everything that is ready run, at the same instant."""
        for _ in range(50):
            await anyio.lowlevel.checkpoint()

    async def lines(self) -> list[dict[str, Any]]:
        """The evidence as it is stored."""
        stored = await self.store.read(lambda connection: lines_after(connection, 0, limit=100_000))
        return [json.loads(text) for _, text in stored]

    async def events(self, event: str) -> list[dict[str, Any]]:
        return [line for line in await self.lines() if line["event"] == event]

    def alarms(self, name: str) -> list[str]:
        return [subject for raised, subject in self.store.book.alarms if raised == name]


@asynccontextmanager
async def bench_in(folder: Path) -> AsyncIterator[Bench]:
    async with AsyncExitStack() as stack:
        bench = Bench(folder)
        stack.push_async_callback(bench.close)  # after the group: what is in flight may still write
        bench.group = await stack.enter_async_context(anyio.create_task_group())
        await bench.open()
        yield bench
        bench.group.cancel_scope.cancel()


def on_bench(play: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Make a test of a function that takes a bench (and pytest's arguments): it is played on virtual time."""

    @wraps(play)
    def test(*, tmp_path: Path, **given: Any) -> None:
        async def main() -> None:
            async with bench_in(tmp_path) as bench:
                await play(bench, **given)

        try:
            run_virtual(main)
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None  # what the test itself raised, without the task group around it

    others = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in _arguments(play)[1:]]
    folder = inspect.Parameter("tmp_path", inspect.Parameter.KEYWORD_ONLY)
    vars(test)["__signature__"] = inspect.Signature([folder, *others])
    del vars(test)["__wrapped__"]
    return test


def _arguments(play: Callable[..., object]) -> list[inspect.Parameter]:
    return list(inspect.signature(play).parameters.values())
