"""Is each step of a deployment's life written down whole: record, create, duty, money and lines together?"""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from controller.core.deployment import CreateAnswer, ProvisionedDeployment, SeenResource
from controller.core.errors import Refusal, RefusalCode
from controller.core.evidence import EvidenceKind, StopReason
from controller.core.identity import RequestId, Tags
from controller.core.lifecycle import Phase
from controller.core.obligation import Ending
from controller.core.spend import Hold
from controller.store import deployments, duties
from controller.store.errors import Stale
from controller.store.store import Store
from controller.store.transaction import Tx
from tests.core.samples import key, resource
from tests.store.samples import HOLDER, POLICY, accept, declare, evidence_events, lose, made, opened, proof, submit
from tests.support.clocks import NOON, HandClock

S = timedelta(seconds=1)


async def refusal(store: Store, work: Callable[[Tx], object]) -> RefusalCode:
    with pytest.raises(Refusal) as refused:
        await store.write(work)
    return refused.value.code


async def test_a_declaration_is_whole_before_anything_can_exist(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        planned = await store.write(declare)
        book, (lease,) = store.book, store.book.leases.values()
        (held,) = book.reservations.values()
        assert book.records == {planned.record.id: planned.record}
        assert book.creates == {planned.create.request: planned.create}
        assert book.obligations == {planned.duty.id: planned.duty}
        assert (lease.epoch, lease.holder, lease.expires_at) == (planned.record.epoch, HOLDER, NOON + POLICY.lease)
        assert (held.hold, planned.duty.request, planned.duty.due_at) == (Hold.RESERVED, planned.create.request, None)
        events = await store.write(evidence_events)
    assert events == ["ledger.reserved", "deployment.declared", "obligation.opened"]


async def test_a_marked_create_takes_no_second_mark(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        create = await store.write(submit)
        assert create.submitting_at == NOON
        code = await refusal(store, lambda tx: deployments.mark_submitting(tx, create.request, holder=HOLDER))
    assert code is RefusalCode.WRONG_PHASE


async def test_a_create_whose_duty_is_void_is_never_sent(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        create = await store.write(submit)
        await store.write(lambda tx: deployments.record_refused(tx, create, CreateAnswer.REJECTED, detail="no stock"))
        with pytest.raises(Stale):
            await store.write(lambda tx: deployments.mark_submitting(tx, create.request, holder=HOLDER))


async def test_no_create_leaves_under_another_holder_s_or_an_expired_lease(tmp_path: Path) -> None:
    clock = HandClock()
    async with opened(tmp_path, clock) as store:
        request = (await store.write(declare)).create.request
        theirs = partial(deployments.mark_submitting, request=request, holder="daemon-2")
        ours = partial(deployments.mark_submitting, request=request, holder=HOLDER)
        assert await refusal(store, theirs) is RefusalCode.LEASE_LOST
        clock.move(POLICY.lease + timedelta(milliseconds=1))
        assert await refusal(store, ours) is RefusalCode.LEASE_LOST


async def test_an_accepted_create_gives_its_duty_the_exact_key_and_begins_the_spending(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        record = await store.write(accept)
        (duty,), (held,) = store.book.duties(record.id), store.book.reservations.values()
        assert (record.phase, record.key, record.started_at) == (Phase.REQUESTED, key("p1"), NOON)
        assert (duty.key, duty.create_ended_at, duty.due_at) == (key("p1"), NOON, None)
        assert (held.hold, held.begun_at) == (Hold.STARTED, NOON)
        assert store.book.memory("qwen").starts == (NOON,)


async def test_what_was_not_ordered_is_owed_a_stop_at_once_and_was_a_failed_start(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        create = await store.write(submit)
        await store.write(
            lambda tx: deployments.record_accepted(tx, create, made(tx, create.request), mismatch="2 volumes")
        )
        (duty,) = store.book.owed()
        assert (duty.key, duty.reason) == (key("p1"), StopReason.WRONG_RESOURCE)
        assert store.book.memory("qwen").failures == 1


async def test_an_answer_that_describes_another_owner_s_resource_is_lost_without_a_key(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        create = await store.write(submit)
        foreign = resource(tags=Tags(owner="other", installation="x"))
        record = await store.write(lambda tx: deployments.record_accepted(tx, create, foreign))
        (duty,) = store.book.duties(record.id)
        assert (record.phase, record.reason, record.key) == (Phase.UNCERTAIN, StopReason.OWNERSHIP_LOST, None)
        assert (duty.key, duty.create_ended_at) == (None, NOON)


async def test_an_answer_that_names_a_resource_held_already_is_lost(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        await store.write(accept)
        create = await store.write(lambda tx: submit(tx, "qwen-2", slot=1))
        record = await store.write(lambda tx: deployments.record_accepted(tx, create, made(tx, create.request, "p1")))
        assert (record.phase, record.key) == (Phase.UNCERTAIN, None)


async def test_a_lost_answer_keeps_its_duty_open_and_its_money_held(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        record = await store.write(lose)
        (duty,), (held,) = store.book.duties(record.id), store.book.reservations.values()
        assert (record.phase, record.reason) == (Phase.UNCERTAIN, StopReason.AMBIGUOUS_MUTATION)
        assert (duty.open, duty.key, duty.create_ended_at) == (True, None, NOON)
        assert (held.hold, held.exposure_micros) == (Hold.UNCERTAIN, held.reserved_micros)


async def test_a_lost_create_takes_no_other(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        record = await store.write(lose)
        planned = await store.write(lambda tx: deployments.plan(tx, record, offer="A40"))
        code = await refusal(store, lambda tx: deployments.mark_submitting(tx, planned.create.request, holder=HOLDER))
    assert code is RefusalCode.WRONG_PHASE


async def test_a_certain_refusal_voids_that_create_s_duty_and_the_next_offer_may_be_asked_for(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        create = await store.write(submit)
        record = await store.write(
            lambda tx: deployments.record_refused(tx, create, CreateAnswer.REJECTED, detail="no stock")
        )
        assert (record.phase, store.book.duties(record.id)) == (Phase.DECLARED, ())
        planned = await store.write(lambda tx: deployments.plan(tx, record, offer="A40"))
        await store.write(lambda tx: deployments.mark_submitting(tx, planned.create.request, holder=HOLDER))
        assert store.book.duties(record.id) == (planned.duty,)


async def test_an_answer_is_taken_once(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        create = await store.write(submit)
        await store.write(lambda tx: deployments.record_unknown(tx, create, detail="timed out"))
        with pytest.raises(Stale):
            await store.write(lambda tx: deployments.record_refused(tx, create, CreateAnswer.REJECTED, detail="late"))
        assert [duty.open for duty in store.book.obligations.values()] == [True]


async def test_nothing_is_cancelled_while_a_create_may_have_made_something(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        create = await store.write(submit)
        code = await refusal(store, lambda tx: deployments.cancel(tx, tx.record(create.deployment)))
        assert code is RefusalCode.WRONG_PHASE


async def test_a_cancelled_start_holds_no_money_no_lease_and_no_duty(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        planned = await store.write(declare)
        record = await store.write(lambda tx: deployments.cancel(tx, planned.record))
        (held,), (lease,) = store.book.reservations.values(), store.book.leases.values()
        (duty,) = store.book.obligations.values() or (None,)
        assert (record.phase, held.exposure_micros, lease.expires_at) == (Phase.CANCELLED, 0, None)
        assert duty is not None
        assert duty.ending is Ending.VOID


# Adoption


async def test_what_a_lost_create_made_is_adopted_not_repeated(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        record = await store.write(lose)
        (duty,) = store.book.duties(record.id)
        assert duty.request is not None
        seen = made_later(store, duty.request)
        adopted = await store.write(lambda tx: deployments.adopt(tx, record, seen, wanted=True))
        (duty,) = store.book.duties(record.id)
        assert (adopted.phase, adopted.key, adopted.reason) == (Phase.REQUESTED, key("p1"), None)
        assert (duty.key, duty.seen_at, duty.due_at) == (key("p1"), NOON, None)


def made_later(store: Store, request: RequestId, incarnation: str = "p1") -> SeenResource:
    owner = store.book.owner
    tags = Tags(owner=owner.name, installation=owner.installation, epoch=1, request=request)
    return resource(key=key(incarnation), tags=tags)


async def test_what_is_not_wanted_any_more_is_adopted_and_owed_a_stop(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        record = await store.write(lose)
        (duty,) = store.book.duties(record.id)
        assert duty.request is not None
        seen = made_later(store, duty.request)
        await store.write(lambda tx: deployments.adopt(tx, record, seen, wanted=False))
        (owed,) = store.book.owed()
        assert (owed.id, owed.key) == (duty.id, key("p1"))


async def test_what_is_owed_already_is_not_adopted(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        record = await store.write(lose)
        (duty,) = store.book.duties(record.id)
        assert duty.request is not None
        stray = resource(key=key("p1"), tags=Tags())
        await store.write(lambda tx: duties.open_stray(tx, stray, StopReason.ORPHAN, holder=HOLDER, policy=POLICY))
        seen = made_later(store, duty.request)
        with pytest.raises(Stale):
            await store.write(lambda tx: deployments.adopt(tx, record, seen, wanted=True))
        assert store.unwritable_since is None


# Life


@pytest.mark.parametrize("took", [200 * S, None])
async def test_a_measured_cold_start_is_kept(tmp_path: Path, took: timedelta | None) -> None:
    clock = HandClock()
    async with opened(tmp_path, clock) as store:
        record = await store.write(accept)
        clock.move(200 * S)
        active = await store.write(lambda tx: deployments.record_ready(tx, record, took=took))
        assert (active.phase, active.ready_at) == (Phase.ACTIVE, NOON + 200 * S)
        assert store.book.memory("qwen").cold_start == took


async def test_the_last_byte_moves_forward_only_and_only_while_it_serves(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        record = await store.write(accept)
        await store.write(lambda tx: deployments.record_last_byte(tx, record.id, at=NOON + S))
        assert store.book.records[record.id].last_byte_at is None
        await store.write(lambda tx: deployments.record_ready(tx, record))
        for at in (5, 3):
            await store.write(lambda tx, at=at: deployments.record_last_byte(tx, record.id, at=NOON + at * S))  # type: ignore[misc]
        assert store.book.records[record.id].last_byte_at == NOON + 5 * S


@pytest.mark.parametrize("ready", [None, False, True])
async def test_unknown_no_and_yes_stay_three_things_in_the_file(tmp_path: Path, ready: bool | None) -> None:
    async with opened(tmp_path, HandClock()) as store:
        record = await store.write(accept)
        seen = ProvisionedDeployment.observed(
            resource(endpoint="https://p1/v1/", state=None), ready=ready, served_model=None, observed_at=NOON
        )
        await store.write(lambda tx: deployments.record_observed(tx, record, seen))
    async with opened(tmp_path, HandClock()) as store:
        observed = store.book.records[record.id].observed
        assert observed == seen
        assert observed is not None
        assert observed.ready is ready


async def test_a_required_stop_makes_the_duty_due_once(tmp_path: Path) -> None:
    clock = HandClock()
    async with opened(tmp_path, clock) as store:
        record = await store.write(accept)
        await store.write(lambda tx: deployments.require_stop(tx, record, StopReason.IDLE))
        clock.move(S)
        await store.write(lambda tx: deployments.require_stop(tx, tx.record(record.id), StopReason.SPEND))
        (owed,) = store.book.owed()
        events = await store.write(evidence_events)
        assert (owed.due_at, owed.reason, events.count("obligation.due")) == (NOON, StopReason.IDLE, 1)
        assert store.book.memory("qwen").failures == 0


async def test_a_failed_start_is_counted_once_however_often_its_stop_is_required(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        record = await store.write(accept)
        for _ in range(2):
            await store.write(lambda tx: deployments.require_stop(tx, tx.record(record.id), StopReason.CRASH_LOOP))
        assert store.book.memory("qwen").failures == 1


async def test_a_proof_ends_duty_deployment_and_spending_together_under_one_reference(tmp_path: Path) -> None:
    clock = HandClock()
    async with opened(tmp_path, clock) as store:
        record = await store.write(accept)
        await store.write(lambda tx: deployments.require_stop(tx, record, StopReason.IDLE))
        (duty,) = store.book.owed()
        await store.write(lambda tx: tx.raise_alarm("stop-unproven", subject=duty.id, detail="x"))
        clock.move(3600 * S)
        await store.write(lambda tx: deployments.discharge(tx, duty.id, proof("listing 42")))
        ended, (held,) = store.book.records[record.id], store.book.reservations.values()
        assert (ended.phase, ended.evidence, ended.ended_at) == (Phase.STOPPED, proof("listing 42"), NOON + 3600 * S)
        assert (held.hold, held.evidence_reference, held.settled_micros) == (Hold.SETTLED, "listing 42", 790_000)
        assert (store.book.owed(), store.book.alarms) == ((), {})
        assert store.book.settled == {key("p1"): NOON + 3600 * S}


async def test_an_ended_duty_ends_no_second_time(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        record = await store.write(accept)
        (duty,) = store.book.duties(record.id)
        await store.write(lambda tx: deployments.discharge(tx, duty.id, proof("one")))
        with pytest.raises(Stale):
            await store.write(lambda tx: deployments.discharge(tx, duty.id, proof("two")))


async def test_in_a_doubtful_account_nothing_is_created_and_absence_ends_nothing(tmp_path: Path) -> None:
    """RP-43, also where the doubt came after the decision."""
    async with opened(tmp_path, HandClock()) as store:
        record = await store.write(accept)
        (duty,) = store.book.duties(record.id)
        planned = await store.write(lambda tx: declare(tx, "qwen-2", slot=1))
        await store.write(lambda tx: tx.put_account(replace(tx.book.account, trusted=False)))
        with pytest.raises(Stale, match="doubt"):
            await store.write(partial(deployments.discharge, obligation=duty.id, evidence=proof("listing 7")))
        with pytest.raises(Stale, match="doubt"):
            await store.write(
                lambda tx: deployments.mark_submitting(tx, planned.create.request, holder=HOLDER),
            )
        said = replace(proof("read"), kind=EvidenceKind.PROVIDER_TERMINATED)
        ended = await store.write(partial(deployments.discharge, obligation=duty.id, evidence=said))
    assert ended.ending is Ending.DISCHARGED


async def test_a_handed_over_resource_is_no_end_that_could_reappear(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        record = await store.write(accept)
        (duty,) = store.book.duties(record.id)
        await store.write(lambda tx: tx.raise_alarm("stop-unproven", subject=duty.id, detail="x"))
        await store.write(lambda tx: deployments.hand_over(tx, record, epoch=9))
        assert store.book.records[record.id].phase is Phase.DISOWNED
        assert (store.book.settled, store.book.owed(), store.book.alarms) == ({}, (), {})
    async with opened(tmp_path, HandClock()) as store:
        assert (store.book.settled, store.book.duties(record.id)) == ({}, ())


async def test_each_create_has_a_request_id_of_its_own(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        policy = replace(POLICY, max_active=64)
        for number in range(20):
            await store.write(lambda tx, n=number: declare(tx, f"q{n}", slot=n, ceiling="0.1", policy=policy))  # type: ignore[misc]
        assert len(store.book.creates) == 20
