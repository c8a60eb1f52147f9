"""When is what serves replaced, when does it go, and when does it stay?"""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from controller.core import replacement
from controller.core.deployment import Record
from controller.core.evidence import StopReason
from controller.core.identity import DeploymentId
from controller.core.lifecycle import Phase
from controller.core.replacement import Begin, Case, GiveUp, Keep, Queue, Retire, Why
from controller.core.schedule import Schedule, Window
from tests.core.samples import MS, T0, S, model_policy, serving, spec

OLD = serving(ready_at=T0 - S, proven_at=T0, last_byte_at=T0 + MS)
DAY = timedelta(days=1)


def successor(phase: Phase = Phase.ACTIVE, **changes: Any) -> Record:
    made = serving(phase, spec=spec(id=DeploymentId("qwen-2")), replaces=OLD.id, ready_at=T0)
    return replace(made, **changes)


def case(**changes: Any) -> Case:
    usual = Case(
        record=OLD,
        successor=None,
        tried=False,
        elsewhere=False,
        model=model_policy(),
        lifetime=7 * DAY,
        cold_start=None,
        now=T0,
    )
    return replace(usual, **changes)


ASKED = replace(OLD, restart_asked_at=T0)
CHANGED = replace(OLD, fingerprint="f0")


@pytest.mark.parametrize(
    ("record", "decision"),
    [(ASKED, Begin(why=Why.ASKED)), (CHANGED, Begin(why=Why.CHANGED)), (OLD, Keep(until=T0 + 7 * DAY - 1020 * S))],
)
def test_what_serves_is_replaced_when_asked_or_changed_and_else_kept(record: Record, decision: object) -> None:
    assert replacement.decide(case(record=record)) == decision


@pytest.mark.parametrize("phase", [Phase.DECLARED, Phase.REQUESTED, Phase.UNCERTAIN, Phase.STOP_REQUIRED])
def test_what_does_not_serve_is_not_replaced(phase: Phase) -> None:
    assert replacement.decide(case(record=replace(ASKED, phase=phase))) == Keep()


@pytest.mark.parametrize(("early", "decision"), [(MS, Keep), (0 * S, Begin)])
@pytest.mark.parametrize(
    ("cold_start", "lifetime", "lead"),
    [(240 * S, 7 * DAY, 360 * S), (None, 7 * DAY, 1020 * S), (240 * S, 600 * S, 300 * S), (None, 30 * S, 15 * S)],
)
def test_a_successor_is_started_ahead_of_the_lifetime_s_end(
    early: timedelta, decision: type, cold_start: timedelta | None, lifetime: timedelta, lead: timedelta
) -> None:
    asked = case(cold_start=cold_start, lifetime=lifetime, now=T0 + lifetime - lead - early)
    assert isinstance(replacement.decide(asked), decision)


UNUSED = replace(OLD, last_byte_at=None)


@pytest.mark.parametrize(
    ("record", "replaced"),
    [
        (OLD, True),
        (UNUSED, False),
        (replace(OLD, last_byte_at=T0), False),
        (replace(OLD, proven_at=None, last_byte_at=T0 - S), False),
        (replace(OLD, proven_at=None, last_byte_at=T0 - S + MS), True),
        (replace(OLD, ready_at=None, proven_at=None), True),
    ],
    ids=["used", "unused", "only tried", "before it was ready", "untried and used", "ready unknown"],
)
def test_what_nobody_used_is_not_replaced_for_its_age(record: Record, replaced: bool) -> None:
    decision = replacement.decide(case(record=record, now=T0 + 7 * DAY))
    assert decision == (Begin(why=Why.AGE) if replaced else Keep())


def test_what_is_to_be_kept_warm_is_replaced_for_its_age_used_or_not() -> None:
    week = Window(days=frozenset(range(7)), begin_minute=0, end_minute=1440)
    warm = model_policy(schedule=Schedule(warm=(week,)))
    assert replacement.decide(case(record=UNUSED, model=warm, now=T0 + 7 * DAY)) == Begin(why=Why.AGE)


def test_what_has_no_begin_has_no_age_at_which_it_is_replaced() -> None:
    assert replacement.decide(case(record=replace(OLD, started_at=None), now=T0 + 30 * DAY)) == Keep()


def test_one_slot_of_a_model_is_replaced_at_a_time() -> None:
    assert replacement.decide(case(record=ASKED, elsewhere=True)) == Queue(why=Why.ASKED)
    assert isinstance(replacement.decide(case(elsewhere=True)), Keep)


@pytest.mark.parametrize("phase", [Phase.DECLARED, Phase.REQUESTED, Phase.UNCERTAIN])
def test_the_old_one_stays_while_its_successor_starts(phase: Phase) -> None:
    assert replacement.decide(case(record=ASKED, successor=successor(phase), now=T0 + DAY)) == Keep()


def test_a_successor_that_is_stopped_is_tried_anew() -> None:
    failed = successor(Phase.STOP_REQUIRED)
    assert replacement.decide(case(record=CHANGED, successor=failed)) == Begin(why=Why.CHANGED)


def test_the_old_one_goes_once_a_gateway_got_an_answer_from_its_successor() -> None:
    assert replacement.decide(case(record=ASKED, successor=successor(proven_at=T0), tried=True)) == Retire()


def test_the_old_one_stays_while_its_proven_successor_does_not_answer() -> None:
    silent = successor(proven_at=T0, unready_since=T0)
    assert replacement.decide(case(record=ASKED, successor=silent, now=T0 + DAY)) == Keep()


@pytest.mark.parametrize(
    ("after", "decision"), [(60 * S - MS, Keep(until=T0 + 60 * S)), (60 * S, Retire()), (60 * S + MS, Retire())]
)
def test_a_successor_that_nobody_tries_is_believed_after_a_minute(after: timedelta, decision: object) -> None:
    assert replacement.decide(case(record=ASKED, successor=successor(), now=T0 + after)) == decision


@pytest.mark.parametrize(
    ("after", "decision"),
    [(900 * S - MS, Keep(until=T0 + 900 * S)), (900 * S, GiveUp(reason=StopReason.STARTUP_DEADLINE))],
)
def test_a_successor_that_is_tried_in_vain_is_given_up_at_the_startup_deadline(
    after: timedelta, decision: object
) -> None:
    assert replacement.decide(case(record=ASKED, successor=successor(), tried=True, now=T0 + after)) == decision


def test_of_two_successors_the_one_that_is_not_stopped_counts() -> None:
    stopped, living = successor(Phase.STOP_REQUIRED), successor(spec=spec(id=DeploymentId("qwen-3")))
    assert replacement.successor_of(OLD, [OLD, stopped, living]) is living
    assert replacement.successor_of(OLD, [OLD, stopped]) is stopped
    assert replacement.successor_of(living, [OLD, stopped, living]) is None


def test_a_replacement_is_under_way_while_both_live() -> None:
    assert replacement.pairs([OLD, successor()]) == [(OLD, successor())]
    assert replacement.pairs([successor()]) == []
