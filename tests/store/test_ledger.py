"""Is the day's limit enforced where money is reserved, and carried over midnight?"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import select

from controller.core.evidence import StopReason
from controller.core.identity import DeploymentId
from controller.core.spend import Hold, Reservation
from controller.store import deployments, ledger, rows, schema
from controller.store.ledger import BudgetExhausted
from controller.store.store import Store
from tests.store.samples import POLICY, accept, declare, lose, opened, proof
from tests.support.clocks import NOON, HandClock

S = timedelta(seconds=1)
MIDNIGHT = datetime(2026, 3, 2, tzinfo=UTC)
WEEK = timedelta(days=7)


async def on_file(store: Store) -> list[Reservation]:
    """Every reservation ever made, by day: the book forgets those of former days."""
    table = schema.reservations
    found = await store.read(lambda sql: sql.execute(select(table).order_by(table.c.day)).mappings().all())
    return [rows.reservation_from_row({str(name): value for name, value in row.items()}) for row in found]


async def test_the_day_s_limit_may_be_reached_and_not_passed_by_a_millionth(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        exact = replace(POLICY, usd_per_day=Decimal(12))
        with pytest.raises(BudgetExhausted) as refused:
            await store.write(lambda tx: declare(tx, ceiling="1.000001", policy=exact))
        assert (refused.value.exposure_micros, refused.value.limit_micros) == (0, 12_000_000)
        await store.write(lambda tx: declare(tx, ceiling="1", policy=exact))
        assert set(store.book.records) == {"qwen-1"}


async def test_what_others_hold_counts_in_full(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        policy = replace(POLICY, usd_per_day=Decimal(24))
        await store.write(lambda tx: lose(tx, "a", slot=0, policy=policy))
        with pytest.raises(BudgetExhausted):
            await store.write(lambda tx: declare(tx, "b", slot=1, ceiling="1.000001", policy=policy))
        await store.write(lambda tx: declare(tx, "b", slot=1, policy=policy))
        with pytest.raises(BudgetExhausted):
            await store.write(lambda tx: declare(tx, "c", slot=2, ceiling="0.000001", policy=policy))


async def test_a_cancelled_start_gives_its_money_back(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        policy = replace(POLICY, usd_per_day=Decimal(12))
        planned = await store.write(lambda tx: declare(tx, "a", policy=policy))
        await store.write(lambda tx: deployments.cancel(tx, planned.record))
        await store.write(lambda tx: declare(tx, "b", policy=policy))


async def test_a_lost_create_that_made_nothing_costs_nothing(tmp_path: Path) -> None:
    clock = HandClock()
    async with opened(tmp_path, clock) as store:
        record = await store.write(lose)
        (duty,) = store.book.duties(record.id)
        clock.move(3600 * S)
        await store.write(lambda tx: deployments.discharge(tx, duty.id, proof("listing 9")))
        (held,) = store.book.reservations.values()
        assert (held.hold, held.settled_micros, held.evidence_reference) == (Hold.SETTLED, 0, "listing 9")


async def test_a_stop_that_is_owed_goes_on_holding_its_money(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        record = await store.write(accept)
        await store.write(lambda tx: deployments.require_stop(tx, record, StopReason.IDLE))
        (held,) = store.book.reservations.values()
        assert (held.hold, held.exposure_micros) == (Hold.STOP_REQUIRED, 12_000_000)


async def test_at_midnight_yesterday_is_settled_and_today_is_held(tmp_path: Path) -> None:
    clock = HandClock()
    async with opened(tmp_path, clock) as store:
        record = await store.write(accept)
        clock.move(MIDNIGHT - NOON)
        assert await store.write(lambda tx: ledger.roll(tx, record, remaining=WEEK, usd_per_day=Decimal(40)))
        old, new = await on_file(store)
        assert (old.hold, old.settled_micros) == (Hold.SETTLED, 12_000_000)
        assert (new.day, new.hold, new.reserved_micros, new.begun_at) == ("2026-03-02", Hold.STARTED, 24_000_000, NOON)


async def test_a_millisecond_before_midnight_nothing_is_carried(tmp_path: Path) -> None:
    clock = HandClock()
    async with opened(tmp_path, clock) as store:
        record = await store.write(accept)
        clock.move(MIDNIGHT - NOON - timedelta(milliseconds=1))
        before = store.book.reservations
        assert await store.write(lambda tx: ledger.roll(tx, record, remaining=WEEK, usd_per_day=Decimal(40)))
        assert store.book.reservations == before


async def test_a_new_day_that_cannot_be_afforded_is_told_and_nothing_is_changed(tmp_path: Path) -> None:
    clock = HandClock()
    async with opened(tmp_path, clock) as store:
        record = await store.write(accept)
        clock.move(MIDNIGHT - NOON)
        before, little = store.book.reservations, Decimal("23.999999")
        afforded = await store.write(lambda tx: ledger.roll(tx, record, remaining=WEEK, usd_per_day=little))
        assert not afforded
        assert store.book.reservations == before


@pytest.mark.parametrize(
    ("limit", "refused"), [("48", []), ("47.999999", ["qwen-2"]), ("23.999999", ["qwen-1", "qwen-2"])]
)
async def test_who_cannot_be_afforded_today_is_known_before_anything_is_written(
    tmp_path: Path, limit: str, refused: list[str]
) -> None:
    clock, names = HandClock(), (DeploymentId("qwen-1"), DeploymentId("qwen-2"))
    async with opened(tmp_path, clock) as store:
        for slot, name in enumerate(names):
            await store.write(partial(accept, name=name, incarnation=f"p{slot}", slot=slot))

        def found() -> list[str]:
            lives = [(name, WEEK) for name in names]
            return list(ledger.refused(store.book, lives, usd_per_day=Decimal(limit), now=store.now))

        clock.move(MIDNIGHT - NOON - timedelta(milliseconds=1))
        assert found() == []
        clock.move(timedelta(milliseconds=1))
        assert found() == refused
        for name in names:
            roll = partial(ledger.roll, record=store.book.records[name], remaining=WEEK, usd_per_day=Decimal(limit))
            await store.write(roll)
        assert found() == refused


async def test_a_start_that_never_began_is_carried_over_unbegun(tmp_path: Path) -> None:
    clock = HandClock()
    async with opened(tmp_path, clock) as store:
        planned = await store.write(declare)
        clock.move(MIDNIGHT - NOON)
        await store.write(lambda tx: ledger.roll(tx, planned.record, remaining=WEEK, usd_per_day=Decimal(40)))
        old, new = await on_file(store)
        assert (old.settled_micros, new.hold, new.begun_at) == (0, Hold.RESERVED, None)


async def test_what_ends_on_its_second_day_costs_that_day_from_midnight(tmp_path: Path) -> None:
    clock = HandClock()
    async with opened(tmp_path, clock) as store:
        record = await store.write(accept)
        clock.move(MIDNIGHT - NOON)
        await store.write(lambda tx: ledger.roll(tx, record, remaining=WEEK, usd_per_day=Decimal(40)))
        clock.move(3600 * S)
        (duty,) = store.book.duties(record.id)
        await store.write(lambda tx: deployments.discharge(tx, duty.id, proof("x")))
        today = store.book.reservations[f"{record.id}.2026-03-02"]
        assert today.settled_micros == 790_000


async def test_an_amount_that_the_file_cannot_hold_is_an_error_and_nothing_is_kept(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        with pytest.raises(OverflowError):
            await store.write(lambda tx: declare(tx, ceiling="5000000000000"))
        assert store.book.records == {}
