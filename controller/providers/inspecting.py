"""What can be known of an account before money depends on it?

The port for the one command that examines an account. Everything here reads: it allocates nothing and changes nothing.
What goes wrong is a value, so that one question that fails hides no other; and no text holds a word of the provider's,
who may echo what others must not read.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Protocol

from controller.core.identity import ResourceKey


class Trouble(StrEnum):
    """What a failed question says of the account."""

    CREDENTIAL = "credential"
    """The key is not accepted."""
    PERMISSION = "permission"
    """The key is accepted, and not for this."""
    SILENT = "silent"
    """No whole answer came."""
    HELD_BACK = "held-back"
    """The provider asks us to wait."""
    ODD = "odd"
    """An answer that makes no sense, or a fault over there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A question that brought no answer."""

    trouble: Trouble
    text: str


class Stock(StrEnum):
    """How much there is now, as the provider puts it; a hint, and no promise."""

    NONE = "none"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One type of machine, as one model would rent it. Unsaid is `None`."""

    stock: Stock | None
    usd_per_hour: Decimal | None
    """For the whole machine."""


Offers = Mapping[str, Offer]
"""By type; what the catalog does not have is absent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Funds:
    balance_usd: Decimal
    usd_per_hour: Decimal
    """What everything on the account costs now."""
    usd_per_hour_max: Decimal | None = None
    """The account's own limit."""


class Inspecting(Protocol):
    """No method raises for what the provider does; each ends within its call limit."""

    async def greet(self) -> Failed | None:
        """Is the key accepted, and may it see what is rented?"""
        ...

    async def open_billing(self) -> Failed | None:
        """May the key read what was billed?"""
        ...

    async def open_log(self, key: ResourceKey | None) -> Failed | None:
        """May the key read logs? Without a resource one is asked for that does not exist."""
        ...

    async def read_secret_names(self) -> frozenset[str] | Failed: ...

    async def read_registries(self) -> frozenset[str] | Failed:
        """The ids of the credentials for private images."""
        ...

    async def read_types(self) -> frozenset[str] | Failed:
        """Every type of machine in the catalog."""
        ...

    async def read_offers(self, alias: str) -> Offers | Failed:
        """What this model would find now."""
        ...

    async def read_funds(self) -> Funds | Failed: ...
