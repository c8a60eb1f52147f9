"""What does the API stand on in a test?

A real store on SQLite, a clock moved by hand, and both apps in process behind the client that the gateway and the CLI
use. Steps of a deployment's life are the store's own transactions; what the rules would answer is set by the test.
"""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from controller.api.app import gateways_app, operators_app
from controller.api.board import Closing
from controller.api.client import DaemonClient, OpenStreams
from controller.api.panel import Panel
from controller.core import abandonment, idle, start
from controller.core.deployment import ProvisionedDeployment, Record, SeenResource
from controller.core.identity import DeploymentId, Tags
from controller.core.inventory import Listing
from controller.core.obligation import Obligation
from controller.core.policy import ModelPolicy
from controller.core.view import View
from controller.daemon.built import NORMAL, Mode
from controller.store import deployments
from controller.store.deployments import Declaration, Planned
from controller.store.doubts import Doubts
from controller.store.store import Store
from controller.store.stream_leases import StreamLeases
from controller.store.transaction import Tx
from controller.store.waits import Waits
from controller.store.wants import Wants
from controller.supervision import Cell, Pulse
from tests.core.samples import hosting_policy, key, model_policy, resource, spec, wish
from tests.support.asgi_wire import AsgiWire
from tests.support.loop_clock import HandClock
from tests.support.stores import open_store

HOLDER: Final = "c-1"
ENDPOINT: Final = "https://p1-8000.proxy.example/v1/"
STOP_ONLY: Final = Mode(stop_only=True, problems=["models.qwen.gpus: unknown"])
POLICY: Final = hosting_policy(max_active=4)


class World:
    """`operator` and `gateway` speak to the two sockets."""

    def __init__(self, store: Store, clock: HandClock, *, models: tuple[ModelPolicy, ...], mode: Mode) -> None:
        self.store = store
        self.clock = clock
        self.rung = 0
        self.refusals: dict[str, start.Refuse] = {}
        self.prefetch_refusals: dict[tuple[str, str], start.Refuse] = {}
        self.abandonment: abandonment.Decision | None = None
        self.idle: idle.KeepBusy | idle.KeepUntil | idle.IdleOut | None = None
        self.pulses = [Pulse(name="observer", period=timedelta(seconds=60), last_pass_at=clock.now())]
        self.closing = Closing()
        self.panel = Panel(
            store=store,
            view=Cell(View()),
            wants=Wants(),
            waits=Waits(),
            stream_leases=StreamLeases(lifetime=POLICY.stream_lease),
            policy=POLICY,
            models={model.alias: model for model in models},
            run_id=HOLDER,
            doubts=Doubts(),
            version="0.0.0",
            stop_only=mode.stop_only,
            barred=mode.barred,
            mode=mode.name,
            problems=mode.problems,
            pulses=self.pulses,
            started_at=clock.now(),
            clock=clock,
            ring=self._ring,
            refusal=self.refusals.get,
            prefetch_refusal=self.prefetch_refusals.get,
            idle=lambda record: self.idle,
            abandonment=lambda record: self.abandonment,
            waiting_for=self._waiting_for,
            closing=self.closing,
        )
        self.wire = AsgiWire({"operators": operators_app(self.panel), "gateways": gateways_app(self.panel)})
        self.operator = DaemonClient(self.wire, "http://operators")
        self.gateway = DaemonClient(self.wire, "http://gateways")

    def _ring(self, *_: str) -> None:
        self.rung += 1

    def refuse(self, alias: str, refusal: start.Refuse) -> None:
        """As the reconciler does: no commit, and it rings."""
        self.refusals[alias] = refusal
        self.panel.board.ring()

    def _waiting_for(self, duty: Obligation) -> str:
        return "a complete listing without it"

    # Steps of a deployment's life

    async def declare(self, name: str = "qwen-1", *, slot: int = 0, model: str = "qwen") -> Planned:
        asked = wish(spec=spec(id=DeploymentId(name), model=model), slot=slot, now=self.clock.now())
        declaration = Declaration(wish=asked, offer="L40S", ceiling=Decimal("0.8"), holder=HOLDER)
        return await self.store.write(lambda tx: deployments.declare(tx, declaration, policy=POLICY))

    async def submit(self, name: str = "qwen-1", **more: Any) -> Planned:
        planned = await self.declare(name, **more)
        request = planned.create.request
        create = await self.store.write(lambda tx: deployments.mark_submitting(tx, request, holder=HOLDER))
        return replace(planned, create=create)

    async def request(self, name: str = "qwen-1", *, incarnation: str = "p1", **more: Any) -> Record:
        """A create that was accepted."""
        planned = await self.submit(name, **more)
        return await self.store.write(
            lambda tx: deployments.record_accepted(tx, planned.create, self.made(planned, incarnation))
        )

    def made(self, planned: Planned, incarnation: str = "p1") -> SeenResource:
        owner = self.store.book.owner
        tags = Tags(owner=owner.name, installation=owner.installation, epoch=1, request=planned.create.request)
        return resource(key=key(incarnation), tags=tags)

    async def serve(self, name: str = "qwen-1", **more: Any) -> Record:
        """It is ready, and its address is known."""
        record = await self.request(name, **more)

        def ready(tx: Tx) -> Record:
            return deployments.record_observed(tx, deployments.record_ready(tx, record), self.observed(record))

        return await self.store.write(ready)

    def observed(self, record: Record) -> ProvisionedDeployment:
        assert record.key is not None
        return ProvisionedDeployment(
            key=record.key,
            state=None,
            ready=True,
            endpoint=ENDPOINT,
            served_model=None,
            observed_at=self.clock.now(),
        )

    def record(self, name: str = "qwen-1") -> Record:
        return self.store.book.records[DeploymentId(name)]

    def show(self, *resources: SeenResource, complete: bool = True) -> None:
        """The provider's account is listed once more."""
        now = self.clock.now()
        listing = Listing(began_at=now, ended_at=now, complete=complete, resources=resources)
        view = self.panel.view.value
        self.panel.view.publish(replace(view, listing=listing, completed=listing if complete else view.completed))

    # What gateways say

    async def lease(self, *leases: OpenStreams, gateway: str = "g-1") -> tuple[set[str], set[str]]:
        """What is granted, and what is refused."""
        answer = await self.gateway.put_stream_leases(gateway, leases)
        return set(answer.granted), set(answer.refused)

    def streams(self, name: str = "qwen-1", **changes: Any) -> OpenStreams:
        record = self.store.book.records.get(DeploymentId(name))
        epoch = 1 if record is None else record.epoch
        said = OpenStreams(deployment=name, epoch=epoch, open=1, idle=timedelta(0), bytes_seen=False)
        return replace(said, **changes)

    def open_requests(self, name: str = "qwen-1") -> int:
        return self.panel.stream_leases.open_requests(DeploymentId(name), now=self.store.now)

    async def report(self, kind: str, *, gateway: str = "g-1", epoch: int | None = None) -> None:
        record = self.record()
        epoch = record.epoch if epoch is None else epoch
        await self.gateway.report(gateway=gateway, deployment=record.id, epoch=epoch, kind=kind, detail="401")

    async def view(self, alias: str = "qwen") -> dict[str, Any]:
        answer = await self.gateway.routes(after=None, wait=timedelta(0))
        view: dict[str, Any] = answer["models"][alias]
        return view

    async def events(self) -> Counter[str]:
        lines = (await self.operator.get("/v1/evidence"))["lines"]
        return Counter(line["event"] for line in lines)


@asynccontextmanager
async def world(
    folder: Path, *, models: tuple[ModelPolicy, ...] = (model_policy(),), mode: Mode = NORMAL
) -> AsyncIterator[World]:
    clock = HandClock()
    store = await open_store(folder, clock, threads=False)
    try:
        yield World(store, clock, models=models, mode=mode)
    finally:
        await store.close()


def at(instant: datetime) -> str:
    return instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")
