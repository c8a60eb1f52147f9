"""Is a restart counted once, only inside the window, and a loop told at exactly its count?"""

from datetime import datetime, timedelta

import pytest

from controller.core.crash_loop import Starts, looping, notice
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
