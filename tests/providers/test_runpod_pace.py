"""When a call may leave: after the provider asked us to wait, and before it comes to that."""

from collections.abc import Mapping
from datetime import timedelta

import pytest

from controller.providers.errors import HeldBack
from controller.providers.runpod.pace import Kind, Pace, wait_asked
from tests.support.draw import Draw
from tests.support.loop_clock import BEGIN, HandClock

S = timedelta(seconds=1)
POLICY = '"minute";q=60;w=60, "hour";q=3000;w=3600, "day";q=50000;w=86400'


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"retry-after": "12"}, 12 * S),
        ({"retry-after": " 12 "}, 12 * S),
        ({"retry-after": "0"}, 1 * S),
        ({"retry-after": "Sun, 29 Nov 2026 12:01:00 GMT"}, 60 * S),
        ({"retry-after": "Sun, 29 Nov 2026 12:01:00 GMT", "date": "Sun, 29 Nov 2026 12:00:50 GMT"}, 10 * S),
        ({"retry-after": "Sun, 29 Nov 2020 12:01:00 GMT"}, 1 * S),
        ({"retry-after": "9" * 500}, timedelta(days=1)),
        ({"retry-after": "Sun, 29 Nov 9999 12:01:00 GMT"}, timedelta(days=1)),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "²"}, None),
        ({}, None),
        ({"ratelimit": '"minute";r=0;t=12, "hour";r=2800;t=1812'}, 12 * S),
        ({"ratelimit": '"minute";r=0;t=12, "hour";r=0;t=1812'}, 1812 * S),
        ({"ratelimit": '"minute";r=5;t=12'}, None),
    ],
)
def test_how_long_we_are_asked_to_wait(headers: dict[str, str], wait: timedelta | None) -> None:
    assert wait_asked(headers, now=BEGIN) == wait


@pytest.mark.parametrize(
    ("until", "date", "wait_s"),
    [
        ("29 Nov 2026 12:05:00", "29 Nov 2026 11:59:00", 360),  # a minute apart: by the clock that wrote it
        ("29 Nov 2026 12:05:00", "29 Nov 2026 11:58:59", 300),
        ("29 Nov 2026 12:05:00", "29 Nov 2026 12:02:00", 180),
        ("29 Nov 2026 12:02:00", "01 Jan 2020 00:00:00", 120),
        ("30 Nov 2026 12:02:00", "30 Nov 2026 12:00:00", 120),
        ("29 Nov 2026 12:00:05", "01 Jan 2020 00:00:00", 15),
        ("28 Nov 2026 12:02:00", "28 Nov 2026 12:00:00", 15),
    ],
)
def test_a_date_beside_a_clock_that_is_not_ours_asks_for_the_nearer_end(until: str, date: str, wait_s: int) -> None:
    headers = {"retry-after": f"Sun, {until} GMT", "date": f"Sun, {date} GMT"}
    assert wait_asked(headers, now=BEGIN) == wait_s * S


def held(pace: Pace, kind: Kind) -> timedelta | None:
    try:
        pace.enter(kind)
    except HeldBack as error:
        return error.retry_after
    return None


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def pace(clock: HandClock) -> Pace:
    return Pace(clock, Draw(0))


@pytest.mark.parametrize("kind", list(Kind))
def test_nothing_waits_unasked(pace: Pace, kind: Kind) -> None:
    assert held(pace, kind) is None


@pytest.mark.parametrize("kind", list(Kind))
def test_every_kind_of_call_waits_to_the_last_moment(pace: Pace, clock: HandClock, kind: Kind) -> None:
    pace.slow_down(10 * S)
    clock.advance(9.5 * S)
    assert held(pace, kind) == 0.5 * S
    clock.advance(0.5 * S)
    assert held(pace, kind) is None


def test_a_stop_waits_300_seconds_at_most_and_the_rest_waits_on(pace: Pace, clock: HandClock) -> None:
    pace.slow_down(3600 * S)
    clock.advance(299 * S)
    assert held(pace, Kind.STOP) == 1 * S
    clock.advance(1 * S)
    assert held(pace, Kind.STOP) is None
    assert held(pace, Kind.CREATE) == 3300 * S
    assert held(pace, Kind.READ) == 3300 * S


def test_a_stop_that_is_told_to_wait_again_waits_300_seconds_again(pace: Pace, clock: HandClock) -> None:
    pace.slow_down(3600 * S)
    clock.advance(300 * S)
    pace.slow_down(3600 * S)
    assert held(pace, Kind.STOP) == 300 * S


def test_a_stop_that_was_turned_away_goes_before_all_else(pace: Pace, clock: HandClock) -> None:
    pace.slow_down(10 * S)
    held(pace, Kind.STOP)
    clock.advance(10 * S)
    assert held(pace, Kind.READ) == 5 * S
    assert held(pace, Kind.STOP) is None
    assert held(pace, Kind.READ) is None


def test_a_stop_that_the_provider_itself_turned_away_goes_before_all_else(pace: Pace, clock: HandClock) -> None:
    """It does not come back before the time is over, so that nothing else marks it as waiting."""
    assert held(pace, Kind.STOP) is None
    pace.slow_down(10 * S, kind=Kind.STOP)
    clock.advance(10 * S)
    assert held(pace, Kind.READ) == 5 * S
    assert held(pace, Kind.STOP) is None
    assert held(pace, Kind.READ) is None


def test_a_read_that_is_turned_away_too_takes_no_stop_its_place(pace: Pace, clock: HandClock) -> None:
    """Neither by us nor by the provider."""
    pace.slow_down(10 * S, kind=Kind.STOP)
    held(pace, Kind.READ)
    pace.slow_down(10 * S, kind=Kind.READ)
    clock.advance(10 * S)
    assert held(pace, Kind.READ) == 5 * S


def test_a_stop_that_never_comes_back_holds_nobody_for_long(pace: Pace, clock: HandClock) -> None:
    pace.slow_down(10 * S)
    held(pace, Kind.STOP)
    clock.advance(15 * S)
    assert held(pace, Kind.READ) is None


def test_a_shorter_wait_does_not_shorten_a_longer_one(pace: Pace, clock: HandClock) -> None:
    pace.slow_down(100 * S)
    pace.slow_down(1 * S)
    assert held(pace, Kind.READ) == 100 * S


@pytest.mark.parametrize(("wait_s", "drawn"), [(10, 1), (11, 1.65)])
def test_a_wait_that_ends_when_the_former_does_is_drawn_no_second_time(
    clock: HandClock, wait_s: float, drawn: float
) -> None:
    """Else each answer of one burst would put off what comes back."""
    draw = Draw(1)
    pace = Pace(clock, draw)
    pace.slow_down(10 * S)
    draw.part = 1.5
    pace.slow_down(wait_s * S)
    assert held(pace, Kind.READ) == (wait_s + drawn) * S


def test_who_is_told_no_time_waits_twice_as_long_each_time_and_never_for_ever(pace: Pace, clock: HandClock) -> None:
    waits = []
    for _ in range(7):
        pace.slow_down(None)
        waits.append(held(pace, Kind.READ))
        clock.advance(300 * S)
    assert waits == [15 * S, 30 * S, 60 * S, 120 * S, 240 * S, 300 * S, 300 * S]
    pace.go_on()
    pace.slow_down(None)
    assert held(pace, Kind.READ) == 15 * S


@pytest.mark.parametrize(
    ("wait", "later"), [(10 * S, 0.5 * S), (40 * S, 2 * S), (3600 * S, 2.5 * S)], ids=["10 s", "40 s", "an hour"]
)
def test_what_is_no_stop_comes_back_later_by_a_draw_of_a_tenth_and_of_5_s_at_most(
    clock: HandClock, wait: timedelta, later: timedelta
) -> None:
    pace = Pace(clock, Draw(0.5))
    pace.slow_down(wait)
    assert [held(pace, kind) for kind in (Kind.READ, Kind.CREATE)] == [wait + later] * 2
    assert held(pace, Kind.STOP) == min(wait, 300 * S)


def left(minute: int, *, rest: int = 12, hour: int = 2800, day: int = 49_500) -> Mapping[str, str]:
    windows = f'"minute";r={minute};t={rest}, "hour";r={hour};t=1812, "day";r={day};t=45012'
    return {"ratelimit": windows, "ratelimit-policy": POLICY}


@pytest.mark.parametrize("kind", [Kind.READ, Kind.CREATE])
def test_the_last_calls_of_a_window_are_kept_for_stops(pace: Pace, clock: HandClock, kind: Kind) -> None:
    pace.hear(left(11))
    assert held(pace, kind) is None
    assert held(pace, kind) == 12 * S
    assert [held(pace, Kind.STOP) for _ in range(15)] == [None] * 15, "a forecast holds no stop"
    clock.advance(11.5 * S)
    assert held(pace, kind) == 0.5 * S
    clock.advance(0.5 * S)
    assert held(pace, kind) is None


@pytest.mark.parametrize(
    ("said", "wait"),
    [
        (left(60, hour=16), None),
        (left(60, hour=15), 1812 * S),
        (left(60, day=251), None),
        (left(60, day=250), 45012 * S),
        (left(5, hour=15), 1812 * S),
    ],
    ids=["hour", "hour used up", "day", "day used up", "both"],
)
def test_of_a_longer_window_more_is_kept(pace: Pace, said: Mapping[str, str], wait: timedelta | None) -> None:
    pace.hear(said)
    assert held(pace, Kind.READ) == wait


@pytest.mark.parametrize(("quota", "kept"), [(6, 2), (2, 0), (30, 10)])
def test_of_a_small_window_a_third_is_kept(pace: Pace, quota: int, kept: int) -> None:
    pace.hear({"ratelimit": f'"minute";r={kept + 1};t=9', "ratelimit-policy": f'"minute";q={quota};w=60'})
    assert [held(pace, Kind.READ) for _ in range(2)] == [None, 9 * S]


def test_stops_use_up_what_is_left_for_the_rest_too(pace: Pace) -> None:
    pace.hear(left(12))
    assert [held(pace, Kind.STOP) for _ in range(2)] == [None] * 2
    assert held(pace, Kind.READ) == 12 * S


def test_an_older_answer_brings_no_call_back(pace: Pace, clock: HandClock) -> None:
    """Three calls leave at once; the answer that was written first says the most."""
    pace.hear(left(13))
    assert [held(pace, Kind.READ) for _ in range(3)] == [None] * 3
    clock.advance(1 * S)
    pace.hear(left(12, rest=11))
    assert held(pace, Kind.READ) == 11 * S


def test_what_the_next_window_has_left_is_believed_at_once(clock: HandClock) -> None:
    pace = Pace(clock, Draw(1))
    pace.hear(left(5))
    assert held(pace, Kind.READ) == 12 * S + 1.2 * S
    clock.advance(12.1 * S)
    assert held(pace, Kind.READ) is not None
    assert held(pace, Kind.STOP) is None
    pace.hear(left(59, rest=59))
    assert held(pace, Kind.READ) is None


@pytest.mark.parametrize(("at_s", "wait"), [(11.9, 0.1 * S), (12, 1 * S)])
def test_a_window_is_over_at_its_end_and_the_next_one_counts_for_itself(
    pace: Pace, clock: HandClock, at_s: float, wait: timedelta
) -> None:
    pace.hear(left(5))
    clock.advance(at_s * S)
    held(pace, Kind.READ)
    pace.hear(left(5, rest=1))
    assert held(pace, Kind.READ) == wait


@pytest.mark.parametrize(
    "said",
    ["", "garbage", '"minute";r=-1;t=12', '"minute";r=0', '"minute";r=0;t=soon', '"minute";t=12;r=0', "r=0;t=12"],
)
def test_what_cannot_be_read_of_the_windows_holds_nobody(pace: Pace, said: str) -> None:
    pace.hear({"ratelimit": said})
    assert held(pace, Kind.READ) is None


@pytest.mark.parametrize(
    ("policy", "wait"),
    [('"minute";q=60;w=60', 60 * S), ('"minute";q=60', 300 * S), ("", 300 * S), ('"minute";q=9;w=999999', 86_400 * S)],
    ids=["as long as it is said to be", "of unsaid length", "without a policy", "a day at most"],
)
def test_one_odd_header_makes_nobody_blind_for_a_day(pace: Pace, policy: str, wait: timedelta) -> None:
    pace.hear({"ratelimit": '"minute";r=0;t=999999', "ratelimit-policy": policy})
    assert held(pace, Kind.READ) == wait


def test_few_windows_are_remembered(pace: Pace) -> None:
    pace.hear({"ratelimit": ", ".join(f'"w{number}";r=0;t=999' for number in range(5000))})
    assert len(pace._windows) <= 8
