"""Is the idle stop due at its deadline and not a millisecond before, and never under a stream lease?"""

from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from controller.core.idle import Activity, IdleOut, KeepBusy, KeepUntil, KeepWitnessed, decide, floor
from tests.core.samples import MS, T0, S

IDLE = timedelta(minutes=30)
QUIET = Activity(stream_leases=0, ready_at=T0, last_byte_at=None)


def test_a_resource_with_a_live_stream_lease_is_kept_however_old_its_last_byte() -> None:
    activity = replace(QUIET, stream_leases=1)
    assert decide(activity, idle_after=IDLE, now=T0 + timedelta(days=3)) == KeepBusy()


def test_one_that_never_served_counts_from_its_readiness() -> None:
    assert decide(QUIET, idle_after=IDLE, now=T0 + IDLE - MS) == KeepUntil(until=T0 + IDLE)
    assert decide(QUIET, idle_after=IDLE, now=T0 + IDLE) == IdleOut(since=T0 + IDLE)


def test_one_that_served_counts_from_its_last_byte() -> None:
    activity = replace(QUIET, last_byte_at=T0 + 60 * S)
    due = T0 + 60 * S + IDLE
    assert decide(activity, idle_after=IDLE, now=due - MS) == KeepUntil(until=due)
    assert decide(activity, idle_after=IDLE, now=due) == IdleOut(since=due)


def test_a_last_byte_from_before_it_was_ready_does_not_shorten_its_time() -> None:
    activity = replace(QUIET, last_byte_at=T0 - 60 * S)
    assert decide(activity, idle_after=IDLE, now=T0) == KeepUntil(until=T0 + IDLE)


def test_after_our_restart_gateways_get_their_time_to_speak() -> None:
    due = T0 + 2 * IDLE
    activity = replace(QUIET, not_before=due)
    assert decide(activity, idle_after=IDLE, now=due - MS) == KeepUntil(until=due)
    assert decide(activity, idle_after=IDLE, now=due) == IdleOut(since=due)


def test_a_grace_that_is_over_changes_nothing() -> None:
    activity = replace(QUIET, not_before=T0)
    assert decide(activity, idle_after=IDLE, now=T0) == KeepUntil(until=T0 + IDLE)


def test_idle_time_is_never_shorter_than_the_measured_cold_start() -> None:
    assert floor(IDLE, timedelta(hours=1)) == timedelta(hours=1)
    assert floor(IDLE, timedelta(minutes=5)) == IDLE
    assert floor(IDLE, None) == IDLE


@given(st.integers(0, 10**7), st.none() | st.integers(-(10**7), 10**7), st.integers(1, 10**7))
def test_it_is_due_exactly_when_nothing_happened_for_the_whole_time(now: int, byte: int | None, after: int) -> None:
    last_byte_at = None if byte is None else T0 + byte * MS
    decision = decide(replace(QUIET, last_byte_at=last_byte_at), idle_after=after * MS, now=T0 + now * MS)
    assert isinstance(decision, IdleOut) is (now - max(byte or 0, 0) >= after)


def test_a_server_that_works_for_somebody_is_kept_for_one_idle_time_more_and_no_longer() -> None:
    activity, most = replace(QUIET, witnessed=True), T0 + 2 * IDLE
    assert decide(activity, idle_after=IDLE, now=T0 + IDLE - MS) == KeepUntil(until=T0 + IDLE)
    assert decide(activity, idle_after=IDLE, now=T0 + IDLE) == KeepWitnessed(until=most)
    assert decide(activity, idle_after=IDLE, now=most - MS) == KeepWitnessed(until=most)
    assert decide(activity, idle_after=IDLE, now=most) == IdleOut(since=T0 + IDLE)
