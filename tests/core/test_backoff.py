"""Does every wait grow, and stay bounded?"""

from datetime import timedelta

import pytest

from controller.core.backoff import Holding, hold_span, round_gap

S = timedelta(seconds=1)
M = timedelta(minutes=1)


@pytest.mark.parametrize(
    ("failures", "held"), [(0, None), (1, None), (2, 10 * M), (3, 20 * M), (4, 40 * M), (7, 320 * M), (8, 360 * M)]
)
def test_a_hold_begins_at_the_second_failure_and_doubles_to_its_most(failures: int, held: timedelta | None) -> None:
    assert hold_span(failures, Holding()) == held


def test_a_hold_begins_where_it_is_told_to() -> None:
    holding = Holding(after=3, first=M, most=3 * M)
    assert [hold_span(failures, holding) for failures in (2, 3, 4, 5)] == [None, M, 2 * M, 3 * M]


def test_a_million_failures_are_held_no_longer_than_the_most() -> None:
    assert hold_span(1_000_000, Holding()) == 360 * M


@pytest.mark.parametrize(
    ("rounds", "gap"), [(0, 30 * S), (1, 30 * S), (2, 60 * S), (3, 120 * S), (4, 240 * S), (5, 300 * S), (99, 300 * S)]
)
def test_the_gap_after_a_round_of_refusals_grows_to_five_minutes(rounds: int, gap: timedelta) -> None:
    assert round_gap(rounds, first=30 * S) == gap


def test_a_first_gap_above_five_minutes_is_kept() -> None:
    assert round_gap(1, first=10 * M) == 10 * M
    assert round_gap(9, first=10 * M) == 10 * M


def test_a_hold_doubles_sixteen_times_and_no_more() -> None:
    holding = Holding(after=2, first=S, most=timedelta(days=30))
    assert [hold_span(failures, holding) for failures in (17, 18, 19)] == [32_768 * S, 65_536 * S, 65_536 * S]


def test_a_round_s_gap_doubles_eight_times_and_no_more() -> None:
    assert [round_gap(rounds, first=S) for rounds in (8, 9, 10)] == [128 * S, 256 * S, 256 * S]
