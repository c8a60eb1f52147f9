"""What does a deployment hold of the day's money, and what is left of it afterwards?

One reservation for each deployment and UTC day, written in the transactions that declare, start and prove the end. The
day's limit is enforced in the transaction that declares: what is held counts in full until it is settled. What exists
without our leave (an orphan, a claimed machine) is on the books too, whatever the limit says (OU-1).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal

from controller.core.book import Book
from controller.core.deployment import Record
from controller.core.identity import DeploymentId
from controller.core.obligation import Obligation
from controller.core.policy import SPAN_MOST
from controller.core.spend import (
    MICROS,
    Hold,
    Reservation,
    affordable,
    cost_micros,
    next_midnight,
    reserved_micros,
    settled,
    to_micros,
    utc_day,
)
from controller.store.lines import of_reservation
from controller.store.transaction import Tx

LEDGER = "budget"


class BudgetExhausted(Exception):
    """The day's limit would be passed; nothing was written."""

    def __init__(self, *, exposure_micros: int, reserve_micros: int, limit_micros: int) -> None:
        super().__init__("the day's limit does not allow another start")
        self.exposure_micros = exposure_micros
        self.reserve_micros = reserve_micros
        self.limit_micros = limit_micros


def exposure(book: Book, day: str) -> int:
    """What counts against the day's limit, in micro-USD."""
    return sum(held.exposure_micros for held in book.reservations.values() if held.day == day)


def reserve(
    tx: Tx, deployment: DeploymentId, *, ceiling: Decimal, remaining: timedelta, usd_per_day: Decimal
) -> Reservation:
    """Hold the rest of today for a deployment. Raises BudgetExhausted."""
    ceiling_micros, day = to_micros(ceiling), utc_day(tx.now)
    wanted = reserved_micros(ceiling_micros, lifetime=remaining, now=tx.now)
    held, limit = exposure(tx.book, day), to_micros(usd_per_day)
    if not affordable(held, wanted, limit_micros=limit):
        raise BudgetExhausted(exposure_micros=held, reserve_micros=wanted, limit_micros=limit)
    return _put(
        tx,
        Reservation(
            id=f"{deployment}.{day}",
            deployment=deployment,
            day=day,
            hold=Hold.RESERVED,
            ceiling_micros_per_hour=ceiling_micros,
            reserved_micros=wanted,
            opened_at=tx.now,
        ),
    )


def _put(tx: Tx, reservation: Reservation) -> Reservation:
    stored = tx.put_reservation(reservation)
    tx.line("ledger.reserved", **of_reservation(stored, LEDGER))
    return stored


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A machine that bills already, however it came to be."""

    name: DeploymentId
    """Its deployment's, or the name of its duty where there is none."""
    usd_per_hour: Decimal | None
    """`None`: the provider does not say; then nothing is held for it, and what it cost is known from the bill alone."""
    since: datetime
    remaining: timedelta = SPAN_MOST
    hold: Hold = Hold.STARTED


def take_in(tx: Tx, found: Found) -> None:
    """Hold the rest of today for what is there already: no limit can undo it, and it counts against every other
    start."""
    day = utc_day(tx.now)
    if any(held.deployment == found.name and held.day == day for held in tx.book.reservations.values()):
        return
    rate = to_micros(found.usd_per_hour or Decimal(0))
    _put(
        tx,
        Reservation(
            id=f"{found.name}.{day}",
            deployment=found.name,
            day=day,
            hold=found.hold,
            ceiling_micros_per_hour=rate,
            reserved_micros=reserved_micros(rate, lifetime=found.remaining, now=tx.now),
            opened_at=tx.now,
            begun_at=min(found.since, tx.now),
        ),
    )


def _open(book: Book, deployment: DeploymentId) -> list[Reservation]:
    return [held for held in book.reservations.values() if held.deployment == deployment and held.open]


def begin(tx: Tx, deployment: DeploymentId, *, submitted_at: datetime, certain: bool) -> None:
    """The create left: money runs from its submission, known or not."""
    for held in _open(tx.book, deployment):
        hold = Hold.STARTED if certain else Hold.UNCERTAIN
        stored = tx.put_reservation(replace(held, hold=hold, begun_at=held.begun_at or submitted_at))
        tx.line("ledger.begun", **of_reservation(stored, LEDGER))


def require_stop(tx: Tx, deployment: DeploymentId) -> None:
    for held in _open(tx.book, deployment):
        if held.hold is not Hold.STOP_REQUIRED:
            tx.put_reservation(replace(held, hold=Hold.STOP_REQUIRED))


def cancel(tx: Tx, deployment: DeploymentId) -> None:
    """Nothing came of it: nothing is held."""
    for held in _open(tx.book, deployment):
        tx.put_reservation(replace(held, hold=Hold.CANCELLED))


def settle(tx: Tx, record: Record, *, evidence_reference: str) -> None:
    """Its end is proven: settle at believed cost, under the same evidence (HC-43)."""
    for held in _open(tx.book, record.id):
        rate = held.ceiling_micros_per_hour if record.usd_per_hour is None else to_micros(record.usd_per_hour)
        priced = replace(held, ceiling_micros_per_hour=rate)
        until = tx.now if record.key is not None else held.begun_at or tx.now
        _settle(tx, priced, until=until, evidence_reference=evidence_reference)


def settle_stray(tx: Tx, duty: Obligation, *, evidence_reference: str) -> None:
    """The same for what no deployment held."""
    for held in _open(tx.book, DeploymentId(duty.id)):
        _settle(tx, held, until=tx.now, evidence_reference=evidence_reference)


def _settle(tx: Tx, held: Reservation, *, until: datetime, evidence_reference: str) -> None:
    stored = tx.put_reservation(settled(held, until=until, evidence_reference=evidence_reference))
    tx.line("ledger.settled", **of_reservation(stored, LEDGER))


def left_over(book: Book, deployment: DeploymentId, *, now: datetime) -> list[Reservation]:
    """What it still holds of days before."""
    return [held for held in _open(book, deployment) if held.day < utc_day(now)]


def refused(
    book: Book, lives: Iterable[tuple[DeploymentId, timedelta]], *, usd_per_day: Decimal, now: datetime
) -> list[DeploymentId]:
    """Which of these, each with how long it may live on, today cannot afford once those before it hold their money."""
    held, found = exposure(book, utc_day(now)), []
    for name, remaining in lives:
        if old := left_over(book, name, now=now):
            wanted = reserved_micros(_ceiling_micros(old), lifetime=remaining, now=now)
            if affordable(held, wanted, limit_micros=to_micros(usd_per_day)):
                held += wanted
            else:
                found.append(name)
    return found


def _ceiling_micros(old: Sequence[Reservation]) -> int:
    return max(held.ceiling_micros_per_hour for held in old)


def roll(tx: Tx, record: Record, *, remaining: timedelta, usd_per_day: Decimal) -> bool:
    """At midnight: settle yesterday for a deployment that lives on, and hold today. False if today cannot be
    afforded."""
    today, old = utc_day(tx.now), left_over(tx.book, record.id, now=tx.now)
    if not old:
        return True
    ceiling = Decimal(_ceiling_micros(old)) / MICROS
    try:
        fresh = reserve(tx, record.id, ceiling=ceiling, remaining=remaining, usd_per_day=usd_per_day)
    except BudgetExhausted:
        return False
    begun = max((held.begun_at for held in old if held.begun_at is not None), default=None)
    tx.put_reservation(replace(fresh, hold=old[-1].hold, begun_at=begun))
    _carry(tx, old, today)
    return True


def roll_stray(tx: Tx, duty: Obligation) -> None:
    """At midnight, for what no deployment holds and is not proven gone: its stop is owed already, so that nothing is
    left to be refused."""
    name, today = DeploymentId(duty.id), utc_day(tx.now)
    old = left_over(tx.book, name, now=tx.now)
    if not old:
        return
    rate = Decimal(_ceiling_micros(old)) / MICROS
    begun = max((held.begun_at for held in old if held.begun_at is not None), default=tx.now)
    take_in(tx, Found(name=name, usd_per_hour=rate, since=begun, hold=Hold.STOP_REQUIRED))
    _carry(tx, old, today)


def _carry(tx: Tx, old: Sequence[Reservation], today: str) -> None:
    for held in old:
        _settle(tx, held, until=next_midnight(held.opened_at), evidence_reference=f"carried to {today}")


def believed_micros(record: Record, *, now: datetime) -> int | None:
    """What this deployment has cost so far as far as we know; `None` without a rate."""
    if record.usd_per_hour is None or record.started_at is None:
        return None
    return cost_micros(to_micros(record.usd_per_hour), (record.ended_at or now) - record.started_at)
