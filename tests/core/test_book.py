"""Does the book answer from what is open, and from nothing that ended?"""

from dataclasses import replace

import pytest

from controller.core.book import Book, ModelMemory, reasons_that_fail_a_start
from controller.core.crash_loop import Starts
from controller.core.deployment import Record
from controller.core.evidence import StopReason
from controller.core.evidence_chain import BEFORE_THE_FIRST
from controller.core.identity import DeploymentId, ObligationId, RequestId, Scope
from controller.core.lifecycle import Phase
from controller.core.obligation import Ending, Obligation
from tests.core.samples import DEPLOYMENT, OWNER, T0, S, create, duty, key, record, serving, spec

EMPTY = Book(owner=OWNER, scope=Scope(provider="runpod", account="main"))


def with_records(*records: Record) -> Book:
    return replace(EMPTY, records={held.id: held for held in records})


def with_duties(*duties: Obligation) -> Book:
    return replace(EMPTY, obligations={owed.id: owed for owed in duties})


def named(name: str, phase: Phase, *, model: str = "qwen", slot: int = 0, after: int = 0) -> Record:
    held = record(phase, spec=spec(id=DeploymentId(name), model=model), slot=slot)
    return replace(held, declared_at=T0 + after * S)


@pytest.mark.parametrize("phase", Phase)
def test_a_slot_is_occupied_until_an_end(phase: Phase) -> None:
    book = with_records(named("a", phase))
    occupied = phase not in {Phase.STOPPED, Phase.CANCELLED, Phase.DISOWNED}
    assert (book.occupant("qwen", 0) is not None) is occupied
    assert book.occupant("qwen", 1) is None
    assert book.occupant("other", 0) is None


def test_live_deployments_come_in_order_of_declaration() -> None:
    book = with_records(
        named("c", Phase.ACTIVE, after=1), named("b", Phase.ACTIVE), named("a", Phase.ACTIVE), named("z", Phase.STOPPED)
    )
    assert [held.id for held in book.live()] == ["a", "b", "c"]
    assert book.live("other") == ()


def test_owed_are_the_open_duties_that_are_due_oldest_first() -> None:
    late = duty(id=ObligationId("o1"), due_at=T0 + S)
    early = duty(id=ObligationId("o2"), due_at=T0)
    not_due = duty(id=ObligationId("o3"))
    over = duty(id=ObligationId("o4"), due_at=T0, ended_at=T0, ending=Ending.TRANSFERRED)
    assert with_duties(late, early, not_due, over).owed() == (early, late)


def test_a_deployment_s_duties_are_its_open_ones() -> None:
    over = duty(id=ObligationId("o2"), ended_at=T0, ending=Ending.VOID)
    stray = duty(id=ObligationId("o3"), deployment=None)
    assert with_duties(duty(), over, stray).duties(DEPLOYMENT) == (duty(),)


def test_keys_are_held_by_live_records_and_open_duties_only() -> None:
    live = replace(named("a", Phase.ACTIVE), key=key("p1"))
    ended = replace(named("b", Phase.STOPPED), key=key("p2"))
    stray = duty(id=ObligationId("o1"), deployment=None, key=key("p3"))
    over = duty(id=ObligationId("o2"), key=key("p4"), ended_at=T0, ending=Ending.DISCHARGED)
    book = replace(with_duties(stray, over, duty(id=ObligationId("o5"))), records=with_records(live, ended).records)
    assert book.held_keys() == {key("p1"), key("p3")}


def test_a_model_never_heard_of_has_an_empty_memory() -> None:
    assert EMPTY.memory("qwen") == ModelMemory(model="qwen")


def test_an_empty_book_is_at_the_begin_of_the_chain() -> None:
    assert (EMPTY.seq_latest, EMPTY.hash_latest) == (0, BEFORE_THE_FIRST)


def test_what_is_on_record_of_a_model_is_told() -> None:
    known = ModelMemory(model="qwen", failures=1)
    assert replace(EMPTY, memories={"qwen": known}).memory("qwen") == known


def test_live_deployments_are_told_by_age_and_of_one_model_where_asked() -> None:
    book = with_records(named("a", Phase.ACTIVE, after=9), named("b", Phase.ACTIVE, model="other", after=5))
    assert [held.id for held in book.live()] == ["b", "a"]
    assert [held.id for held in book.live("qwen")] == ["a"]
    assert [held.id for held in book.live("other")] == ["b"]


def test_stops_owed_since_the_same_instant_are_told_by_name() -> None:
    two, one = duty(id=ObligationId("o2"), due_at=T0), duty(id=ObligationId("o1"), due_at=T0)
    assert with_duties(two, one).owed() == (one, two)


def test_a_start_has_failed_for_exactly_these_reasons() -> None:
    assert reasons_that_fail_a_start() == {
        "crash-loop",
        "startup-deadline",
        "key-refused",
        "unprotected",
        "secret-unsubstituted",
        "served-model-mismatch",
        "pod-exited",
        "pod-error",
        "zero-gpu",
        "wrong-resource",
        "nccl-stall",
        "multi-card-stall",
    }


def with_restarts(*records: Record) -> Book:
    """Each restarted once, a second after it was declared."""
    starts = {held.id: Starts(restarts=(held.declared_at + S,)) for held in records}
    return replace(with_records(*records), starts=starts)


def test_deaths_before_a_machine_are_those_of_ended_ones_with_its_configuration_that_failed_no_start() -> None:
    this = named("this", Phase.ACTIVE, after=90)
    before = replace(named("before", Phase.STOPPED), reason=StopReason.IDLE)
    stopping = replace(named("stopping", Phase.STOP_REQUIRED, after=10), reason=StopReason.IDLE)
    others = (
        replace(named("of-another-model", Phase.STOPPED, model="other", after=20), reason=StopReason.IDLE),
        replace(named("of-another-config", Phase.STOPPED, after=30), reason=StopReason.IDLE, fingerprint="f2"),
        named("beside", Phase.ACTIVE, after=40),
        replace(named("paid-for", Phase.STOPPED, after=50), reason=StopReason.CRASH_LOOP),
    )
    book = with_restarts(before, stopping, *others, this)
    assert book.earlier_deaths(this) == (T0 + S, T0 + 11 * S)


def test_of_a_machine_whose_starts_nobody_saw_no_death_is_known() -> None:
    unseen = replace(named("unseen", Phase.STOPPED), reason=StopReason.IDLE)
    assert with_records(unseen).earlier_deaths(named("this", Phase.ACTIVE)) == ()


def test_what_was_ordered_is_the_offer_of_the_create_that_made_the_machine() -> None:
    held = serving()
    refused = create(request=RequestId("r1"), offer="A40")
    elsewhere = create(request=RequestId("r2"), offer="H100", deployment=DeploymentId("other"), key=held.key)
    made = create(request=RequestId("r3"), offer="L40S", key=held.key)
    creates = {each.request: each for each in (refused, elsewhere, made)}
    assert replace(EMPTY, creates=creates).ordered(held) == "L40S"
    assert replace(EMPTY, creates={refused.request: refused}).ordered(record()) is None
