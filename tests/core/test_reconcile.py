"""Does one look at one deployment lead to the right duty, in the order of weight?"""

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import product
from typing import Any

import pytest

from controller.core.deployment import Record
from controller.core.evidence import StopReason
from controller.core.identity import Tags
from controller.core.lifecycle import Phase
from controller.core.readiness import Assessment
from controller.core.reconcile import (
    DRAINED,
    Bounds,
    Decision,
    HandOver,
    Look,
    Nothing,
    OursAgain,
    Ready,
    ReadyAgain,
    RequireStop,
    Unready,
    decide,
    next_deadline,
    overdue,
    prevails,
)
from controller.core.schedule import Schedule, Window
from tests.core.samples import MS, OURS, OWNER, T0, S, model_policy, resource, serving

DAY = timedelta(days=1)
STARTUP = 900 * S
BOUNDS = Bounds(owner=OWNER, lifetime=DAY, model=model_policy(startup_deadline=STARTUP))
FOREIGN = replace(OURS, owner="other")


def decided(held: Record, look: Look | None = None, now: datetime = T0, **bounds: Any) -> Decision:
    return decide(held, look or Look(), replace(BOUNDS, **bounds), now=now)


def seen(**changes: Any) -> Look:
    return Look(seen=resource(**changes))


def probed(ready: bool | None, stop: StopReason | None = None) -> Look:
    return Look(seen=resource(), assessment=Assessment(ready=ready, stop=stop))


# Ownership


@pytest.mark.parametrize("phase", [Phase.REQUESTED, Phase.ACTIVE, Phase.STOP_REQUIRED])
@pytest.mark.parametrize("tags", [FOREIGN, replace(OURS, installation="i2")])
@pytest.mark.parametrize(
    ("epoch", "expected"),
    [
        (2, HandOver(epoch=2)),
        (1, RequireStop(reason=StopReason.OWNERSHIP_LOST)),
        (0, RequireStop(reason=StopReason.OWNERSHIP_LOST)),
        (None, RequireStop(reason=StopReason.OWNERSHIP_LOST)),
    ],
)
def test_another_owner_takes_it_by_a_newer_epoch_only(
    phase: Phase, tags: Tags, epoch: int | None, expected: Decision
) -> None:
    assert decided(serving(phase), seen(tags=replace(tags, epoch=epoch))) == expected


def test_lost_ownership_is_told_once() -> None:
    lost = serving(Phase.STOP_REQUIRED, reason=StopReason.OWNERSHIP_LOST)
    assert decided(lost, seen(tags=replace(FOREIGN, epoch=1))) == Nothing()
    unsettled = serving(Phase.UNCERTAIN, reason=StopReason.OWNERSHIP_LOST)
    assert decided(unsettled, seen(tags=FOREIGN, fault=StopReason.POD_ERROR)) == Nothing()


@pytest.mark.parametrize("tags", [OURS, Tags()])
def test_what_lost_its_foreign_label_again_may_be_stopped_again(tags: Tags) -> None:
    taken = serving(Phase.STOP_REQUIRED, reason=StopReason.OWNERSHIP_LOST)
    assert decided(taken, seen(tags=tags)) == OursAgain()
    assert decided(taken) == Nothing()
    assert decided(replace(taken, reason=StopReason.IDLE), seen(tags=tags)) == Nothing()


def test_a_resource_under_our_exact_key_whose_tags_vanished_stays_ours() -> None:
    assert decided(serving(), seen(tags=Tags())) == Nothing(until=T0 + DAY + MS)


# Faults


@pytest.mark.parametrize("fault", [StopReason.POD_EXITED, StopReason.POD_ERROR, StopReason.ZERO_GPU])
@pytest.mark.parametrize("phase", [Phase.REQUESTED, Phase.ACTIVE])
def test_what_the_provider_says_is_broken_is_owed_a_stop(phase: Phase, fault: StopReason) -> None:
    assert decided(serving(phase), seen(fault=fault)) == RequireStop(reason=fault)
    assert decided(serving(Phase.STOP_REQUIRED), seen(fault=fault)) == Nothing()


# Deadlines


@pytest.mark.parametrize("phase", [Phase.REQUESTED, Phase.ACTIVE])
def test_the_end_of_the_lifetime_itself_is_inside(phase: Phase) -> None:
    long_start = model_policy(startup_deadline=timedelta(hours=6))
    at_end = decided(serving(phase), now=T0 + 3600 * S, lifetime=3600 * S, model=long_start)
    past = decided(serving(phase), now=T0 + 3600 * S + MS, lifetime=3600 * S, model=long_start)
    assert at_end == Nothing(until=T0 + 3600 * S + MS)
    assert past == RequireStop(reason=StopReason.LIFETIME_EXCEEDED)


def test_a_start_is_overdue_at_its_deadline_and_not_a_millisecond_before() -> None:
    starting = serving(Phase.REQUESTED)
    assert decided(starting, now=T0 + STARTUP - MS) == Nothing(until=T0 + STARTUP)
    assert decided(starting, now=T0 + STARTUP) == RequireStop(reason=StopReason.STARTUP_DEADLINE)
    assert decided(serving(Phase.ACTIVE), now=T0 + STARTUP) == Nothing(until=T0 + DAY + MS)


@pytest.mark.parametrize(
    ("progress", "ends"),
    [
        (None, STARTUP),
        (STARTUP - 300 * S, STARTUP),
        (STARTUP - 300 * S + MS, STARTUP + MS),
        (STARTUP - S, STARTUP + 299 * S),
        (2 * STARTUP - 300 * S, 2 * STARTUP),
        (2 * STARTUP - S, 2 * STARTUP),
    ],
)
def test_a_start_that_tells_of_progress_gets_five_minutes_from_it_up_to_twice_its_deadline(
    progress: timedelta | None, ends: timedelta
) -> None:
    starting, at = serving(Phase.REQUESTED), None if progress is None else T0 + progress
    assert decided(starting, now=T0 + ends - MS, progress_at=at) == Nothing(until=T0 + ends)
    assert decided(starting, now=T0 + ends, progress_at=at) == RequireStop(reason=StopReason.STARTUP_DEADLINE)


def test_one_that_served_and_then_did_not_for_as_long_as_a_start_may_take_has_stopped_serving() -> None:
    mute = serving(unready_since=T0 + 60 * S)
    due = T0 + 60 * S + STARTUP
    assert decided(mute, now=due - MS) == Nothing(until=due)
    assert decided(mute, now=due) == RequireStop(reason=StopReason.STOPPED_SERVING)


@pytest.mark.parametrize(("slot", "reason"), [(1, None), (2, StopReason.MODEL_REMOVED)])
def test_a_slot_beyond_the_model_s_replicas_is_removed(slot: int, reason: StopReason | None) -> None:
    decision = decided(serving(slot=slot), model=model_policy(slots=2))
    assert (decision.reason if isinstance(decision, RequireStop) else None) is reason


@pytest.mark.parametrize("phase", [Phase.REQUESTED, Phase.ACTIVE])
def test_a_model_that_is_not_configured_any_more_is_removed(phase: Phase) -> None:
    assert decided(serving(phase), model=None) == RequireStop(reason=StopReason.MODEL_REMOVED)


def test_a_config_that_cannot_be_read_removes_no_model() -> None:
    assert decided(serving(), model=None, readable=False) == Nothing(until=T0 + DAY + MS)


def test_a_config_that_cannot_be_read_does_not_lift_the_lifetime() -> None:
    decision = decided(serving(), now=T0 + DAY + MS, model=None, readable=False)
    assert decision == RequireStop(reason=StopReason.LIFETIME_EXCEEDED)


@pytest.mark.parametrize("phase", [Phase.DECLARED, Phase.UNCERTAIN, Phase.STOP_REQUIRED, Phase.STOPPED])
def test_deadlines_and_probes_speak_to_what_serves_only(phase: Phase) -> None:
    look = Look(assessment=Assessment(ready=False, stop=StopReason.UNPROTECTED))
    assert decided(serving(phase), look, now=T0 + 10 * DAY) == Nothing()


# Readiness


def test_a_good_probe_makes_a_requested_one_ready_and_changes_nothing_of_an_active_one() -> None:
    assert decided(serving(Phase.REQUESTED), probed(True)) == Ready()
    assert decided(serving(Phase.ACTIVE), probed(True)) == Nothing(until=T0 + DAY + MS)


def test_a_bad_probe_starts_the_clock_of_an_active_one_once() -> None:
    assert decided(serving(), probed(False), now=T0 + S) == Unready(since=T0 + S)
    mute = serving(unready_since=T0)
    assert decided(mute, probed(False), now=T0 + S) == Nothing(until=T0 + STARTUP)
    assert decided(serving(Phase.REQUESTED), probed(False)) == Nothing(until=T0 + STARTUP)


def test_a_good_probe_ends_that_clock() -> None:
    assert decided(serving(unready_since=T0), probed(True), now=T0 + S) == ReadyAgain()


@pytest.mark.parametrize("look", [probed(None), Look(seen=resource()), Look()])
def test_what_is_not_known_starts_and_ends_nothing(look: Look) -> None:
    assert decided(serving(), look) == Nothing(until=T0 + DAY + MS)
    assert decided(serving(unready_since=T0), look) == Nothing(until=T0 + STARTUP)
    assert decided(serving(Phase.REQUESTED), look) == Nothing(until=T0 + STARTUP)


@pytest.mark.parametrize("phase", [Phase.REQUESTED, Phase.ACTIVE])
def test_an_unfit_server_is_owed_a_stop(phase: Phase) -> None:
    decision = decided(serving(phase), probed(False, StopReason.KEY_REFUSED))
    assert decision == RequireStop(reason=StopReason.KEY_REFUSED)


# Money


@pytest.mark.parametrize(
    ("phase", "ceiling", "stops"),
    [
        (Phase.REQUESTED, "2", True),
        (Phase.ACTIVE, "2", True),
        (Phase.STOP_REQUIRED, "2", False),
        (Phase.ACTIVE, "2.5", False),
        (Phase.ACTIVE, None, False),
    ],
)
def test_what_bills_more_than_its_ceiling_in_two_listings_is_owed_a_stop(
    phase: Phase, ceiling: str | None, stops: bool
) -> None:
    look = replace(probed(True), costs=(Decimal("2.5"), Decimal("2.5")))
    found = decided(serving(phase), look, usd_per_hour_max=None if ceiling is None else Decimal(ceiling))
    assert (found == RequireStop(reason=StopReason.SPEND)) is stops


# Order


def test_ownership_outweighs_a_fault_a_fault_outweighs_a_deadline_and_a_deadline_a_probe() -> None:
    everything = Look(
        seen=resource(tags=FOREIGN, fault=StopReason.POD_ERROR),
        assessment=Assessment(ready=False, stop=StopReason.UNPROTECTED),
    )
    mended = replace(everything, seen=resource(fault=StopReason.POD_ERROR))
    whole = replace(everything, seen=resource())
    reasons = [decided(serving(), look, now=T0 + 2 * DAY) for look in (everything, mended, whole)]
    assert reasons == [
        RequireStop(reason=StopReason.OWNERSHIP_LOST),
        RequireStop(reason=StopReason.POD_ERROR),
        RequireStop(reason=StopReason.LIFETIME_EXCEEDED),
    ]


@pytest.mark.parametrize("phase", [Phase.REQUESTED, Phase.ACTIVE])
def test_without_a_submission_no_time_runs(phase: Phase) -> None:
    unsent = replace(serving(phase), started_at=None)
    assert next_deadline(unsent, BOUNDS, now=T0) is None
    assert decided(unsent, now=T0 + 999 * DAY) == Nothing()


def test_a_start_is_not_late_for_what_it_ran_before_it_was_put_on_record() -> None:
    claimed = replace(serving(Phase.REQUESTED), declared_at=T0 + DAY / 2)
    late = T0 + DAY / 2 + STARTUP
    assert overdue(claimed, BOUNDS, now=late - MS) is None
    assert overdue(claimed, BOUNDS, now=late) is StopReason.STARTUP_DEADLINE


def test_only_a_stop_that_was_another_owner_s_becomes_ours_again() -> None:
    unsettled = serving(Phase.UNCERTAIN, reason=StopReason.OWNERSHIP_LOST)
    assert decided(unsettled, seen()) == Nothing()


def test_under_a_config_that_cannot_be_read_only_the_lifetime_runs() -> None:
    held = serving(Phase.REQUESTED, unready_since=T0)
    assert decided(held, model=None, readable=False) == Nothing(until=T0 + DAY + MS)


@pytest.mark.parametrize(("current", "new"), list(product([None, *StopReason], StopReason)))
def test_the_first_reason_stands_but_for_lost_ownership_and_an_open_question(
    current: StopReason | None, new: StopReason
) -> None:
    gives_way = current in {None, StopReason.AMBIGUOUS_MUTATION} or new is StopReason.OWNERSHIP_LOST
    assert prevails(current, new) is (new if gives_way else current)


def test_open_requests_may_end_under_exactly_these_reasons() -> None:
    assert {
        "idle",
        "lifetime-exceeded",
        "operator-request",
        "model-removed",
        "replaced",
        "spend",
    } == DRAINED


# Windows


@pytest.mark.parametrize("phase", [Phase.REQUESTED, Phase.ACTIVE])
def test_what_runs_when_its_off_window_begins_is_let_go_as_an_operator_would(phase: Phase) -> None:
    off = Window(days=frozenset(range(7)), begin_minute=13 * 60, end_minute=14 * 60)
    bounds = replace(BOUNDS, model=model_policy(schedule=Schedule(off=(off,)), startup_deadline=timedelta(hours=6)))
    held, begins = serving(phase, ready_at=T0), T0 + timedelta(hours=1)
    assert decide(held, Look(), bounds, now=begins - MS) == Nothing(until=begins)
    assert decide(held, Look(), bounds, now=begins) == RequireStop(reason=StopReason.OPERATOR_REQUEST)
