"""What happens in one run, and when?

All of it follows from the seed. Every actor and every kind of trouble draws from a generator of its own, so that
leaving one out does not move the others: a run that fails is narrowed down with `only` and `without`.
"""

import random
from collections.abc import Collection
from functools import partial
from typing import Final

from tests.simulation import (
    card_faults,
    clients,
    config_faults,
    machine_faults,
    operators,
    pod_faults,
    provider_faults,
    queue_faults,
    quota_faults,
)
from tests.simulation.clients import Clients, Rhythm
from tests.simulation.machine_faults import OTHER_ACCOUNT, OTHER_KEY
from tests.simulation.stage import Act, Kind, Stage
from tests.simulation.town import Town

STANDARD: Final = "standard"
BUSIEST: Final = "busiest"
CALM: Final = "calm"
"""A third of the troubles of the standard mix, and fewer who ask: for runs of weeks."""
CALMER: Final = 1 / 3
KINDS: Final[dict[str, Kind]] = {
    **provider_faults.KINDS,
    **queue_faults.KINDS,
    **quota_faults.KINDS,
    **pod_faults.KINDS,
    **card_faults.KINDS,
    **machine_faults.KINDS,
    **config_faults.KINDS,
    **operators.KINDS,
}
FURTHER: Final[dict[str, str]] = {
    "store-copied": "a backup was taken, which may be put back later (store-restored)",
    "account-claimed": "somebody who looked said that the account is the right one (alarm account-changed)",
    "installation-claimed": "somebody claimed what a machine left that does not run (alarm copied-installation)",
    "emptying-confirmed": "an operator confirmed a config that stops all that runs (models-emptied)",
    "slowed": "somebody wants a long answer, and whoever comes in that moment gets a word a minute",
    "hold-ended": "somebody who looked in unblocked a model",
    "stop-confirmed": "somebody who looked vouched for the end of a pod",
}
"""Kinds that follow from others, or from what the daemon asks for."""
RHYTHMS: Final[dict[str, Rhythm]] = {STANDARD: clients.STANDARD, CALM: clients.CALM, BUSIEST: clients.BUSIEST}
BALANCE_USD: Final = 1_000_000.0
WITH_REPLICAS: Final = 0.3
"""In so many of the runs one model has two slots."""
WITH_VOLUMES: Final = 0.3
"""In so many of the runs the weights of one model lie on volumes in two places."""
WITH_GIVING_UP: Final = 0.5
"""Models whose starts are given up when all who waited have left."""
WITH_CARDS: Final = 0.4
"""In so many of the runs the machines of one model have two cards."""
VOLUMES: Final = {"US-TX-3": "vol1", "US-KS-2": "vol2"}


class Plan:
    """One run's actors. `stage` tells what is going on, `clients.outcomes` what became of the requests."""

    def __init__(self, stage: Stage, crowd: Clients, watch: operators.Watch) -> None:
        self.stage, self.clients, self.watch = stage, crowd, watch

    def make_honest(self) -> None:
        """End every trouble that is open: clients leave, the provider is as it should be, all machines run."""
        self.stage.be_honest()
        self.watch.be_near()


def settle_in(town: Town) -> None:
    """The one machine that every run has, with its daemon and its gateway."""
    machine = town.machine()
    if random.Random(f"slots {town.seed}").random() < WITH_REPLICAS:
        town.slots[town.models[-1]] = 2
    if random.Random(f"cards {town.seed}").random() < WITH_CARDS:
        town.further[town.models[-1]] = "gpu_count = 2"
    if random.Random(f"volumes {town.seed}").random() < WITH_VOLUMES:
        _put_volumes(town)
    if random.Random(f"abandon {town.seed}").random() < WITH_GIVING_UP:
        for alias in town.models:
            town.further[alias] = f'abandon_after = "2m"\n{town.further.get(alias, "")}'
    town.configure(machine, *town.models)
    machine.start_daemon()
    machine.start_gateway(list(town.models))


def _put_volumes(town: Town) -> None:
    for place, name in VOLUMES.items():
        town.provider.put_volume({"id": name, "name": name, "size": 100, "dataCenter": place})
    entries = ", ".join(f'"{place}" = "{name}"' for place, name in VOLUMES.items())
    town.further[town.models[0]] = f"volumes = {{ {entries} }}"


def plan(
    town: Town,
    seed: int,
    hours: float,
    mix: str = STANDARD,
    *,
    only: Collection[str] | None = None,
    without: Collection[str] = (),
) -> Plan:
    """Draw everything that is going to happen within so many hours. The town has settled in."""
    town.provider.change_settings({"balance": BALANCE_USD, "accounts": {OTHER_KEY: OTHER_ACCOUNT}})
    stage = Stage(town, until=hours * 3600)
    for kind, what in KINDS.items():
        if (only is None or kind in only) and kind not in without:
            _schedule(stage, what, mix, random.Random(f"{kind} {seed}"))
    return Plan(stage, Clients(stage, seed, RHYTHMS[mix]), operators.Watch(stage, seed))


def _schedule(stage: Stage, what: Kind, mix: str, draw: random.Random) -> None:
    per_day = {BUSIEST: what.busiest, CALM: what.standard * CALMER}.get(mix, what.standard)
    at = draw.expovariate(per_day / 86400)
    while at < stage.until:
        stage.kernel.at(at, partial(_begin, stage, what.act, random.Random(draw.random())))
        at += draw.expovariate(per_day / 86400)


def _begin(stage: Stage, act: Act, draw: random.Random) -> None:
    stage.attempt(act, draw)
