"""How is a provider's account looked at?

Everything here allocates nothing and changes nothing (HC-39). Failures come back as values, never as an empty account:
a listing that failed is an incomplete `Listing` with its problem.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Protocol

from controller.core.billing import Bill
from controller.core.identity import ResourceKey
from controller.core.inventory import Listing, Read, Unreadable
from controller.core.machine_log import Log
from controller.core.storage import Storage
from controller.core.unlisted import Unlisted


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """USD an hour for one card, by its type and by each offer that models declare; `problem` says why there are
    none."""

    usd_per_hour: Mapping[str, Decimal]
    observed_at: datetime
    problem: str | None = None
    unlisted: Mapping[str, tuple[Unlisted, ...]] | None = None
    """By model, the types that it names and the catalog does not have; `None`: the catalog does not tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stock:
    """Of which of a model's offers none is left, as the provider says; `problem` says why that is not known."""

    none_left: frozenset[str]
    observed_at: datetime
    problem: str | None = None


class Reading(Protocol):
    """The one eye's way to a provider. No method raises for what the provider does; each ends within its call limit."""

    async def list_resources(self) -> Listing: ...

    async def read_resource(self, key: ResourceKey) -> Read: ...

    async def read_prices(self) -> Prices: ...

    async def read_log(self, key: ResourceKey) -> Log | Unreadable:
        """The newest lines of what a machine wrote, for a bounded time and size."""
        ...

    async def read_bill(self, since: datetime) -> Bill:
        """What each resource was billed by the hour from then on."""
        ...

    async def read_storage(self) -> Storage:
        """The volumes that models name, and what they bill."""
        ...

    async def read_stock(self, model: str) -> Stock:
        """A hint, for as many cards as this model's machine has."""
        ...
