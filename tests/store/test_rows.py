"""Does every value come back from its row as it went in, unknown as unknown?"""

from dataclasses import fields, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.book import Alarm, Failure, ModelMemory
from controller.core.crash_loop import Starts
from controller.core.deployment import Create, CreateAnswer, ProviderState, ProvisionedDeployment
from controller.core.evidence import Evidence, EvidenceKind, StopReason
from controller.core.identity import ResourceKey
from controller.core.lease import Lease
from controller.core.lifecycle import Phase
from controller.core.obligation import Ending, Obligation, StopAnswer
from controller.core.orphans import Sighting, Whose
from controller.core.spend import Hold, Reservation
from controller.core.topology import Topology
from controller.store import rows
from controller.store.codec import key_from_text, key_to_text
from tests.core.samples import DEPLOYMENT, REQUEST, T0, create, duty, key, record

PROOF = Evidence(kind=EvidenceKind.PROVIDER_TERMINATED, reference='read of "p1"', observed_at=T0)
SEEN = ProvisionedDeployment(
    key=key(), state=ProviderState.RUNNING, ready=True, endpoint="https://x/", served_model="m", observed_at=T0
)
LATER = T0 + timedelta(milliseconds=7)
FULL_STARTS = Starts(
    latest=T0,
    restarts=(T0,),
    server=LATER,
    server_within=T0,
    server_alone=True,
    cause="out-of-memory",
    topology=Topology(ranks=2, nodes=1, ways=("P2P", "SHM")),
)
FULL_RECORD = record(
    Phase.STOPPED,
    key=key(),
    started_at=LATER,
    reason=StopReason.IDLE,
    stop_required_at=LATER,
    drain_until=LATER,
    ready_at=LATER,
    unready_since=LATER,
    last_byte_at=LATER,
    ended_at=LATER,
    evidence=PROOF,
    usd_per_hour=Decimal("0.790001"),
    offer="L40S",
    observed=SEEN,
    version=3,
)
FULL_DUTY = duty(
    key=key(),
    create_ended_at=LATER,
    seen_at=LATER,
    due_at=LATER,
    reason=StopReason.ORPHAN,
    stop_attempts=4,
    stop_submitted_at=LATER,
    stop_ended_at=LATER,
    stop_answer=StopAnswer.NOT_FOUND,
    stop_reference="x",
    stop_not_before=LATER,
    ended_at=LATER,
    ending=Ending.DISCHARGED,
    evidence=PROOF,
    version=9,
)
FULL_CREATE = create(submitting_at=T0, ended_at=LATER, answer=CreateAnswer.ACCEPTED, key=key(), detail="ok")


def unset(value: Any) -> Any:
    """The same with everything unknown that may be."""
    optional = [field.name for field in fields(value) if "None" in str(field.type)]
    return replace(value, **dict.fromkeys(optional))


@pytest.mark.parametrize("held", [FULL_RECORD, unset(FULL_RECORD), record()])
def test_a_record_survives_its_row(held: Any) -> None:
    assert rows.record_from_row(rows.record_to_row(held)) == held


@pytest.mark.parametrize("owed", [FULL_DUTY, unset(FULL_DUTY), duty()])
def test_an_obligation_survives_its_row(owed: Obligation) -> None:
    assert rows.obligation_from_row(rows.obligation_to_row(owed)) == owed


@pytest.mark.parametrize("sent", [FULL_CREATE, unset(FULL_CREATE)])
def test_a_create_survives_its_row(sent: Create) -> None:
    assert rows.create_from_row(rows.create_to_row(sent)) == sent


@pytest.mark.parametrize("expires_at", [None, T0])
def test_a_lease_survives_its_row(expires_at: Any) -> None:
    held = Lease(deployment=DEPLOYMENT, holder="d", epoch=2**53, expires_at=expires_at)
    assert rows.lease_from_row(rows.lease_to_row(held)) == held


def test_a_memory_survives_its_row() -> None:
    memory = ModelMemory(
        model="qwen",
        failures=2,
        hold_reason="crash-loop",
        hold_until=T0,
        hold_fingerprint="f",
        rounds=1,
        next_round_at=T0,
        round_detail="none",
        cold_start=timedelta(milliseconds=1),
        failure=Failure(deployment=DEPLOYMENT, reason="crash-loop", at=T0, seq=7),
        starts=(T0, LATER),
        expected_until=LATER,
    )
    for remembered in (memory, ModelMemory(model="qwen")):
        assert rows.memory_from_row(rows.memory_to_row(remembered)) == remembered


@pytest.mark.parametrize("starts", [Starts(), Starts(latest=T0, restarts=(T0, LATER)), FULL_STARTS])
def test_container_starts_survive_their_row(starts: Starts) -> None:
    assert rows.starts_from_row(rows.starts_to_row(DEPLOYMENT, starts)) == (DEPLOYMENT, starts)


@pytest.mark.parametrize("created_at", [None, T0])
@pytest.mark.parametrize("whose", Whose)
def test_a_sighting_survives_its_row(whose: Whose, created_at: Any) -> None:
    sighting = Sighting(
        key=key(), whose=whose, installation=None, first_at=T0, last_at=LATER, times=2, created_at=created_at
    )
    assert rows.sighting_from_row(rows.sighting_to_row(sighting)) == sighting


@pytest.mark.parametrize("hold", Hold)
@pytest.mark.parametrize("settled", [None, 0, 5])
def test_a_reservation_survives_its_row_and_unsettled_is_not_zero(hold: Hold, settled: int | None) -> None:
    held = Reservation(
        id="a",
        deployment=DEPLOYMENT,
        day="2026-03-01",
        hold=hold,
        ceiling_micros_per_hour=2**62 - 1,
        reserved_micros=0,
        opened_at=T0,
        settled_micros=settled,
    )
    assert rows.reservation_from_row(rows.reservation_to_row(held)) == held


def test_an_alarm_survives_its_row() -> None:
    alarm = Alarm(name="a", subject="b", since=T0, detail="c")
    assert rows.alarm_from_row(rows.alarm_to_row(alarm)) == alarm


names = st.text(alphabet=st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=20)
keys = st.builds(ResourceKey, provider=names, account=names, name=names, incarnation=names)


@given(keys, keys)
def test_the_database_tells_two_keys_apart_exactly_when_they_differ(one: ResourceKey, other: ResourceKey) -> None:
    assert key_from_text(key_to_text(one)) == one
    assert (key_to_text(one) == key_to_text(other)) == (one == other)


@given(st.integers(0, 4 * 10**12))
def test_an_instant_in_milliseconds_survives_its_row(ms: int) -> None:
    held = create(submitting_at=T0.fromtimestamp(0, T0.tzinfo) + timedelta(milliseconds=ms), request=REQUEST)
    assert rows.create_from_row(rows.create_to_row(held)) == held
