"""In which places did a model fail twice of late, and what follows from it?"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from controller.core import bad_places
from controller.core.bad_places import FOR, MACHINES_FAULT, BadPlace
from controller.core.book import Book, ModelMemory, reasons_that_fail_a_start
from controller.core.crash_loop import Starts
from controller.core.deployment import Record
from controller.core.diagnosis import Cause
from controller.core.evidence import StopReason
from controller.core.identity import DeploymentId
from controller.core.lifecycle import Phase
from controller.store.load import REMEMBERED
from tests.core.samples import MS, OWNER, SCOPE, T0, record, serving, spec

HOUR = timedelta(hours=1)
CARD, PLACE = "NVIDIA A40", "US-KS-2"


def failed(number: int, at: datetime = T0, **changes: Any) -> Record:
    made = serving(Phase.STOPPED, reason=StopReason.POD_ERROR, stop_required_at=at, ended_at=at, offer=CARD)
    model = changes.pop("model", "qwen")
    return replace(made, spec=spec(id=DeploymentId(f"d{number}"), model=model), place=PLACE, **changes)


def served(number: int, at: datetime, **changes: Any) -> Record:
    return failed(number, at, **{"phase": Phase.ACTIVE, "reason": None, "ready_at": at, "ended_at": None} | changes)


def book(*records: Record, **changes: Any) -> Book:
    return Book(owner=OWNER, scope=SCOPE, records={each.id: each for each in records}, **changes)


def found(*records: Record, now: datetime = T0 + HOUR, **changes: Any) -> tuple[BadPlace, ...]:
    return bad_places.of_model(book(*records, **changes), "qwen", "f1", now=now)


TWICE = (failed(1), failed(2, T0 + HOUR))


def test_two_failed_starts_on_one_type_of_card_make_a_place_bad_and_one_does_not() -> None:
    assert found(failed(1)) == ()
    assert found(*TWICE) == (BadPlace(card=CARD, place=PLACE, failures=2, until=T0 + FOR),)


def test_a_place_is_bad_until_only_one_of_the_failures_is_of_the_last_day() -> None:
    assert found(*TWICE, now=T0 + FOR - MS) != ()
    assert found(*TWICE, now=T0 + FOR) == ()


def test_of_three_failures_the_last_two_say_until_when() -> None:
    (bad,) = found(*TWICE, failed(3, T0 + 2 * HOUR), now=T0 + 2 * HOUR)
    assert (bad.failures, bad.until) == (3, T0 + HOUR + FOR)


def test_what_counts_is_still_remembered_after_a_restart() -> None:
    assert FOR <= REMEMBERED


@pytest.mark.parametrize(
    "other",
    [
        {"model": "llama"},
        {"fingerprint": "f2"},
        {"offer": "NVIDIA L40S"},
        {"place": "US-TX-3"},
        {"place": None},
        {"offer": None},
    ],
)
def test_failures_of_another_model_config_card_or_place_are_not_added_up(other: dict[str, Any]) -> None:
    assert found(failed(1), replace(failed(2, model=other.pop("model", "qwen")), **other)) == ()


@pytest.mark.parametrize("reason", list(StopReason))
def test_only_what_may_be_the_machine_s_fault_counts(reason: StopReason) -> None:
    bad = found(failed(1), failed(2, reason=reason))
    assert bool(bad) is (reason in MACHINES_FAULT)


def test_every_fault_of_a_machine_fails_a_start() -> None:
    assert reasons_that_fail_a_start() >= MACHINES_FAULT


@pytest.mark.parametrize(
    ("reason", "cause", "bad"),
    [
        (StopReason.CRASH_LOOP, None, False),
        (StopReason.CRASH_LOOP, Cause.WRONG_CUDA, True),
        (StopReason.CRASH_LOOP, Cause.OUT_OF_MEMORY, False),
        (StopReason.POD_EXITED, Cause.BAD_FLAG, False),
        (StopReason.STARTUP_DEADLINE, Cause.NO_DOWNLOAD, True),
    ],
)
def test_what_its_log_says_that_the_config_did_is_no_fault_of_the_machine(
    reason: StopReason, cause: Cause | None, bad: bool
) -> None:
    told = {DeploymentId("d2"): Starts(cause=None if cause is None else cause.value)}
    assert bool(found(failed(1), failed(2, reason=reason), starts=told)) is bad


def test_what_came_to_serve_and_broke_later_was_no_failed_start() -> None:
    assert found(failed(1, T0 + MS), failed(2, T0 + HOUR, ready_at=T0)) == ()


@pytest.mark.parametrize(
    ("at", "bad"), [(T0, True), (T0 + HOUR - MS, True), (T0 + HOUR, False), (T0 + HOUR + MS, False)]
)
def test_a_start_that_came_to_serve_there_ends_what_was_before(at: datetime, bad: bool) -> None:
    between = served(3, at)
    assert bool(found(failed(1, T0 + MS), failed(2, T0 + HOUR), failed(4, T0 + HOUR), between)) is bad


def test_a_start_that_came_to_serve_elsewhere_ends_nothing() -> None:
    assert found(*TWICE, replace(served(3, T0 + 2 * HOUR), place="US-TX-3")) != ()
    assert found(*TWICE, served(3, T0 + 2 * HOUR, fingerprint="f2")) != ()


def test_a_volume_that_was_filled_there_ends_it_as_well() -> None:
    filled = served(3, T0 + HOUR, ready_at=None, reason=StopReason.PREFETCHED, phase=Phase.STOPPED)
    assert found(*TWICE, filled) == ()


def test_a_failure_counts_from_its_stop_s_being_owed_on_and_not_only_once_it_is_proven() -> None:
    assert found(failed(1), failed(2, phase=Phase.STOP_REQUIRED, ended_at=None)) != ()


def test_the_creates_of_a_deployment_pass_over_what_was_bad_when_it_was_declared() -> None:
    held, asked = book(*TWICE), record(declared_at=T0 + FOR - MS)
    assert [bad.place for bad in bad_places.passed_over(held, asked)] == [PLACE]
    assert bad_places.passed_over(held, replace(asked, declared_at=T0 + FOR)) == ()
    assert bad_places.passed_over(held, replace(asked, fingerprint="f2")) == ()


def test_the_offers_that_can_stand_only_there_are_named_and_no_others() -> None:
    assert bad_places.offers_there(book(*TWICE), "qwen", "f1", now=T0 + HOUR) == {f"{CARD} @ {PLACE}"}
    assert bad_places.offers_there(book(*TWICE), "qwen", "f2", now=T0 + HOUR) == frozenset()


def test_after_a_round_in_which_everything_was_refused_nothing_is_passed_over() -> None:
    refused = book(*TWICE, memories={"qwen": ModelMemory(model="qwen", rounds=1)})
    assert bad_places.passed_over(refused, record(declared_at=T0 + HOUR)) == ()
    assert bad_places.offers_there(refused, "qwen", "f1", now=T0 + HOUR) == frozenset()
    assert bad_places.of_model(refused, "qwen", "f1", now=T0 + HOUR) != ()


def test_the_models_for_which_other_places_are_worth_knowing_are_named() -> None:
    assert bad_places.models_with(book(*TWICE), now=T0 + FOR - MS) == {"qwen"}
    assert bad_places.models_with(book(*TWICE), now=T0 + FOR) == frozenset()
