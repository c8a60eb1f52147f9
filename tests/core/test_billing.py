"""Does the bill contradict a proof exactly where it speaks of time after it?"""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from controller.core import billing
from controller.core.billing import LATE, ROUNDING, SELDOM, WATCHED, Bill, Billed, Bucket
from controller.core.evidence import Evidence, EvidenceKind, StopReason
from controller.core.inventory import Absence, NotFound
from controller.core.obligation import KeepOpen, Obligation, Sight, StopAnswer, settle
from tests.core.samples import MS, T0, duty, key

HOUR = timedelta(hours=1)


def bucket(hours: float, micros: int = 790_000, incarnation: str = "p1") -> Bucket:
    """Of the hour that begins so long after noon."""
    begin = T0 + hours * HOUR
    return Bucket(incarnation=incarnation, begin=begin, end=begin + HOUR, micros=micros)


def bill(*buckets: Bucket, hours: float = 10, problem: str | None = None) -> Bill:
    return Bill(since=T0 - HOUR, asked_at=T0 + hours * HOUR, buckets=buckets, problem=problem)


def billed(hours: float) -> Obligation:
    """Owed for its bill since then."""
    opened = T0 + hours * HOUR
    return duty(deployment=None, key=key(), opened_at=opened, due_at=opened, reason=StopReason.BILLED_AFTER_STOP)


@pytest.mark.parametrize(
    ("ended_at", "found"),
    [
        (T0 - ROUNDING, True),
        (T0 - ROUNDING + MS, False),  # what is rounded up reaches into it
        (T0 + 30 * timedelta(minutes=1), False),  # the hour in which it ended
    ],
)
def test_only_an_hour_after_the_discharge_contradicts_it(ended_at: datetime, found: bool) -> None:
    assert billing.contradicted(bill(bucket(0)), {key(): ended_at}) == ({key(): bucket(0)} if found else {})


@pytest.mark.parametrize(
    "told",
    [
        bill(bucket(0), problem="half of it"),
        bill(bucket(0, micros=0)),
        bill(bucket(0, incarnation="somebody's")),
        bill(),
    ],
)
def test_nothing_else_does(told: Bill) -> None:
    assert billing.contradicted(told, {key(): T0 - HOUR}) == {}


def test_a_bucket_that_is_told_twice_contradicts_once_and_the_first_hour_is_named() -> None:
    told = bill(bucket(2), bucket(1), bucket(1))
    assert billing.contradicted(told, {key(): T0}) == {key(): bucket(1)}


# Quiet


@pytest.mark.parametrize(("asked", "ends"), [(6, True), (6 - 1e-6, False)])
def test_two_hours_without_it_that_had_time_to_be_filled_end_the_duty(asked: float, ends: bool) -> None:
    told = bill(bucket(0), bucket(1), hours=asked)
    evidence = billing.quiet(told, billed(1))
    assert (evidence is not None) is ends
    assert evidence is None or (evidence.kind, evidence.observed_at) == (EvidenceKind.BILLING_QUIET, told.asked_at)


def test_it_is_quiet_from_the_last_bucket_on_and_from_the_hour_after_it_was_owed() -> None:
    assert billing.quiet(bill(bucket(0), bucket(4), hours=8), billed(1)) is None
    assert billing.quiet(bill(bucket(0), bucket(4), hours=9), billed(1)) is not None
    assert billing.quiet(bill(bucket(0), hours=2 + 6 - 1e-6), billed(3.5)) is None
    assert billing.quiet(bill(bucket(0), hours=4 + 2 + LATE / HOUR), billed(3.5)) is not None


@pytest.mark.parametrize(
    "told",
    [
        bill(),
        bill(bucket(0, micros=0)),
        bill(bucket(0, incarnation="p2")),
        bill(bucket(0), problem="late"),
    ],
)
def test_a_bill_that_forgot_what_it_said_or_could_not_be_read_is_not_quiet(told: Bill) -> None:
    assert billing.quiet(told, billed(1)) is None


def test_neither_absence_nor_an_accepted_stop_ends_what_is_owed_for_its_bill() -> None:
    absence = Absence(first=T0 + 2 * HOUR, previous=T0 + 2 * HOUR, last=T0 + 3 * HOUR)
    sight = Sight(read=NotFound(reference="404", began_at=T0 + 3 * HOUR), absence=absence)
    stopped = replace(
        billed(1), stop_ended_at=T0 + HOUR, stop_answer=StopAnswer.ACCEPTED, stop_reference="x", seen_at=T0
    )
    for accepted in (True, False):
        assert isinstance(settle(stopped, sight, settle_after=HOUR, accepted_suffices=accepted), KeepOpen)
    assert not isinstance(
        settle(replace(stopped, reason=StopReason.IDLE), sight, settle_after=HOUR, accepted_suffices=False), KeepOpen
    )


# Borne out


def borne_out(told: Bill, ended_at: datetime = T0 + HOUR / 2, *, known: datetime | None = None) -> Evidence | None:
    return billing.corroborated(told, {key(): ended_at}, {} if known is None else {key(): known}).get(key())


@pytest.mark.parametrize(("asked", "found"), [(5, True), (5 - 1e-6, False)])
def test_two_hours_without_it_that_had_time_to_be_filled_bear_an_end_out(asked: float, found: bool) -> None:
    told = bill(bucket(-1), bucket(0), hours=asked)
    evidence = borne_out(told, T0 + HOUR / 2)
    assert (evidence is not None) is found
    assert evidence is None or (evidence.kind, evidence.observed_at) == (EvidenceKind.BILLING_QUIET, told.asked_at)


@pytest.mark.parametrize(
    "told",
    [
        bill(),  # nothing of it was ever billed: a bill that lacks it bears nothing out
        bill(bucket(0, micros=0)),
        bill(bucket(0, incarnation="p2")),
        bill(bucket(0), problem="half of it"),
        bill(bucket(0), bucket(1)),
        replace(bill(bucket(0)), since=T0 + MS),
    ],
)
def test_no_end_is_borne_out_by_a_bill_that_does_not_show_it_or_shows_more(told: Bill) -> None:
    assert borne_out(told) is None


@pytest.mark.parametrize(("ended_at", "found"), [(T0 + HOUR - ROUNDING, False), (T0 + HOUR - ROUNDING + MS, True)])
def test_an_hour_that_rounding_may_reach_into_does_not_speak_against_an_end(ended_at: datetime, found: bool) -> None:
    assert (borne_out(bill(bucket(0), bucket(1)), ended_at) is not None) is found


@pytest.mark.parametrize(("ended_at", "asked"), [(T0 + HOUR - ROUNDING, 5), (T0 + HOUR - ROUNDING + MS, 6)])
def test_the_two_hours_count_from_the_first_that_speaks_of_time_after_the_end(ended_at: datetime, asked: float) -> None:
    assert borne_out(bill(bucket(0), hours=asked - 1e-6), ended_at) is None
    assert borne_out(bill(bucket(0), hours=asked), ended_at) is not None


def test_a_bill_that_begins_with_the_hour_of_the_end_bears_it_out() -> None:
    assert borne_out(replace(bill(bucket(0)), since=T0)) is not None


def test_an_end_is_borne_out_once_and_a_later_one_anew() -> None:
    told = bill(bucket(0))
    assert borne_out(told, known=T0 + HOUR / 2) is None
    assert borne_out(told, known=T0 + HOUR / 4) is not None


# When to look


def test_with_nothing_discharged_lately_nobody_looks() -> None:
    assert billing.next_look({}, [], asked_at=None, now=T0) is None
    assert billing.next_look({key(): T0}, [], asked_at=None, now=T0 + WATCHED + MS) is None
    assert billing.next_look({}, [duty(key=key())], asked_at=None, now=T0) is None


def test_a_discharge_is_watched_from_its_instant_to_the_end_of_two_days() -> None:
    assert billing.watched({key(): T0}, [], now=T0 - MS) == []
    assert billing.watched({key(): T0}, [], now=T0) == billing.watched({key(): T0}, [], now=T0 + WATCHED) == [T0]


def test_the_first_look_is_when_the_first_whole_hour_is_over_and_then_each_hour_while_it_is_young() -> None:
    ended = {key(): T0 + timedelta(minutes=20)}
    first = T0 + 2 * HOUR
    assert billing.next_look(ended, [], asked_at=None, now=T0 + HOUR) == first
    assert billing.next_look(ended, [], asked_at=first, now=first) == first + HOUR
    old = T0 + 20 * HOUR
    assert billing.next_look(ended, [], asked_at=old, now=old) == old + SELDOM
    assert billing.next_look(ended, [billed(1)], asked_at=old, now=old) == old + HOUR


def test_what_is_owed_for_its_bill_is_looked_at_for_ever_and_with_an_hour_that_shows_it() -> None:
    late = T0 + 30 * 24 * HOUR
    assert billing.next_look({}, [billed(1)], asked_at=None, now=late) is not None
    assert billing.since({}, [billed(1.5)], now=late) == T0


def test_while_something_lives_the_bill_is_looked_at_each_hour_from_its_first_whole_hour_on() -> None:
    began = T0 + timedelta(minutes=20)
    assert billing.next_look({}, [], alive=[began], asked_at=None, now=began) == T0 + 2 * HOUR
    late = T0 + 50 * HOUR
    assert billing.next_look({}, [], alive=[began], asked_at=late, now=late) == late + HOUR


def test_the_bill_goes_back_to_the_begin_of_what_is_to_be_shown_and_not_beyond_what_is_kept_up() -> None:
    now = T0 + 20 * 24 * HOUR
    long_ago = now - billing.SHOWN_FOR
    assert billing.since({}, [], begun=[now - 5 * HOUR, now - 30 * HOUR], now=now) == now - 31 * HOUR
    assert billing.since({}, [], begun=[long_ago], now=now) == long_ago - HOUR
    assert billing.since({}, [], begun=[long_ago - MS], now=now) == now - HOUR
    assert billing.since({key(): now - 2 * HOUR}, [], begun=[now - HOUR], now=now) == now - 3 * HOUR


# What was billed


def test_what_was_billed_is_the_sum_from_the_hour_of_the_begin_on_and_says_until_when() -> None:
    told = bill(bucket(-1), bucket(0), bucket(1), bucket(1, incarnation="p2"), bucket(3, micros=10))
    found = billing.sum_since(told, {"p1"}, since=T0 + timedelta(minutes=59))
    assert found == Billed(micros=2 * 790_000 + 10, until=T0 + 4 * HOUR)
    assert billing.sum_since(told, {"p1", "p2"}, since=T0 + HOUR) == Billed(micros=1_580_010, until=T0 + 4 * HOUR)


@pytest.mark.parametrize(
    ("told", "since"),
    [
        (None, T0),
        (bill(), T0),
        (bill(bucket(0, incarnation="p2")), T0),
        (bill(bucket(0), problem="half of it"), T0),
        (bill(bucket(0)), T0 - HOUR - MS),  # the bill begins an hour before noon
    ],
)
def test_what_is_not_billed_yet_or_told_by_half_is_not_known(told: Bill | None, since: datetime) -> None:
    assert billing.sum_since(told, {"p1"}, since=since) is None


def test_an_hour_that_was_billed_at_nothing_is_known_to_be_nothing() -> None:
    assert billing.sum_since(bill(bucket(0, micros=0)), {"p1"}, since=T0) == Billed(micros=0, until=T0 + HOUR)
