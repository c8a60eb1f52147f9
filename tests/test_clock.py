"""Does nobody who sets the wall clock move a deadline, forward or back? (B40, HC-33)"""

from datetime import UTC, datetime, timedelta

import pytest

from controller.clock import SystemClock

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
S = timedelta(seconds=1)
HOURS = timedelta(hours=2)


class Machine:
    """Its wall can be set; its boot clock only runs."""

    def __init__(self) -> None:
        self.wall, self.boot = NOON, timedelta(hours=5)
        self.clock = SystemClock(wall=lambda: self.wall, boot=lambda: self.boot)

    def run(self, span: timedelta) -> None:
        self.wall += span
        self.boot += span


@pytest.mark.parametrize("step", [timedelta(0), HOURS, -HOURS])
def test_time_goes_by_the_boot_clock_however_the_wall_is_set(step: timedelta) -> None:
    machine = Machine()
    machine.wall += step
    machine.run(300 * S)
    assert machine.clock.now() == NOON + 300 * S


def test_time_that_the_machine_slept_counts() -> None:
    machine = Machine()
    machine.boot += HOURS  # as the kernel counts it
    assert machine.clock.now() == NOON + HOURS


@pytest.mark.parametrize(
    ("wall", "said", "goes_on_at"),
    [
        (HOURS, HOURS, HOURS),  # both agree that we are behind: its host put the machine aside
        (HOURS, HOURS + 60 * S, HOURS),
        (HOURS, HOURS + 61 * S, timedelta(0)),
        (HOURS, timedelta(0), timedelta(0)),  # the wall alone
        (timedelta(0), HOURS, timedelta(0)),  # the provider alone
        (60 * S, 60 * S, timedelta(0)),  # no more than clocks differ anyway
        (61 * S, 61 * S, 61 * S),
        (-HOURS, -HOURS, timedelta(0)),  # never back
    ],
)
def test_two_of_three_clocks_take_it_forward_and_none_takes_it_back(
    wall: timedelta, said: timedelta, goes_on_at: timedelta
) -> None:
    machine = Machine()
    machine.wall += wall
    machine.clock.heard(NOON + said)
    assert machine.clock.now() == NOON + goes_on_at


def test_the_real_one_is_near_the_wall_and_moves() -> None:
    clock = SystemClock()
    first = clock.now()
    assert abs(first - datetime.now(UTC)) < 5 * S
    while clock.now() == first:
        pass
    assert clock.now() > first
