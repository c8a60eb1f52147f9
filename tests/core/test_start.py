"""Is nothing started where one single condition is missing, and is the weightiest one told?"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from controller.core.book import ModelMemory
from controller.core.errors import Code
from controller.core.schedule import Off
from controller.core.start import Refuse, Situation, Start, decide, hold
from tests.core.samples import MS, T0, S

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
MEMORY = ModelMemory(model="qwen")
GOOD = Situation(
    now=T0,
    memory=MEMORY,
    fingerprint="f1",
    barred=None,
    clock_sound=True,
    matching=False,
    account_trusted=True,
    copied=False,
    owed=False,
    listing_fresh=True,
    priced=True,
    starts_per_hour=4,
    starts_per_day=12,
)
HELD = replace(MEMORY, hold_reason="crash-loop", hold_until=T0 + 600 * S, hold_fingerprint="f1")

# Each condition alone, in the order in which they are told.
REFUSED: list[tuple[dict[str, Any], Code, bool]] = [
    ({"barred": "it only stops"}, Code.REFUSED, True),
    ({"memory": HELD}, Code.MODEL_BLOCKED, True),
    ({"stance": Off(since=T0, until=T0 + HOUR)}, Code.MODEL_BLOCKED, True),
    ({"copied": True}, Code.REFUSED, False),
    ({"owed": True}, Code.MODEL_STOPPING, False),
    ({"matching": True}, Code.PROVIDER_UNAVAILABLE, False),
    ({"listing_fresh": False}, Code.PROVIDER_UNAVAILABLE, False),
    ({"account_trusted": False}, Code.PROVIDER_UNAVAILABLE, False),
    ({"clock_sound": False}, Code.REFUSED, False),
    ({"priced": False}, Code.PROVIDER_UNAVAILABLE, False),
]


def refusal(case: Situation) -> Refuse:
    decision = decide(case)
    assert isinstance(decision, Refuse)
    return decision


def test_with_nothing_in_the_way_it_starts() -> None:
    assert decide(GOOD) == Start()


@pytest.mark.parametrize(("changes", "code", "final"), REFUSED)
def test_each_condition_alone_refuses(changes: dict[str, Any], code: Code, final: bool) -> None:
    told = refusal(replace(GOOD, **changes))
    assert (told.code, told.final) == (code, final)


@pytest.mark.parametrize("position", range(len(REFUSED) - 1))
def test_of_two_the_weightier_is_told(position: int) -> None:
    (heavy, _, _), (light, _, _) = REFUSED[position], REFUSED[position + 1]
    assert refusal(replace(GOOD, **{**light, **heavy})) == refusal(replace(GOOD, **heavy))


def test_every_condition_outweighs_the_rate() -> None:
    busy = replace(MEMORY, starts=(T0,) * 12)
    told = [refusal(replace(GOOD, **{"memory": busy, **changes})).reason for changes, _, _ in REFUSED]
    assert "too many starts of late" not in told


# Holds


def test_a_hold_ends_at_its_time() -> None:
    told = hold(HELD, fingerprint="f1", now=T0 + 600 * S - MS)
    assert told == Refuse(code=Code.MODEL_BLOCKED, reason="crash-loop", final=True, retry_at=T0 + 600 * S)
    assert hold(HELD, fingerprint="f1", now=T0 + 600 * S) is None


def test_a_hold_without_a_time_stands_until_somebody_acts() -> None:
    for_ever = replace(HELD, hold_until=None)
    told = hold(for_ever, fingerprint="f1", now=T0 + timedelta(days=999))
    assert told is not None
    assert told.retry_at is None


def test_a_changed_config_ends_a_hold() -> None:
    assert hold(replace(HELD, hold_until=None), fingerprint="f2", now=T0) is None


def test_without_a_reason_nothing_is_held() -> None:
    assert hold(replace(HELD, hold_reason=None), fingerprint="f1", now=T0) is None


def test_no_funds_is_told_as_such() -> None:
    told = hold(replace(HELD, hold_reason="no_funds"), fingerprint="f1", now=T0)
    assert told is not None
    assert told.code is Code.NO_FUNDS


# Rounds and rates


def test_after_a_round_of_refusals_the_next_waits_for_its_time() -> None:
    memory = replace(MEMORY, rounds=1, next_round_at=T0 + 30 * S, round_detail="A40: no stock")
    before = decide(replace(GOOD, memory=memory, now=T0 + 30 * S - MS))
    assert before == Refuse(
        code=Code.NO_CAPACITY,
        reason="every declared offer was refused",
        final=False,
        retry_at=T0 + 30 * S,
        detail="A40: no stock",
    )
    assert decide(replace(GOOD, memory=memory, now=T0 + 30 * S)) == Start()
    untold = refusal(replace(GOOD, memory=replace(memory, round_detail=None)))
    assert untold.detail is None


def starting_after(*ages: timedelta, now: datetime = T0) -> Start | Refuse:
    return decide(replace(GOOD, memory=replace(MEMORY, starts=tuple(now - age for age in ages)), now=now))


def test_the_fourth_start_of_an_hour_is_allowed_and_the_fifth_is_not() -> None:
    assert starting_after(50 * S, 40 * S, 30 * S) == Start()
    fifth = starting_after(50 * S, 40 * S, 30 * S, 20 * S)
    assert fifth == Refuse(
        code=Code.MODEL_BLOCKED, reason="too many starts of late", final=True, retry_at=T0 - 50 * S + HOUR
    )


def test_a_start_leaves_the_hour_at_its_end() -> None:
    assert isinstance(starting_after(HOUR - MS, S, S, S), Refuse)
    assert starting_after(HOUR, S, S, S) == Start()


def test_the_twelfth_start_of_a_day_is_allowed_and_the_thirteenth_is_not() -> None:
    spread = [timedelta(hours=2 * count) for count in range(1, 12)]
    assert starting_after(*spread) == Start()
    assert starting_after(*spread, 23 * HOUR) == Refuse(
        code=Code.MODEL_BLOCKED, reason="too many starts of late", final=True, retry_at=T0 + HOUR
    )
    assert starting_after(*spread, DAY) == Start()


def test_with_more_starts_than_allowed_it_is_told_when_enough_have_left() -> None:
    told = starting_after(50 * S, 40 * S, 30 * S, 20 * S, 10 * S)
    assert isinstance(told, Refuse)
    assert told.retry_at == T0 - 40 * S + HOUR
