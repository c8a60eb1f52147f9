"""Is a stop sent at once when it is due, repeated with growing gaps, and never given up?"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.obligation import HoldStop, Obligation, Sight, StopAnswer, StopTimes, SubmitStop, backoff, submit
from tests.core.samples import MS, T0, S, duty, key

TIMES = StopTimes(again_after=timedelta(seconds=60), backoff_max=timedelta(seconds=60))
DUE = duty(key=key(), due_at=T0)
ENDED = T0 + 10 * S


def answered(answer: StopAnswer, **changes: Any) -> Obligation:
    asked = replace(DUE, stop_attempts=1, stop_submitted_at=T0, stop_ended_at=ENDED, stop_answer=answer)
    return replace(asked, **changes)


def decided(owed: Obligation, now: datetime, *, seen_at: datetime | None = None) -> SubmitStop | HoldStop:
    return submit(owed, Sight(seen_at=seen_at), times=TIMES, now=now)


def test_a_due_stop_of_a_known_key_is_sent_at_once() -> None:
    assert decided(DUE, T0) == SubmitStop()


@pytest.mark.parametrize(
    "owed",
    [
        replace(DUE, due_at=None),
        replace(DUE, key=None),
        replace(DUE, ended_at=T0),
        replace(DUE, stop_attempts=1, stop_submitted_at=T0),
    ],
    ids=["not wanted", "no exact key", "over", "in flight"],
)
def test_nothing_is_sent_without_a_reason_or_a_key_or_while_one_is_in_flight(owed: Obligation) -> None:
    decision = decided(owed, T0 + timedelta(days=1), seen_at=T0 + timedelta(days=1))
    assert isinstance(decision, HoldStop)
    assert decision.until is None


def test_open_requests_may_end_until_the_drain_is_over() -> None:
    times = replace(TIMES, drain_until=T0 + 600 * S)
    before = submit(DUE, Sight(), times=times, now=T0 + 600 * S - MS)
    assert before == HoldStop(until=T0 + 600 * S, why="open requests may end")
    assert submit(DUE, Sight(), times=times, now=T0 + 600 * S) == SubmitStop()


@pytest.mark.parametrize("answer", [StopAnswer.REFUSED, StopAnswer.UNKNOWN])
def test_a_stop_that_failed_before_our_restart_is_sent_again_without_its_backoff(answer: StopAnswer) -> None:
    owed = answered(answer, stop_attempts=6)
    restarted = replace(TIMES, restarted_at=ENDED + 3 * S)
    assert submit(owed, Sight(), times=restarted, now=ENDED + 3 * S) == SubmitStop()
    in_flight = replace(owed, stop_ended_at=ENDED + 3 * S)  # its end is told by the restart itself
    assert submit(in_flight, Sight(), times=restarted, now=ENDED + 3 * S) == SubmitStop()


@pytest.mark.parametrize(("restarted_ms", "sent"), [(1, True), (0, False)])
def test_a_stop_that_a_former_process_of_ours_sent_is_in_flight_no_more(restarted_ms: int, sent: bool) -> None:
    """That it ended is on record only where a run that begins can write."""
    in_flight = replace(DUE, stop_attempts=1, stop_submitted_at=T0)
    restarted = replace(TIMES, restarted_at=T0 + restarted_ms * MS)
    decision = submit(in_flight, Sight(), times=restarted, now=T0 + 60 * S)
    assert isinstance(decision, SubmitStop) is sent


@pytest.mark.parametrize("answer", [StopAnswer.REFUSED, StopAnswer.UNKNOWN])
def test_a_stop_that_fails_in_the_very_moment_of_the_restart_waits_out_its_backoff(answer: StopAnswer) -> None:
    """Found by the simulation: sent and failed again and again, without time passing."""
    restarted = replace(TIMES, restarted_at=ENDED)
    again = answered(answer, stop_attempts=6, stop_submitted_at=ENDED)
    assert submit(again, Sight(), times=restarted, now=ENDED) == HoldStop(
        until=ENDED + 60 * S, why="asked; to be asked again"
    )


def test_a_restart_does_not_overrule_the_patience_that_the_provider_asked_for() -> None:
    owed = answered(StopAnswer.REFUSED, stop_not_before=ENDED + 300 * S)
    restarted = replace(TIMES, restarted_at=ENDED + 3 * S)
    held = submit(owed, Sight(), times=restarted, now=ENDED + 4 * S)
    assert held == HoldStop(until=ENDED + 300 * S, why="asked; to be asked again")


@pytest.mark.parametrize("answer", [StopAnswer.ACCEPTED, StopAnswer.NOT_FOUND])
def test_an_accepted_stop_is_not_repeated_until_the_resource_is_seen_again(answer: StopAnswer) -> None:
    late = T0 + timedelta(days=1)
    assert isinstance(decided(answered(answer), late), HoldStop)
    assert isinstance(decided(answered(answer), late, seen_at=ENDED), HoldStop)
    assert decided(answered(answer), late, seen_at=ENDED + MS) == SubmitStop()


def test_accepted_and_still_seen_it_is_sent_again_after_60_seconds() -> None:
    owed, seen_at = answered(StopAnswer.ACCEPTED), ENDED + S
    assert decided(owed, ENDED + 60 * S - MS, seen_at=seen_at) == HoldStop(
        until=ENDED + 60 * S, why="asked; to be asked again"
    )
    assert decided(owed, ENDED + 60 * S, seen_at=seen_at) == SubmitStop()


@pytest.mark.parametrize("answer", [StopAnswer.REFUSED, StopAnswer.UNKNOWN])
def test_a_refused_or_unanswered_stop_is_sent_again_after_5_seconds_seen_or_not(answer: StopAnswer) -> None:
    assert isinstance(decided(answered(answer), ENDED + 5 * S - MS), HoldStop)
    assert decided(answered(answer), ENDED + 5 * S) == SubmitStop()


def test_a_provider_that_asks_to_wait_is_waited_for() -> None:
    owed = answered(StopAnswer.REFUSED, stop_not_before=ENDED + 100 * S)
    assert isinstance(decided(owed, ENDED + 100 * S - MS), HoldStop)
    assert decided(owed, ENDED + 100 * S) == SubmitStop()


@pytest.mark.parametrize(
    ("attempts", "gap"), [(0, 5), (1, 5), (2, 10), (3, 20), (4, 40), (5, 60), (6, 60), (1_000_000, 60)]
)
def test_the_gap_doubles_from_5_seconds_to_its_most(attempts: int, gap: int) -> None:
    assert backoff(attempts, most=timedelta(seconds=60)) == gap * S


def test_the_gap_doubles_sixteen_times_and_no_more() -> None:
    most = timedelta(days=30)
    assert [backoff(attempts, most=most) for attempts in (16, 17, 18)] == [163_840 * S, 327_680 * S, 327_680 * S]


@given(st.integers(1, 10**9), st.sampled_from([StopAnswer.REFUSED, StopAnswer.UNKNOWN]))
def test_no_number_of_failures_makes_it_give_up(attempts: int, answer: StopAnswer) -> None:
    owed = answered(answer, stop_attempts=attempts)
    assert decided(owed, ENDED + 60 * S) == SubmitStop()
