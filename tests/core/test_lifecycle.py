"""Is every pair of phases either an edge of the table or refused?"""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.errors import Refusal, RefusalCode
from controller.core.lifecycle import ENDED, LIVE, OWING, SERVING, TRANSITIONS, Phase, advance

# Written from requirements, App. A, not from the code.
EDGES = frozenset(
    edge
    for line in """
    declared requested
    declared uncertain
    declared cancelled
    requested requested
    requested active
    requested stop-required
    requested stopped
    requested disowned
    active active
    active stop-required
    active stopped
    active disowned
    uncertain uncertain
    uncertain requested
    uncertain active
    uncertain stop-required
    uncertain stopped
    uncertain disowned
    stop-required stop-required
    stop-required stopped
    stop-required disowned
    """.strip().splitlines()
    for edge in [tuple(line.split())]
)
PAIRS = list(product(Phase, Phase))


def test_there_are_21_edges_and_43_refusals() -> None:
    assert (len(EDGES), len(PAIRS) - len(EDGES)) == (21, 43)


@pytest.mark.parametrize(("phase", "to"), [pair for pair in PAIRS if (pair[0].value, pair[1].value) in EDGES])
def test_an_edge_is_taken(phase: Phase, to: Phase) -> None:
    assert advance(phase, to) is to


@pytest.mark.parametrize(("phase", "to"), [pair for pair in PAIRS if (pair[0].value, pair[1].value) not in EDGES])
def test_any_other_pair_is_refused_as_a_wrong_phase(phase: Phase, to: Phase) -> None:
    with pytest.raises(Refusal) as refused:
        advance(phase, to)
    assert refused.value.code is RefusalCode.WRONG_PHASE


def test_every_phase_has_a_row() -> None:
    assert set(TRANSITIONS) == set(Phase)


@pytest.mark.parametrize("phase", Phase)
def test_an_end_is_reachable_from_everywhere(phase: Phase) -> None:
    reached = {phase}
    while more := {to for at in reached for to in TRANSITIONS[at]} - reached:
        reached |= more
    assert reached & {Phase.STOPPED, Phase.CANCELLED, Phase.DISOWNED}


@pytest.mark.parametrize("phase", [Phase.REQUESTED, Phase.ACTIVE, Phase.UNCERTAIN, Phase.STOP_REQUIRED])
@pytest.mark.parametrize("to", [Phase.STOP_REQUIRED, Phase.STOPPED, Phase.DISOWNED])
def test_whatever_occupies_a_slot_can_be_owed_proven_gone_and_handed_over(phase: Phase, to: Phase) -> None:
    assert advance(phase, to) is to


CAN = {
    Phase.DECLARED: {Phase.CANCELLED},
    Phase.REQUESTED: {Phase.STOP_REQUIRED, Phase.STOPPED},
    Phase.ACTIVE: {Phase.STOP_REQUIRED, Phase.STOPPED},
    Phase.UNCERTAIN: {Phase.STOP_REQUIRED, Phase.STOPPED},
    Phase.STOP_REQUIRED: {Phase.STOP_REQUIRED, Phase.STOPPED},
    Phase.STOPPED: set(),
    Phase.CANCELLED: set(),
    Phase.DISOWNED: set(),
}


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("to", [Phase.STOP_REQUIRED, Phase.STOPPED, Phase.CANCELLED])
def test_each_phase_allows_exactly_its_own_ends(phase: Phase, to: Phase) -> None:
    try:
        taken = advance(phase, to) is to
    except Refusal:
        taken = False
    assert taken is (to in CAN[phase])


def test_a_phase_is_live_or_ended_and_never_both() -> None:
    assert set(Phase) == LIVE | ENDED
    assert not LIVE & ENDED
    assert {Phase.UNCERTAIN, Phase.STOP_REQUIRED} == OWING
    assert {Phase.REQUESTED, Phase.ACTIVE} == SERVING


@given(st.sampled_from(Phase), st.lists(st.sampled_from(Phase), max_size=12))
def test_no_sequence_of_moves_leaves_an_end(phase: Phase, moves: list[Phase]) -> None:
    for to in moves:
        before = phase
        try:
            phase = advance(phase, to)
        except Refusal:
            continue
        assert before in LIVE


@given(st.lists(st.sampled_from(Phase), max_size=12))
def test_nothing_leads_back_from_stop_required_to_service(moves: list[Phase]) -> None:
    phase = Phase.STOP_REQUIRED
    for to in moves:
        try:
            phase = advance(phase, to)
        except Refusal:
            continue
    assert phase in {Phase.STOP_REQUIRED, Phase.STOPPED, Phase.DISOWNED}
