"""Is money whole millionths, rounded up, counted in full until it is settled, and never negative?"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.spend import (
    Hold,
    Reservation,
    affordable,
    ceiling,
    cost_micros,
    next_midnight,
    reserved_micros,
    settled,
    to_micros,
    to_usd,
    utc_day,
)
from tests.core.samples import DEPLOYMENT, MS, T0, S, model_policy

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
HELD = Reservation(
    id="qwen-1.2026-03-01",
    deployment=DEPLOYMENT,
    day="2026-03-01",
    hold=Hold.STARTED,
    ceiling_micros_per_hour=1_000_000,
    reserved_micros=12_000_000,
    opened_at=T0,
    begun_at=T0,
)


@pytest.mark.parametrize(
    ("usd", "micros"),
    [("0", 0), ("0.79", 790_000), ("0.000001", 1), ("0.0000001", 1), ("0.0000011", 2), ("40", 40_000_000)],
)
def test_dollars_become_micros_rounded_up(usd: str, micros: int) -> None:
    assert to_micros(Decimal(usd)) == micros


def test_an_amount_beyond_the_store_s_integers_is_an_error() -> None:
    assert to_micros(to_usd(2**62 - 1)) == 2**62 - 1
    for amount in (to_usd(2**62), Decimal("-0.000001"), Decimal("Infinity")):
        with pytest.raises(OverflowError):
            to_micros(amount)
    with pytest.raises(ValueError, match="NaN"):
        to_micros(Decimal("NaN"))


@pytest.mark.parametrize(
    ("rate", "span", "cost"),
    [
        (3_600_000, HOUR, 3_600_000),
        (3_600_000, MS, 1),
        (3_600_001, MS, 2),
        (1, MS, 1),
        (1, timedelta(0), 0),
        (0, HOUR, 0),
        (3_600_000, -HOUR, 0),
    ],
)
def test_a_span_costs_its_share_of_the_hour_rounded_up(rate: int, span: timedelta, cost: int) -> None:
    assert cost_micros(rate, span) == cost


def test_the_day_is_the_utc_day_wherever_the_instant_was_written() -> None:
    east = timezone(timedelta(hours=9))
    assert utc_day(datetime(2026, 3, 2, 8, tzinfo=east)) == "2026-03-01"
    assert next_midnight(datetime(2026, 3, 2, 8, tzinfo=east)) == datetime(2026, 3, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("now", "midnight"),
    [
        (datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 2, tzinfo=UTC)),
        (datetime(2026, 3, 2, tzinfo=UTC) - MS, datetime(2026, 3, 2, tzinfo=UTC)),
        (datetime(2026, 12, 31, 12, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)),
    ],
)
def test_midnight_is_always_ahead(now: datetime, midnight: datetime) -> None:
    assert next_midnight(now) == midnight


def test_a_start_holds_the_shorter_of_its_lifetime_and_the_rest_of_the_day() -> None:
    noon = T0
    assert reserved_micros(1_000_000, lifetime=7 * DAY, now=noon) == 12_000_000
    assert reserved_micros(1_000_000, lifetime=2 * HOUR, now=noon) == 2_000_000
    assert reserved_micros(1_000_000, lifetime=7 * DAY, now=noon + 12 * HOUR - S) == 278


@pytest.mark.parametrize(("reserve", "may"), [(9, True), (10, True), (11, False)])
def test_the_limit_itself_may_be_reached_and_not_passed(reserve: int, may: bool) -> None:
    assert affordable(90, reserve, limit_micros=100) is may


@pytest.mark.parametrize("hold", [Hold.RESERVED, Hold.STARTED, Hold.UNCERTAIN, Hold.STOP_REQUIRED, Hold.STOPPED])
def test_what_is_not_settled_counts_in_full(hold: Hold) -> None:
    held = replace(HELD, hold=hold)
    assert held.exposure_micros == 12_000_000
    assert held.open


def test_what_is_settled_counts_at_its_cost_and_what_was_cancelled_not_at_all() -> None:
    over = replace(HELD, hold=Hold.SETTLED, settled_micros=0)
    assert (over.exposure_micros, over.open) == (0, False)
    assert replace(over, settled_micros=7).exposure_micros == 7
    cancelled = replace(HELD, hold=Hold.CANCELLED)
    assert (cancelled.exposure_micros, cancelled.open) == (0, False)


@pytest.mark.parametrize(
    ("begun_after", "until_after", "cost"),
    [
        (timedelta(0), HOUR, 1_000_000),
        (-DAY, timedelta(0), 12_000_000),
        (timedelta(0), DAY, 12_000_000),
        (-DAY, 2 * DAY, 24_000_000),
        (HOUR, timedelta(0), 0),
    ],
    ids=["within", "from midnight on", "until midnight", "the whole day", "ended before it began"],
)
def test_settled_is_the_cost_inside_its_day(begun_after: timedelta, until_after: timedelta, cost: int) -> None:
    held = replace(HELD, begun_at=T0 + begun_after)
    over = settled(held, until=T0 + until_after, evidence_reference="listing 7")
    assert (over.hold, over.settled_micros, over.evidence_reference) == (Hold.SETTLED, cost, "listing 7")


def test_what_never_began_is_settled_at_nothing() -> None:
    assert settled(replace(HELD, begun_at=None), until=T0 + HOUR, evidence_reference="x").settled_micros == 0


PRICES = {"L40S": Decimal("0.79"), "H100": Decimal(3)}


@pytest.mark.parametrize(
    ("changes", "most"),
    [
        ({}, Decimal("0.79")),  # A40 has no price, and what is not declared does not count
        ({"usd_per_hour_max": Decimal("0.5")}, Decimal("0.5")),
        ({"offers": ("L40S", "H100"), "cards": 2, "usd_per_hour_beside": Decimal("0.1")}, Decimal("6.1")),
        ({"offers": ("A40",)}, None),
    ],
)
def test_an_hour_may_cost_what_is_configured_else_the_dearest_declared_price(
    changes: dict[str, Any], most: Decimal | None
) -> None:
    assert ceiling(model_policy(**changes), PRICES) == most


instants = st.integers(-200 * 3_600_000, 200 * 3_600_000).map(lambda ms: T0 + ms * MS)


@given(st.integers(0, 10**9), st.none() | instants, instants)
def test_no_settlement_is_negative_or_above_a_day_s_cost(rate: int, begun: datetime | None, until: datetime) -> None:
    held = replace(HELD, ceiling_micros_per_hour=rate, begun_at=begun)
    cost = settled(held, until=until, evidence_reference="x").settled_micros
    assert cost is not None
    assert 0 <= cost <= 24 * rate


@given(st.integers(0, 10**9), st.integers(0, 10**8), st.integers(0, 10**8))
def test_a_longer_span_never_costs_less(rate: int, one: int, more: int) -> None:
    assert cost_micros(rate, one * MS) <= cost_micros(rate, (one + more) * MS)


@given(st.integers(0, 2**62 - 1))
def test_micros_survive_the_way_through_dollars(micros: int) -> None:
    assert to_micros(to_usd(micros)) == micros
