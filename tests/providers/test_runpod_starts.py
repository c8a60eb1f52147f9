"""When a container's start moves forward, and that a jitter never moves it."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.providers.runpod.starts import Starts

T0 = datetime(2026, 11, 29, 12, tzinfo=UTC)
S = timedelta(seconds=1)


def report(starts: Starts, at: int, *, said: int | None = None, uptime: int | None = None) -> int | None:
    """All in seconds since T0."""
    found = starts.report(
        "p",
        said=None if said is None else T0 + said * S,
        uptime=None if uptime is None else uptime * S,
        now=T0 + at * S,
    )
    return None if found is None else int((found - T0) / S)


def test_nothing_said_is_nothing_reported() -> None:
    assert report(Starts(), 100) is None


def test_a_start_that_is_said_is_reported_as_said() -> None:
    starts = Starts()
    assert report(starts, 100, said=40) == 40
    assert report(starts, 200, said=190) == 190


@pytest.mark.parametrize("back", [39, None])
def test_a_start_never_goes_back_and_is_not_forgotten(back: int | None) -> None:
    starts = Starts()
    report(starts, 100, said=40)
    assert report(starts, 115, said=back) == 40


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=50))
def test_an_uptime_that_jitters_by_seconds_is_one_start(jitters: list[int]) -> None:
    starts = Starts()
    reported = {report(starts, at * 15, uptime=at * 15 + jitter) for at, jitter in enumerate(jitters, start=1)}
    assert len(reported) == 1


def test_an_uptime_that_fell_is_a_restart_though_the_said_start_stands_still() -> None:
    starts = Starts()
    report(starts, 100, said=0, uptime=90)
    assert report(starts, 115, said=0, uptime=5) == 110


@pytest.mark.parametrize(("later_s", "reported"), [(15, 10), (16, 26)])
def test_an_estimate_that_is_more_than_fifteen_seconds_later_is_a_restart(later_s: int, reported: int) -> None:
    starts = Starts()
    assert report(starts, 100, uptime=90) == 10
    assert report(starts, 200, uptime=190 - later_s) == reported


@pytest.mark.parametrize(("estimate", "reported"), [(25, 0), (26, 26)])
def test_a_said_start_far_before_the_first_estimate_makes_no_jitter_a_restart(estimate: int, reported: int) -> None:
    starts = Starts()
    assert report(starts, 100, said=0, uptime=90) == 0
    assert report(starts, 200, said=0, uptime=200 - estimate) == reported


@pytest.mark.parametrize(("estimate", "reported"), [(218, 200), (219, 219)])
def test_after_a_restart_that_was_said_the_new_estimate_is_what_later_ones_are_held_against(
    estimate: int, reported: int
) -> None:
    starts = Starts()
    report(starts, 100, said=0, uptime=98)
    assert report(starts, 230, said=200, uptime=27) == 200
    assert report(starts, 300, said=200, uptime=300 - estimate) == reported


@pytest.mark.parametrize(("estimate", "reported"), [(35, 20), (36, 36)])
def test_one_within_fifteen_seconds_of_the_said_start_is_that_start(estimate: int, reported: int) -> None:
    starts = Starts()
    assert report(starts, 100, said=20, uptime=100) == 20
    assert report(starts, 200, said=20, uptime=200 - estimate) == reported


@pytest.mark.parametrize(("drift_s", "estimate", "reported"), [(2, 27, 10), (3, 26, 26)])
def test_an_estimate_is_followed_by_two_seconds_at_a_time(drift_s: int, estimate: int, reported: int) -> None:
    starts = Starts()
    report(starts, 100, uptime=90)
    assert report(starts, 200, uptime=190 - drift_s) == 10
    assert report(starts, 300, uptime=300 - estimate) == reported


def test_a_restart_told_both_ways_is_one() -> None:
    starts = Starts()
    report(starts, 100, said=0, uptime=98)
    assert report(starts, 215, said=200) == 200
    assert report(starts, 230, said=200, uptime=27) == 200


def test_a_first_uptime_after_a_long_download_is_no_restart() -> None:
    starts = Starts()
    report(starts, 10, said=0)
    assert report(starts, 600, said=0, uptime=20) == 0
    assert report(starts, 615, said=0, uptime=35) == 0
    assert report(starts, 630, said=0, uptime=40) == 0, "a jitter behind a start said long before"


def test_clocks_that_walk_apart_for_days_restart_nothing() -> None:
    starts = Starts()
    assert {report(starts, at * 15, uptime=at * 14) for at in range(100, 400)} == {100}


def test_a_restart_every_few_seconds_is_noticed_at_every_second_look() -> None:
    starts = Starts()
    seen = [report(starts, at, uptime=1) for at in range(14, 294, 14)]
    assert len(set(seen)) == 10


def test_a_loop_faster_than_the_margin_is_still_noticed() -> None:
    starts = Starts()
    seen = [report(starts, at, uptime=at % 10) for at in range(15, 120, 15)]
    assert len(set(seen)) >= 3


def test_a_pod_that_a_complete_listing_no_longer_shows_is_forgotten() -> None:
    starts = Starts()
    report(starts, 100, said=40)
    starts.keep_only(["q"])
    assert report(starts, 100, said=30) == 30


def test_one_that_a_complete_listing_shows_keeps_its_start() -> None:
    starts = Starts()
    report(starts, 100, said=40)
    starts.keep_only(["p", "q"])
    assert report(starts, 100, said=30) == 40


@pytest.mark.parametrize("said", [None, 40])
def test_an_uptime_that_stands_at_nothing_is_no_restart_however_often_it_is_said(said: int | None) -> None:
    starts = Starts()
    assert {report(starts, at, said=said, uptime=0) for at in range(60, 660, 60)} == {said}


@pytest.mark.parametrize(("ahead", "reported"), [(3600, 100), (3601, None)])
def test_a_start_that_is_still_to_come_hides_no_later_one(ahead: int, reported: int | None) -> None:
    starts = Starts()
    assert report(starts, 100, said=100 + ahead) == (100 + ahead if reported else None)
    starts = Starts()
    report(starts, 100, said=10**9)
    assert report(starts, 200, said=150) == 150
