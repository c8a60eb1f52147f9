"""How does a config become a daemon?

`build` opens the store, takes it over, makes the ways to the outside and has everything wired (`wiring`). Nothing is
called or run by it.
"""

from dataclasses import dataclass
from functools import partial

from controller.core.backoff import Holding
from controller.core.identity import Scope
from controller.core.policy import HostingPolicy
from controller.daemon.built import NORMAL, Closer, Daemon, Mode, Seams
from controller.daemon.launches import Fleet, fleet
from controller.daemon.taking_over import Run, recollect, take_over
from controller.daemon.wiring import Ports, Wiring, wire
from controller.providers.runpod.account import Account, open_api
from controller.providers.runpod.adapter import RunpodReading, RunpodWriting
from controller.providers.runpod.wire import Namespace
from controller.settings import Settings
from controller.store.elapsed import Ceilings
from controller.store.store import Store
from controller.transport import CallLimits
from controller.upstreams.probe import open_prober


async def build(settings: Settings, seams: Seams, *, mode: Mode = NORMAL) -> Daemon:
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
        run = Run(id=run_id, key=key, mode=mode, accepted=settings.accepted(), past=past)
        take = partial(take_over, run=run, policy=policy)
        await (store.take_over(take) if past.older is None else store.write(take))
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

    ports: Ports
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
