"""Is a restart counted once, only inside the window, and a loop told at exactly its count?"""

from datetime import datetime, timedelta

import pytest

from controller.core.crash_loop import Starts, believed, looping, notice, notice_server
from tests.core.samples import MS, T0, S

WINDOW = timedelta(seconds=600)


def seen(starts: Starts, started_at: datetime | None, now: datetime = T0) -> Starts:
    return notice(starts, started_at=started_at, window=WINDOW, now=now)


def test_the_first_start_seen_is_no_restart() -> None:
    assert seen(Starts(), T0) == Starts(latest=T0, restarts=())


@pytest.mark.parametrize("started_at", [None, T0, T0 - MS])
def test_a_missing_equal_or_earlier_start_changes_nothing(started_at: datetime | None) -> None:
    starts = Starts(latest=T0, restarts=(T0,))
    assert seen(starts, started_at, T0 + 60 * S) is starts


def test_a_start_that_moved_forward_is_one_restart_at_the_moment_it_was_seen() -> None:
    starts = seen(Starts(latest=T0), T0 + MS, T0 + 40 * S)
    assert starts == Starts(latest=T0 + MS, restarts=(T0 + 40 * S,))


def test_restarts_that_left_the_window_are_forgotten_and_one_at_its_far_end_is_kept() -> None:
    old = (T0 - MS, T0)
    starts = seen(Starts(latest=T0, restarts=old), T0 + 600 * S, T0 + 600 * S)
    assert starts.restarts == (T0, T0 + 600 * S)


@pytest.mark.parametrize(("restarts", "loop"), [(0, False), (1, False), (2, True), (3, True)])
def test_a_loop_is_told_at_its_count_and_not_before(restarts: int, loop: bool) -> None:
    assert looping([T0] * restarts, limit=2, window=WINDOW, now=T0) is loop


@pytest.mark.parametrize(("later", "loop"), [(600 * S, True), (600 * S + MS, False)])
def test_the_far_end_of_the_window_is_inside(later: timedelta, loop: bool) -> None:
    assert looping([T0, T0 + 300 * S], limit=2, window=WINDOW, now=T0 + later) is loop


def test_restarts_before_and_after_a_long_quiet_stretch_make_no_loop() -> None:
    starts = Starts(latest=T0)
    for at in (10, 20, 720, 730):
        starts = seen(starts, T0 + at * S, T0 + at * S)
    assert not looping(starts.restarts, limit=3, window=WINDOW, now=T0 + 730 * S)


# What the server says of itself


def told(starts: Starts, started_at: datetime | None, now: datetime = T0) -> Starts:
    return notice_server(starts, started_at=started_at, window=WINDOW, now=now)


def test_the_first_start_that_the_server_tells_is_no_restart() -> None:
    assert told(Starts(latest=T0), T0 + 5 * S).restarts == ()


@pytest.mark.parametrize(("moved", "restarts"), [(-60 * S, 0), (0 * S, 0), (5 * S, 0), (5 * S + MS, 1)])
def test_a_server_that_began_anew_in_a_container_that_stayed_is_one_restart(moved: timedelta, restarts: int) -> None:
    starts = told(told(Starts(latest=T0), T0 + 5 * S), T0 + 5 * S + moved, T0 + 300 * S)
    assert starts.restarts == (T0 + 300 * S,) * restarts


def test_an_untold_start_changes_nothing() -> None:
    starts = told(Starts(latest=T0), T0 + 5 * S)
    assert told(starts, None, T0 + 300 * S) is starts


def test_a_restart_that_the_provider_told_first_is_not_counted_again_from_the_server() -> None:
    starts = seen(told(Starts(latest=T0), T0 + 5 * S), T0 + 300 * S, T0 + 310 * S)
    starts = told(starts, T0 + 305 * S, T0 + 320 * S)
    assert starts.restarts == (T0 + 310 * S,)
    assert told(starts, T0 + 400 * S, T0 + 410 * S).restarts == (T0 + 310 * S, T0 + 410 * S)


@pytest.mark.parametrize(("later", "restarts"), [(180 * S, 1), (180 * S + MS, 2)])
def test_a_restart_that_the_server_told_first_is_not_counted_again_from_the_provider(
    later: timedelta, restarts: int
) -> None:
    counted = told(told(Starts(latest=T0), T0 + 5 * S), T0 + 305 * S, T0 + 310 * S)
    starts = seen(counted, T0 + 300 * S, T0 + 310 * S + later)
    assert len(starts.restarts) == restarts
    assert len(seen(starts, T0 + 301 * S, T0 + 310 * S + later).restarts) == restarts + 1


def test_a_loop_that_only_the_server_tells_of_is_counted_in_full() -> None:
    starts = Starts()
    for at in range(0, 400, 100):
        starts = told(starts, T0 + at * S, T0 + at * S)
    assert starts.restarts == (T0 + 100 * S, T0 + 200 * S, T0 + 300 * S)


def test_a_loop_that_both_tell_of_is_counted_once_a_restart_in_either_order() -> None:
    for first, second in ((seen, told), (told, seen)):
        starts = told(seen(Starts(), T0), T0)
        for at in (100, 200, 300):
            starts = second(first(starts, T0 + at * S, T0 + at * S), T0 + at * S, T0 + (at + 15) * S)
        assert len(starts.restarts) == 3


def test_the_providers_first_word_of_a_container_explains_no_later_restart_of_its_server() -> None:
    starts = seen(told(Starts(), T0 + 5 * S), T0)
    assert len(told(starts, T0 + 300 * S, T0 + 310 * S).restarts) == 1


@pytest.mark.parametrize(
    ("said", "server_at", "found"),
    [
        (T0 + 5 * S, T0, T0 + 5 * S),
        (T0 + 5 * S + MS, T0, None),
        (T0 - 60 * S, T0, T0 - 60 * S),
        (T0 + 60 * S, None, T0 + 60 * S),
        (None, T0, None),
    ],
)
def test_a_container_younger_than_the_server_in_it_is_none(
    said: datetime | None, server_at: datetime | None, found: datetime | None
) -> None:
    assert believed(said, server_at=server_at) == found
