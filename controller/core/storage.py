"""What do the volumes that models name bill, whether or not anything runs?

Nothing of ours makes a volume or ends one, and neither a day's money nor any machine's estimate counts it: so it is
told beside them (PF-12). The config names a volume and nothing more; its size and kind are the provider's to say. What
it did not say is unknown, and so is a sum in which it stands; never zero.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Final

HOURS_A_MONTH: Final = 720
USD_PER_GB_MONTH: Final = Decimal("0.07")
BEYOND_USD_PER_GB_MONTH: Final = Decimal("0.05")
BEYOND_GB: Final = 1000
"""A volume of the standard kind is cheaper from there on."""
FAST_USD_PER_GB_MONTH: Final = Decimal("0.14")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """One volume. What is not known of it is `None`."""

    id: str
    place: str
    models: tuple[str, ...]
    """That name it; it bills once."""
    found: bool | None = None
    """Does the account have it?"""
    size_gb: int | None = None
    usd_per_month: Decimal | None = None

    @property
    def usd_per_hour(self) -> Decimal | None:
        return None if self.usd_per_month is None else self.usd_per_month / HOURS_A_MONTH


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """All that the configured models name, as it was last looked at."""

    volumes: tuple[Stored, ...]
    asked_at: datetime | None = None
    problem: str | None = None
    """Why the latest look told nothing; what is here is of an earlier one."""

    @property
    def usd_per_month(self) -> Decimal | None:
        return total(self.volumes)

    @property
    def usd_per_hour(self) -> Decimal | None:
        month = self.usd_per_month
        return None if month is None else month / HOURS_A_MONTH

    def of(self, model: str) -> tuple[Stored, ...]:
        return tuple(volume for volume in self.volumes if model in volume.models)


def total(volumes: Iterable[Stored]) -> Decimal | None:
    """USD a month; unknown where it is unknown of one of them."""
    amounts = [volume.usd_per_month for volume in volumes]
    known = [amount for amount in amounts if amount is not None]
    return sum(known, Decimal(0)) if len(known) == len(amounts) else None


def standard_usd_per_month(size_gb: int) -> Decimal:
    """What a volume of the standard kind and this size bills."""
    beyond = max(size_gb - BEYOND_GB, 0)
    return (size_gb - beyond) * USD_PER_GB_MONTH + beyond * BEYOND_USD_PER_GB_MONTH


def fast_usd_per_month(size_gb: int) -> Decimal:
    """Of the fast kind, whatever its size."""
    return size_gb * FAST_USD_PER_GB_MONTH


def in_words(volumes: tuple[Stored, ...]) -> str:
    """For people, of at least one volume."""
    told = "its volume bills" if len(volumes) == 1 else f"its {len(volumes)} volumes bill"
    month = total(volumes)
    missing = sorted(volume.id for volume in volumes if volume.found is False)
    if missing:
        return f"the account has no volume {', '.join(missing)}"
    if month is None:
        return f"{told} day and night, and how much is not known: the provider did not say its size and kind"
    return f"{told} about ${month:.2f} a month (${month / HOURS_A_MONTH:.4f} an hour) day and night, beside usd_per_day"
