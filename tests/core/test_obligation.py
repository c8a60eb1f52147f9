"""Does a duty end by sufficient proof only, and is its stop asked for until then?"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.deployment import ProviderState
from controller.core.evidence import EvidenceKind
from controller.core.inventory import Absence, NotFound, Present, Read, Unreadable
from controller.core.obligation import Discharge, KeepOpen, Obligation, Sight, StopAnswer, settle
from tests.core.samples import MS, T0, S, duty, key, resource

SETTLE = timedelta(seconds=120)
CREATED = T0
STOPPED = T0 + 600 * S
"""When the stop's answer came."""


def gone(began_at: datetime) -> NotFound:
    return NotFound(reference="GET p1: 404", began_at=began_at)


def absent(*began_at: datetime) -> Absence:
    return Absence(first=began_at[0], previous=began_at[-2] if len(began_at) > 1 else None, last=began_at[-1])


def ends(owed: Obligation, sight: Sight, *, accepted_suffices: bool = False) -> EvidenceKind | None:
    verdict = settle(owed, sight, settle_after=SETTLE, accepted_suffices=accepted_suffices)
    if isinstance(verdict, KeepOpen):
        assert verdict.waiting_for
        return None
    return verdict.evidence.kind


ABSENT = EvidenceKind.INVENTORY_COMPLETE_ABSENT
KNOWN = duty(key=key(), create_ended_at=CREATED, seen_at=T0 + 30 * S)
ASKED = replace(KNOWN, due_at=T0, stop_submitted_at=STOPPED - S, stop_ended_at=STOPPED, stop_answer=StopAnswer.ACCEPTED)
PROOF = Sight(read=gone(STOPPED + MS), absence=absent(STOPPED + MS))


# After a stop


def test_a_listing_and_a_read_begun_after_the_stop_s_answer_are_proof() -> None:
    verdict = settle(ASKED, PROOF, settle_after=SETTLE, accepted_suffices=False)
    assert isinstance(verdict, Discharge)
    assert verdict.evidence.kind is ABSENT
    assert verdict.evidence.observed_at == STOPPED + MS
    assert "GET p1: 404" in verdict.evidence.reference


@pytest.mark.parametrize("answer", [StopAnswer.ACCEPTED, StopAnswer.NOT_FOUND, StopAnswer.REFUSED, StopAnswer.UNKNOWN])
def test_no_answer_to_a_stop_proves_anything_by_itself(answer: StopAnswer) -> None:
    assert ends(replace(ASKED, stop_answer=answer, stop_reference="t-1"), Sight()) is None


def test_a_listing_begun_before_the_stop_s_answer_proves_nothing() -> None:
    assert ends(ASKED, replace(PROOF, absence=absent(STOPPED))) is None


def test_a_read_begun_before_the_stop_s_answer_proves_nothing() -> None:
    assert ends(ASKED, replace(PROOF, read=gone(STOPPED))) is None


def test_a_listing_without_a_read_proves_nothing() -> None:
    assert ends(ASKED, replace(PROOF, read=None)) is None
    assert ends(ASKED, replace(PROOF, read=Unreadable(problem="500", at=STOPPED + S))) is None


def test_a_read_without_a_listing_proves_nothing() -> None:
    assert ends(ASKED, replace(PROOF, absence=None)) is None


@pytest.mark.parametrize("state", [None, ProviderState.PENDING, ProviderState.RUNNING])
def test_a_read_that_shows_it_in_any_living_state_keeps_the_duty(state: ProviderState | None) -> None:
    shown = Present(resource=resource(state=state), observed_at=STOPPED + S)
    assert ends(ASKED, replace(PROOF, read=shown)) is None


def test_absence_older_than_the_latest_sighting_proves_nothing() -> None:
    assert ends(ASKED, replace(PROOF, seen_at=STOPPED + MS)) is None
    assert ends(ASKED, replace(PROOF, seen_at=STOPPED)) is ABSENT


def test_absence_in_a_doubtful_account_proves_nothing() -> None:
    assert ends(ASKED, replace(PROOF, account_trusted=False)) is None


def test_while_the_next_stop_is_in_flight_the_answer_of_the_former_one_does_not_count() -> None:
    in_flight = replace(ASKED, stop_submitted_at=STOPPED + S, stop_ended_at=None, stop_answer=None)
    assert ends(in_flight, replace(PROOF, read=gone(STOPPED + 2 * S), absence=absent(STOPPED + 2 * S))) is None


# A word of the provider


def test_a_read_that_says_terminated_is_proof_even_in_a_doubtful_account() -> None:
    over = Present(resource=resource(state=ProviderState.TERMINATED), observed_at=STOPPED + S)
    verdict = settle(KNOWN, Sight(read=over, account_trusted=False), settle_after=SETTLE, accepted_suffices=False)
    assert isinstance(verdict, Discharge)
    assert (verdict.evidence.kind, verdict.evidence.observed_at) == (EvidenceKind.PROVIDER_TERMINATED, STOPPED + S)


REFERRED = replace(ASKED, stop_reference="runpod-terminated-p1")


def test_an_accepted_stop_with_a_reference_suffices_where_the_policy_says_so() -> None:
    assert ends(REFERRED, Sight(), accepted_suffices=True) is EvidenceKind.STOP_ACCEPTED
    assert ends(REFERRED, Sight(), accepted_suffices=False) is None


@pytest.mark.parametrize(
    "lacking",
    [
        {"stop_reference": None},
        {"stop_reference": ""},
        {"stop_answer": StopAnswer.UNKNOWN},
        {"stop_answer": StopAnswer.REFUSED},
        {"stop_answer": StopAnswer.NOT_FOUND},
        {"stop_answer": None, "stop_ended_at": None},
        {"stop_ended_at": None},
    ],
)
def test_even_there_nothing_less_than_acceptance_with_a_reference_suffices(lacking: dict[str, Any]) -> None:
    assert ends(replace(REFERRED, **lacking), Sight(), accepted_suffices=True) is None


# Vanished without a stop


@pytest.mark.parametrize(("apart", "kind"), [(120 * S - MS, None), (120 * S, ABSENT)])
def test_what_vanished_needs_complete_listings_the_settle_time_apart(
    apart: timedelta, kind: EvidenceKind | None
) -> None:
    first = T0 + 300 * S
    sight = Sight(read=gone(first), absence=absent(first, first + apart))
    assert ends(KNOWN, sight) is kind


def test_one_listing_without_it_proves_nothing_however_late() -> None:
    at = T0 + timedelta(days=1)
    assert ends(KNOWN, Sight(read=gone(at), absence=absent(at))) is None


def test_a_read_from_before_the_absence_began_proves_nothing() -> None:
    first = T0 + 300 * S
    series = absent(first, first + SETTLE)
    assert ends(KNOWN, Sight(read=gone(first - MS), absence=series)) is None
    assert ends(KNOWN, Sight(read=gone(first), absence=series)) is ABSENT


# Young (RP-45)


@pytest.mark.parametrize(("after", "kind"), [(120 * S - MS, None), (120 * S, ABSENT)])
def test_one_never_seen_since_its_create_is_absent_only_after_the_settle_time(
    after: timedelta, kind: EvidenceKind | None
) -> None:
    young = replace(ASKED, seen_at=None, stop_ended_at=CREATED + S)
    at = CREATED + after
    assert ends(young, Sight(read=gone(at), absence=absent(at))) is kind


def test_one_seen_since_its_create_need_not_wait() -> None:
    young = replace(ASKED, seen_at=CREATED + S, stop_ended_at=CREATED + 2 * S)
    at = CREATED + 3 * S
    assert ends(young, Sight(read=gone(at), absence=absent(at))) is ABSENT


# Lost create: no key


LOST = duty(create_ended_at=CREATED)


@pytest.mark.parametrize(("last", "kind"), [(120 * S - MS, None), (120 * S, ABSENT)])
def test_a_lost_create_is_settled_by_absence_up_to_the_settle_time_after_the_call(
    last: timedelta, kind: EvidenceKind | None
) -> None:
    assert ends(LOST, Sight(absence=absent(CREATED + MS, CREATED + last))) is kind


@pytest.mark.parametrize(("previous", "kind"), [(timedelta(0), None), (MS, ABSENT)])
def test_both_of_its_listings_must_begin_after_the_call_ended(previous: timedelta, kind: EvidenceKind | None) -> None:
    assert ends(LOST, Sight(absence=absent(CREATED + previous, CREATED + SETTLE))) is kind


def test_a_lost_create_needs_two_listings() -> None:
    assert ends(LOST, Sight(absence=absent(CREATED + SETTLE))) is None
    assert ends(LOST, Sight()) is None


def test_a_create_in_flight_is_never_settled() -> None:
    assert ends(duty(), Sight(absence=absent(T0 + SETTLE, T0 + 2 * SETTLE))) is None


def test_a_lost_create_in_a_doubtful_account_stays_open() -> None:
    sight = Sight(absence=absent(CREATED + MS, CREATED + SETTLE), account_trusted=False)
    assert ends(LOST, sight) is None


def test_without_a_key_neither_a_read_nor_an_acceptance_ends_the_duty() -> None:
    over = Present(resource=resource(state=ProviderState.TERMINATED), observed_at=STOPPED)
    told = replace(LOST, stop_answer=StopAnswer.ACCEPTED, stop_reference="x", stop_ended_at=STOPPED)
    assert ends(told, Sight(read=over), accepted_suffices=True) is None


# Whatever is seen

moments = st.integers(-10, 2_000).map(lambda s: T0 + s * S)
some_reads: st.SearchStrategy[Read | None] = st.one_of(
    st.none(),
    moments.map(gone),
    moments.map(lambda at: Unreadable(problem="x", at=at)),
    st.builds(
        lambda at, state: Present(resource=resource(state=state), observed_at=at),
        moments,
        st.sampled_from([None, ProviderState.PENDING, ProviderState.RUNNING]),
    ),
)
series = st.lists(moments, min_size=1, max_size=3, unique=True).map(sorted).map(lambda began: absent(*began))
sights = st.builds(
    Sight,
    read=some_reads,
    absence=st.none() | series,
    seen_at=st.none() | moments,
    account_trusted=st.booleans(),
)
duties = st.builds(
    replace,
    st.sampled_from([LOST, KNOWN, ASKED, replace(KNOWN, seen_at=None), duty()]),
    create_ended_at=st.none() | moments,
)


@given(duties, sights)
def test_nothing_ends_by_absence_without_trust_or_with_a_newer_sighting(owed: Obligation, sight: Sight) -> None:
    if ends(owed, sight) is not None:
        assert sight.account_trusted
        assert sight.absence is not None
        if owed.key is not None:
            assert isinstance(sight.read, NotFound)
            assert sight.seen_at is None or sight.seen_at < sight.absence.last


@given(duties, sights)
def test_evidence_is_dated_when_it_was_seen(owed: Obligation, sight: Sight) -> None:
    verdict = settle(owed, sight, settle_after=SETTLE, accepted_suffices=False)
    if isinstance(verdict, Discharge):
        assert sight.absence is not None
        assert verdict.evidence.observed_at == sight.absence.last
