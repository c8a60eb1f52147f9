"""May this start be afforded today, and what does it hold?

Money is integers of a millionth of a dollar, rounded up, never a float. A reservation is the hourly ceiling times the
shorter of the lifetime and the rest of the UTC day; what is reserved counts in full until it is settled (HC-44).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import ROUND_CEILING, Decimal
from enum import StrEnum
from typing import Final

from controller.core.identity import DeploymentId
from controller.core.policy import ModelPolicy

MICROS: Final = 1_000_000
MICROS_MAX: Final = 2**62


class Hold(StrEnum):
    """Where a reservation stands (HC-42)."""

    RESERVED = "reserved"
    STARTED = "started"
    UNCERTAIN = "uncertain"
    STOP_REQUIRED = "stop-required"
    STOPPED = "stopped"
    SETTLED = "settled"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """Money held for one deployment on one UTC day. Amounts in micro-USD."""

    id: str
    deployment: DeploymentId
    day: str
    hold: Hold
    ceiling_micros_per_hour: int
    reserved_micros: int
    opened_at: datetime
    begun_at: datetime | None = None
    settled_micros: int | None = None
    """Believed cost; what was billed is known later."""
    evidence_reference: str | None = None
    version: int = 0

    @property
    def open(self) -> bool:
        return self.hold not in {Hold.SETTLED, Hold.CANCELLED}

    @property
    def exposure_micros(self) -> int:
        """What it counts for against the day's limit."""
        if self.hold is Hold.CANCELLED:
            return 0
        return self.settled_micros if self.settled_micros is not None else self.reserved_micros


def to_micros(usd: Decimal) -> int:
    """Whole micro-USD, rounded up. Raises OverflowError beyond what the store can hold."""
    micros = int((usd * MICROS).to_integral_value(rounding=ROUND_CEILING))
    if not 0 <= micros < MICROS_MAX:
        raise OverflowError("amount of money out of range")
    return micros


def to_usd(micros: int) -> Decimal:
    return Decimal(micros) / MICROS


def cost_micros(per_hour_micros: int, span: timedelta) -> int:
    """Cost of a span at an hourly rate, rounded up. A negative span costs nothing."""
    millis = max(span // timedelta(milliseconds=1), 0)
    return -(-per_hour_micros * millis // 3_600_000)


def utc_day(now: datetime) -> str:
    return now.astimezone(UTC).date().isoformat()


def next_midnight(now: datetime) -> datetime:
    at = now.astimezone(UTC)
    return datetime(at.year, at.month, at.day, tzinfo=UTC) + timedelta(days=1)


def reserved_micros(ceiling_micros_per_hour: int, *, lifetime: timedelta, now: datetime) -> int:
    """What a start at `now` must hold for the rest of its UTC day."""
    return cost_micros(ceiling_micros_per_hour, min(lifetime, next_midnight(now) - now))


def affordable(exposure_micros: int, reserve_micros: int, *, limit_micros: int) -> bool:
    """Would the day's exposure stay at or under its limit?"""
    return exposure_micros + reserve_micros <= limit_micros


def settled(reservation: Reservation, *, until: datetime, evidence_reference: str) -> Reservation:
    """Settle at believed cost: from the create's submission to the proof, never above what a day can cost."""
    begun = reservation.begun_at or until
    day_begins = datetime.fromisoformat(reservation.day).replace(tzinfo=UTC)
    span = min(until, day_begins + timedelta(days=1)) - max(begun, day_begins)
    return replace(
        reservation,
        hold=Hold.SETTLED,
        settled_micros=cost_micros(reservation.ceiling_micros_per_hour, span),
        evidence_reference=evidence_reference,
    )


def ceiling(model: ModelPolicy, usd_per_hour: Mapping[str, Decimal]) -> Decimal | None:
    """What an hour may cost at most: as configured, else the dearest declared offer's price. `None`: nobody knows."""
    if model.usd_per_hour_max is not None:
        return model.usd_per_hour_max
    known = [usd_per_hour[offer] for offer in model.offers if offer in usd_per_hour]
    return max(known) * model.cards + model.usd_per_hour_beside if known else None
