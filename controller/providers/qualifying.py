"""What does a provider do with one machine that we rent only to find out?

The port of the qualification run, for what no document settles. One call changes something: a restart of the container,
which costs nothing and makes nothing. Renting and stopping are the executor's, as always.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Protocol

from controller.core.identity import ResourceKey
from controller.providers.inspecting import Failed


class Echo(StrEnum):
    """How a variable that was sent as a reference to a secret is shown."""

    REFERENCE = "reference"
    VALUE = "value"
    HIDDEN = "hidden"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inside:
    """One machine, as far as the questions go. Unsaid is `None`; no value of its environment is kept."""

    echo: Echo
    started_at: datetime | None
    uptime: timedelta | None
    cards: int | None
    """Cards that its container reports."""


class Qualifying(Protocol):
    """No method raises for what the provider does; each ends within its call limit."""

    async def read_inside(self, key: ResourceKey, *, reference: str) -> Inside | Failed: ...

    async def restart(self, key: ResourceKey) -> Failed | None: ...

    async def read_billed(self, key: ResourceKey) -> Decimal | Failed:
        """USD on the bill for it, as far as it is written."""
        ...
