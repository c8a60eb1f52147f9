"""Would taking this config stop everything that runs?

A file that was emptied, cut short or generated wrong reads like the wish to be rid of every model. So a load that
leaves out each model that has a machine is not taken at a start: the config before it stays in force, until an operator
confirms exactly this one (RP-40). A load that keeps one model that runs is an edit, and taken; and a machine whose stop
is required already counts for nothing, because no config keeps it.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Final

from controller.core.deployment import Record
from controller.core.lifecycle import LIVE, Phase

CONFIG_REFUSED: Final = "config-refused"
"""The alarm that stands while a config that was not taken lies there."""
RUNNING: Final = LIVE - {Phase.STOP_REQUIRED}
"""Phases in which a machine bills, or may, and nobody asked for its end yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One that a model has, or may have come to have."""

    model: str
    usd_per_hour: Decimal | None
    """`None`: nobody knows yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """What a config would end: every model that has a machine."""

    models: tuple[str, ...]
    machines: int
    usd_per_hour: Decimal
    """What those cost whose price is known."""
    unpriced: int

    @property
    def text(self) -> str:
        """Whom it would stop, in words."""
        machines = "machine" if self.machines == 1 else "machines"
        known = f", ${self.usd_per_hour.normalize():f} an hour"
        if self.unpriced == self.machines:
            known = " at an unknown price"
        elif self.unpriced:
            known += f" and {self.unpriced} of unknown price"
        return f"{', '.join(self.models)}: {self.machines} {machines}{known}"


def running(records: Iterable[Record]) -> list[Machine]:
    """What runs of what is on record."""
    return [
        Machine(model=record.model, usd_per_hour=record.usd_per_hour) for record in records if record.phase in RUNNING
    ]


def removal(machines: Collection[Machine], configured: Collection[str]) -> Removal | None:
    """What would be stopped if only the `configured` models were left; `None` unless that is all that runs."""
    models = {machine.model for machine in machines}
    if not models or not models.isdisjoint(configured):
        return None
    known = [machine.usd_per_hour for machine in machines if machine.usd_per_hour is not None]
    return Removal(
        models=tuple(sorted(models)),
        machines=len(machines),
        usd_per_hour=sum(known, Decimal(0)),
        unpriced=len(machines) - len(known),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmed:
    """An operator's word that one config may stop everything that runs. Spent when any config is taken."""

    digest: str
    at: datetime
