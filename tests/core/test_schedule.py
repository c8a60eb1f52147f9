"""Is a model warm or off exactly when its windows say so, whatever the clocks do?

2026-11-30 is a Monday. The zone is Central Europe's: 02:00 becomes 03:00 on 2026-03-29, 03:00 becomes 02:00 on
2026-10-25.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.evidence import StopReason
from controller.core.lifecycle import Phase
from controller.core.schedule import (
    MARGIN,
    Off,
    Open,
    Schedule,
    Warm,
    Window,
    decide,
    dismissed,
    lead_of,
    off_from,
)
from tests.core.samples import MS, T0, record
from tests.support.zones import zone

BERLIN = zone()
WORKDAYS = frozenset(range(5))
DAILY = frozenset(range(7))
NONE = timedelta(0)


def window(begin: str, end: str, days: frozenset[int] = DAILY) -> Window:
    first, last = (int(text[:2]) * 60 + int(text[3:]) for text in (begin, end))
    return Window(days=days, begin_minute=first, end_minute=last if last > first else last + 1440)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def warm(*windows: Window, off: tuple[Window, ...] = ()) -> Schedule:
    return Schedule(warm=windows, off=off, zone=BERLIN)


def off(*windows: Window) -> Schedule:
    return Schedule(off=windows, zone=BERLIN)


def test_without_windows_it_is_open_for_ever() -> None:
    assert decide(Schedule(), lead=timedelta(hours=1), now=at("2026-11-30T12:00")) == Open(until=None)


@pytest.mark.parametrize(
    ("now", "answer"),
    [
        ("2026-11-30T06:59:59.999", Open(until=at("2026-11-30T07:00"))),
        ("2026-11-30T07:00", Warm(since=at("2026-11-30T07:00"), until=at("2026-11-30T17:00"))),
        ("2026-11-30T16:59:59.999", Warm(since=at("2026-11-30T07:00"), until=at("2026-11-30T17:00"))),
        ("2026-11-30T17:00", Open(until=at("2026-12-01T07:00"))),
        ("2026-12-04T17:00", Open(until=at("2026-12-07T07:00"))),
    ],
)
def test_a_window_holds_from_its_begin_to_just_before_its_end_on_its_days(now: str, answer: Open | Warm) -> None:
    assert decide(warm(window("08:00", "18:00", WORKDAYS)), lead=NONE, now=at(now)) == answer


def test_it_is_started_early_by_what_a_start_takes() -> None:
    schedule, lead = warm(window("08:00", "18:00", WORKDAYS)), timedelta(minutes=25)
    assert decide(schedule, lead=lead, now=at("2026-11-30T06:34:59")) == Open(until=at("2026-11-30T06:35"))
    assert decide(schedule, lead=lead, now=at("2026-11-30T06:35")) == Warm(
        since=at("2026-11-30T06:35"), until=at("2026-11-30T17:00")
    )


def test_a_start_is_led_by_the_measured_cold_start_and_by_the_longest_until_there_is_one() -> None:
    assert lead_of(None, timedelta(minutes=30)) == timedelta(minutes=30) + MARGIN
    assert lead_of(timedelta(minutes=5), timedelta(minutes=30)) == timedelta(minutes=5) + MARGIN


def test_a_window_over_midnight_belongs_to_the_day_on_which_it_begins() -> None:
    nights = off(window("22:00", "06:00", WORKDAYS))
    friday_night = Off(since=at("2026-12-04T21:00"), until=at("2026-12-05T05:00"))
    assert decide(nights, lead=NONE, now=at("2026-12-05T04:59:59")) == friday_night
    assert decide(nights, lead=NONE, now=at("2026-12-05T05:00")) == Open(until=at("2026-12-07T21:00"))


def test_windows_that_overlap_or_touch_are_one() -> None:
    both = warm(window("08:00", "12:00"), window("11:00", "15:00"), window("15:00", "16:00"))
    assert decide(both, lead=NONE, now=at("2026-11-30T08:00")) == Warm(
        since=at("2026-11-30T07:00"), until=at("2026-11-30T15:00")
    )


def test_a_window_that_never_ends_is_renewed_day_by_day() -> None:
    always = warm(window("00:00", "24:00"))
    found = decide(always, lead=NONE, now=at("2026-11-30T12:00"))
    assert isinstance(found, Warm)
    assert found.until >= at("2026-12-07T12:00")


def test_off_outweighs_warm_and_the_rest_of_the_window_begins_when_it_ends() -> None:
    lunch = warm(window("08:00", "18:00"), off=(window("12:00", "13:00"),))
    lead = timedelta(minutes=30)
    assert decide(lunch, lead=lead, now=at("2026-11-30T10:59")) == Warm(
        since=at("2026-11-30T06:30"), until=at("2026-11-30T11:00")
    )
    assert decide(lunch, lead=lead, now=at("2026-11-30T11:59:59")) == Off(
        since=at("2026-11-30T11:00"), until=at("2026-11-30T12:00")
    )
    assert decide(lunch, lead=lead, now=at("2026-11-30T12:00")) == Warm(
        since=at("2026-11-30T12:00"), until=at("2026-11-30T17:00")
    )


def test_nothing_is_started_early_inside_an_off_window() -> None:
    schedule = warm(window("08:00", "18:00"), off=(window("22:00", "07:50"),))
    assert decide(schedule, lead=timedelta(hours=1), now=at("2026-11-30T06:49:59")) == Off(
        since=at("2026-11-29T21:00"), until=at("2026-11-30T06:50")
    )
    assert decide(schedule, lead=timedelta(hours=1), now=at("2026-11-30T06:50")) == Warm(
        since=at("2026-11-30T06:50"), until=at("2026-11-30T17:00")
    )


# When the clocks are changed


@pytest.mark.parametrize(
    ("begin", "end", "since", "until"),
    [
        ("01:00", "04:00", "2026-03-29T00:00", "2026-03-29T02:00"),  # an hour shorter
        ("02:30", "04:00", "2026-03-29T01:00", "2026-03-29T02:00"),  # begins with the leap
        ("01:00", "02:30", "2026-03-29T00:00", "2026-03-29T01:00"),  # ends with the leap
        ("22:00", "06:00", "2026-03-28T21:00", "2026-03-29T04:00"),  # seven hours of night
    ],
)
def test_in_spring_an_hour_that_is_leapt_over_begins_and_ends_with_the_leap(
    begin: str, end: str, since: str, until: str
) -> None:
    found = decide(off(window(begin, end)), lead=NONE, now=at(since))
    assert found == Off(since=at(since), until=at(until))


def test_a_window_that_is_leapt_over_as_a_whole_is_none_on_that_day() -> None:
    assert decide(off(window("02:10", "02:50")), lead=NONE, now=at("2026-03-29T00:30")) == Open(
        until=at("2026-03-30T00:10")
    )


@pytest.mark.parametrize(
    ("begin", "end", "since", "until"),
    [
        ("01:00", "04:00", "2026-10-24T23:00", "2026-10-25T03:00"),  # an hour longer
        ("02:30", "04:00", "2026-10-25T00:30", "2026-10-25T03:00"),  # from the first 02:30
        ("01:00", "02:30", "2026-10-24T23:00", "2026-10-25T01:30"),  # to the second
        ("02:10", "02:50", "2026-10-25T00:10", "2026-10-25T01:50"),  # once, over both
    ],
)
def test_in_autumn_a_window_lasts_from_the_first_to_the_last_showing(
    begin: str, end: str, since: str, until: str
) -> None:
    found = decide(off(window(begin, end)), lead=NONE, now=at(since))
    assert found == Off(since=at(since), until=at(until))


def test_a_start_in_the_night_of_the_change_is_early_by_real_minutes() -> None:
    schedule = warm(window("03:00", "09:00"))
    found = decide(schedule, lead=timedelta(minutes=40), now=at("2026-03-29T00:20"))
    assert found == Warm(since=at("2026-03-29T00:20"), until=at("2026-03-29T07:00"))


@pytest.mark.parametrize("hours", [-12, 14])
def test_days_are_those_of_the_zone(hours: int) -> None:
    name = f"<X>{-hours:+d}"
    schedule = Schedule(off=(window("00:00", "24:00", frozenset({0})),), zone=zone(name))
    begins = at("2026-11-30T00:00") - timedelta(hours=hours)
    assert decide(schedule, lead=NONE, now=begins - timedelta(seconds=1)) == Open(until=begins)
    assert decide(schedule, lead=NONE, now=begins) == Off(since=begins, until=begins + timedelta(days=1))


def test_the_next_off_window_is_told_and_the_present_one_with_its_begin() -> None:
    schedule = off(window("22:00", "06:00", WORKDAYS))
    assert off_from(schedule, now=at("2026-11-30T20:59")) == at("2026-11-30T21:00")
    assert off_from(schedule, now=at("2026-12-01T04:59")) == at("2026-11-30T21:00")
    assert off_from(schedule, now=at("2026-12-01T05:00")) == at("2026-12-01T21:00")
    assert off_from(Schedule(), now=at("2026-12-01T05:00")) is None


minutes = st.integers(0, 1439)
windows = st.builds(
    lambda days, begin, length: Window(days=days, begin_minute=begin, end_minute=begin + length),
    st.frozensets(st.integers(0, 6), min_size=1),
    minutes,
    st.integers(1, 1440),
)
schedules = st.builds(
    lambda warm, off: Schedule(warm=tuple(warm), off=tuple(off), zone=BERLIN),
    st.lists(windows, max_size=3),
    st.lists(windows, max_size=3),
)
instants = st.datetimes(datetime(2026, 3, 1), datetime(2026, 11, 30)).map(lambda found: found.replace(tzinfo=UTC))  # noqa: DTZ001


@given(schedules, instants, st.integers(0, 600))
def test_a_decision_holds_until_the_instant_that_it_names(schedule: Schedule, now: datetime, lead_m: int) -> None:
    lead = timedelta(minutes=lead_m)
    found = decide(schedule, lead=lead, now=now)
    if found.until is None:
        return
    assert found.until > now
    before = decide(schedule, lead=lead, now=max(now, found.until - timedelta(milliseconds=1)))
    after = decide(schedule, lead=lead, now=found.until)
    assert type(before) is type(found)
    assert isinstance(after, Warm | Off) if isinstance(found, Open) else after != found
    began = off_from(schedule, now=now)
    assert (began is not None and began <= now) == isinstance(found, Off)


@pytest.mark.parametrize(
    ("changes", "left"),
    [
        ({}, True),
        ({"stop_required_at": T0 - MS}, False),
        ({"stop_required_at": None}, False),
        ({"reason": StopReason.IDLE}, False),
        ({"fills": "EU-1"}, False),
    ],
)
def test_what_an_operator_stopped_since_the_window_began_is_not_kept_warm(changes: dict[str, Any], left: bool) -> None:
    stopped = record(Phase.STOPPED, reason=StopReason.OPERATOR_REQUEST, stop_required_at=T0)
    assert dismissed([replace(stopped, **changes)], since=T0) is left
