"""Which slots are filled again, and which are left empty?"""

from dataclasses import replace
from typing import Any

import pytest

from controller.core import slots
from controller.core.deployment import Record
from controller.core.evidence import StopReason
from controller.core.identity import DeploymentId
from controller.core.lifecycle import Phase
from tests.core.samples import T0, S, record, spec


def in_slot(number: int, phase: Phase = Phase.ACTIVE, **changes: Any) -> Record:
    return record(phase, slot=number, spec=spec(id=DeploymentId(f"qwen-{number}")), **changes)


def ended(number: int, reason: StopReason | None, *, after: float = 0) -> Record:
    return in_slot(number, Phase.STOPPED, reason=reason, ended_at=T0 + after * S)


def test_who_asks_wants_every_empty_slot() -> None:
    assert slots.to_fill(3, [in_slot(1)], [], asked=True) == [0, 2]
    assert slots.to_fill(2, [], [], asked=True) == [0, 1]


def test_without_anybody_who_asks_and_anything_that_serves_nothing_is_wanted() -> None:
    assert slots.to_fill(2, [], [ended(0, StopReason.POD_EXITED)], asked=False) == []


@pytest.mark.parametrize("reason", list(StopReason))
def test_a_slot_that_was_lost_is_filled_while_another_serves_and_one_that_was_let_go_is_not(reason: StopReason) -> None:
    let_go = {StopReason.IDLE, StopReason.OPERATOR_REQUEST, StopReason.SPEND}
    assert slots.to_fill(2, [in_slot(0)], [ended(1, reason)], asked=False) == ([] if reason in let_go else [1])


@pytest.mark.parametrize("past", [[], [ended(1, None)]])
def test_a_slot_that_never_came_to_be_is_filled_while_another_serves(past: list[Record]) -> None:
    assert slots.to_fill(2, [in_slot(0)], past, asked=False) == [1]


@pytest.mark.parametrize(
    ("other", "wanted"),
    [
        (in_slot(0, Phase.DECLARED), []),
        (in_slot(0, Phase.REQUESTED), []),
        (in_slot(0, Phase.UNCERTAIN), []),
        (in_slot(0, Phase.STOP_REQUIRED), []),
        (in_slot(0, unready_since=T0), []),
        (in_slot(0), [1]),
    ],
)
def test_only_what_serves_keeps_a_model_s_other_slots_wanted(other: Record, wanted: list[int]) -> None:
    assert slots.to_fill(2, [other], [ended(1, StopReason.CRASH_LOOP)], asked=False) == wanted


@pytest.mark.parametrize("phase", [Phase.DECLARED, Phase.REQUESTED, Phase.UNCERTAIN, Phase.STOP_REQUIRED])
def test_a_slot_that_holds_anything_alive_is_not_empty(phase: Phase) -> None:
    assert slots.to_fill(2, [in_slot(0), in_slot(1, phase)], [], asked=True) == []


@pytest.mark.parametrize("order", [1, -1])
def test_the_latest_end_of_a_slot_counts(order: int) -> None:
    past = [ended(1, StopReason.IDLE, after=1), ended(1, StopReason.POD_EXITED, after=2)][::order]
    assert slots.to_fill(2, [in_slot(0)], past, asked=False) == [1]
    past = [ended(1, StopReason.IDLE, after=3), ended(1, StopReason.POD_EXITED, after=2)][::order]
    assert slots.to_fill(2, [in_slot(0)], past, asked=False) == []


@pytest.mark.parametrize("order", [1, -1])
def test_each_slot_of_each_model_has_its_last_end_and_of_two_at_one_instant_always_the_same(order: int) -> None:
    one, other = ended(1, StopReason.IDLE), ended(1, StopReason.POD_EXITED)
    other = replace(other, spec=spec(id=DeploymentId("qwen-2")))
    elsewhere = replace(one, spec=spec(id=DeploymentId("gemma-1"), model="gemma"))
    found = slots.latest_ends([one, other, elsewhere, ended(0, None), in_slot(2)][::order])
    assert found == {("qwen", 1): other, ("gemma", 1): elsewhere, ("qwen", 0): ended(0, None)}


def test_a_model_is_filled_when_each_slot_holds_something_that_is_not_stopped() -> None:
    assert slots.filled(2, [in_slot(0), in_slot(1, Phase.REQUESTED)])
    assert not slots.filled(2, [in_slot(0), in_slot(1, Phase.STOP_REQUIRED)])
    assert slots.filled(1, [in_slot(0, Phase.STOP_REQUIRED), replace(in_slot(0), replaces=DeploymentId("qwen-0"))])
