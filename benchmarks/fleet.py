"""How is an account of ten thousand machines put together without renting one?

The daemon's own parts, wired as in production, on a real store, with a provider and a prober in plain Python. Ours are
on record as accepted creates leave them; the others carry another owner's tags.
"""

import random
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from controller.clock import Clock
from controller.core.billing import Bill
from controller.core.deployment import Create, CreateAnswer, DeploymentSpec, ProviderState, Record, SeenResource
from controller.core.identity import DeploymentId, ObligationId, RequestId, ResourceKey, Scope, Tags
from controller.core.inventory import Listing, Read, Unreadable
from controller.core.lease import Lease
from controller.core.lifecycle import Phase
from controller.core.machine_log import Log
from controller.core.obligation import Obligation
from controller.core.readiness import Verdict
from controller.core.storage import Storage
from controller.daemon.built import Daemon, Mode, Seams
from controller.daemon.launches import fleet
from controller.daemon.wiring import Ports, Wiring, wire
from controller.ids import SeededRandomness
from controller.providers.fake.adapter import FakeProvider
from controller.providers.reading import Prices, Stock
from controller.settings import Settings, load
from controller.store.store import Store
from controller.store.transaction import Tx
from controller.upstreams.probe import Probe, ProbeTarget
from tests.support.loop_clock import HandClock
from tests.support.threadless_sqlite import ThreadlessConnection

MODELS: Final = 20
SLOTS: Final = 50
MINE: Final = MODELS * SLOTS
OTHERS: Final = 9_000
HOLDER: Final = "c-bench"

CONFIG: Final = """
name = "bench-7f3a"
usd_per_day = 900000
state_dir = "{folder}/state"
[policy]
max_active = 4000
"""

MODEL: Final = """
[models.{alias}]
model = "org/{alias}"
image = "vllm/vllm-openai:v0.31.0"
gpus = ["NVIDIA L40S"]
context = 4096
replicas = {slots}
idle_after = "24h"
max_usd_per_hour = 2
"""


class ReadyServers:
    """A prober that finds every server ready, at no cost."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.probes = 0

    async def probe(self, target: ProbeTarget) -> Probe:
        self.probes += 1
        return Probe(verdict=Verdict.READY, served=None, detail="", observed_at=self._clock.now())


class Account:
    """The way to look at the provider; `mixed`: as real ones do, it lists in no order that owes anything to us."""

    def __init__(self, provider: FakeProvider) -> None:
        self._provider = provider
        self._draw = random.Random(1)
        self.mixed = False

    async def list_resources(self) -> Listing:
        listing = await self._provider.list_resources()
        if not self.mixed:
            return listing
        return replace(listing, resources=tuple(self._draw.sample(listing.resources, len(listing.resources))))

    async def read_resource(self, key: ResourceKey) -> Read:
        return await self._provider.read_resource(key)

    async def read_log(self, key: ResourceKey) -> Log | Unreadable:
        return await self._provider.read_log(key)

    async def read_prices(self) -> Prices:
        return await self._provider.read_prices()

    async def read_bill(self, since: datetime) -> Bill:
        return await self._provider.read_bill(since)

    async def read_storage(self) -> Storage:
        return await self._provider.read_storage()

    async def read_stock(self, model: str) -> Stock:
        return await self._provider.read_stock(model)


@dataclass(slots=True, kw_only=True)
class Fleet:
    """A wired daemon that no loop runs: its passes are made by hand."""

    daemon: Daemon
    clock: HandClock
    provider: FakeProvider
    account: Account
    prober: ReadyServers
    connections: list[ThreadlessConnection] = field(default_factory=list)

    async def add_ours(self) -> None:
        """Put every machine of ours on record and into the account."""
        await self.daemon.store.write(lambda tx: _put_ours(tx, self))

    def add_others(self, numbers: range) -> None:
        """Put machines of somebody else into the account."""
        for at in numbers:
            tags = Tags(owner="somebody-else", installation="0123456789abcdef", request=RequestId(f"r{at:016x}"))
            self.provider.put(_seen(self, f"other-{at}", f"other{at}", tags=tags, namespaced=False))

    @property
    def rows_written(self) -> int:
        """Rows inserted, changed or removed so far."""
        held = [made._connection for made in self.connections]
        return sum(one.total_changes for one in held if isinstance(one, sqlite3.Connection))


@asynccontextmanager
async def open_fleet(folder: Path) -> AsyncIterator[Fleet]:
    """An empty account, and a daemon that knows of nothing."""
    settings, clock, connections = _settings(folder), HandClock(), list[ThreadlessConnection]()
    policy = settings.hosting_policy()

    def connect() -> ThreadlessConnection:
        connections.append(ThreadlessConnection(settings.places.store))
        return connections[-1]

    seams = Seams(clock=clock, randomness=SeededRandomness(1), creator=connect)
    store = await Store.open(
        settings.places.store,
        identity=(policy.owner, policy.provider, policy.account),
        clock=clock,
        randomness=seams.randomness,
        creator=seams.creator,
    )
    provider = FakeProvider(scope=Scope(provider=policy.provider, account=policy.account), clock=clock)
    account, prober = Account(provider), ReadyServers(clock)
    wiring = Wiring(
        settings=settings,
        seams=seams,
        mode=Mode(),
        policy=policy,
        models=settings.model_policies(),
        run_id=HOLDER,
        fleet=fleet(settings, probe_keys=False),
    )
    daemon = wire(store, Ports(reading=account, writing=provider, prober=prober), wiring)
    made = Fleet(daemon=daemon, clock=clock, provider=provider, account=account, prober=prober, connections=connections)
    try:
        yield made
    finally:
        await store.close()


def _settings(folder: Path) -> Settings:
    keys = folder / "keys"
    keys.mkdir(mode=0o700)
    (keys / "runpod").touch(mode=0o600)
    (keys / "runpod").write_text("account-key")
    models = "".join(MODEL.format(alias=f"m{at:02}", slots=SLOTS) for at in range(MODELS))
    (folder / "config.toml").touch(mode=0o600)
    (folder / "config.toml").write_text(CONFIG.format(folder=folder) + models)
    return load(folder / "config.toml", {})


def _put_ours(tx: Tx, made: Fleet) -> None:
    for alias in made.daemon.models:
        for slot in range(SLOTS):
            _put_on_record(tx, made, alias, slot)


def _put_on_record(tx: Tx, made: Fleet, alias: str, slot: int) -> None:
    """What a start leaves behind once its create was accepted; the steps themselves look at every other record."""
    policy, model, owner, now = made.daemon.policy, made.daemon.models[alias], tx.book.owner, tx.now
    epoch = tx.next_epoch()
    deployment, request = DeploymentId(f"{alias}-{slot:010}"), RequestId(f"r{alias[1:]}{slot:014}")
    tags = Tags(owner=owner.name, installation=owner.installation, epoch=epoch, request=request)
    seen = _seen(made, f"gpuwarden-{alias}-{slot}", f"mine{alias}x{slot}", tags=tags, offer=model.offers[0])
    made.provider.put(seen)
    spec = DeploymentSpec(
        id=deployment,
        provider=policy.provider,
        account=policy.account,
        model=alias,
        image=model.image,
        resource_name=alias,
        requested_lifetime=model.max_lifetime,
    )
    tx.put_record(
        Record(
            spec=spec,
            slot=slot,
            fingerprint=model.fingerprint,
            phase=Phase.REQUESTED,
            declared_at=now,
            started_at=now,
            key=seen.key,
            epoch=epoch,
            usd_per_hour=seen.usd_per_hour,
            offer=seen.offer,
        )
    )
    tx.put_create(
        Create(
            request=request,
            deployment=deployment,
            offer=model.offers[0],
            submitting_at=now,
            ended_at=now,
            answer=CreateAnswer.ACCEPTED,
            key=seen.key,
        )
    )
    duty = Obligation(id=ObligationId(f"o-{deployment}"), opened_at=now, deployment=deployment, model=alias, slot=slot)
    tx.put_duty(replace(duty, request=request, key=seen.key, create_ended_at=now, epoch=epoch))
    tx.put_lease(Lease(deployment=deployment, holder=HOLDER, epoch=epoch, expires_at=now + policy.lease))


def _seen(made: Fleet, name: str, incarnation: str, **more: Any) -> SeenResource:
    scope, now = made.provider.scope, made.clock.now()
    said: dict[str, Any] = {"namespaced": True, **more}
    return SeenResource(
        key=ResourceKey(provider=scope.provider, account=scope.account, name=name, incarnation=incarnation),
        state=ProviderState.RUNNING,
        word="RUNNING",
        endpoint=f"http://{incarnation}.invalid/v1/",
        created_at=now - timedelta(seconds=5),
        started_at=now,
        usd_per_hour=Decimal("0.79"),
        **said,
    )
