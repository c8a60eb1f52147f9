"""Is a stop marked before it leaves, its answer kept, and a stray owed on the books?"""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path

import pytest

from controller.core.errors import Refusal, RefusalCode
from controller.core.evidence import EvidenceKind, StopReason
from controller.core.identity import Tags
from controller.core.lifecycle import Phase
from controller.core.obligation import Ending, Obligation, StopAnswer
from controller.core.orphans import Sighting, Whose
from controller.core.spend import Hold
from controller.store import deployments, duties
from controller.store.errors import Stale
from controller.store.ledger import BudgetExhausted
from controller.store.store import Store
from controller.store.transaction import Tx
from tests.core.samples import OURS, key, resource
from tests.store.samples import HOLDER, POLICY, accept, declare, evidence_events, lose, opened, proof, submit
from tests.support.clocks import NOON, HandClock

S = timedelta(seconds=1)
SENT = partial(
    duties.open_stray, resource=resource(key=key("p7")), reason=StopReason.ORPHAN, holder=HOLDER, policy=POLICY
)


async def owing(store: Store, reason: StopReason = StopReason.IDLE) -> Obligation:
    record = await store.write(accept)
    await store.write(lambda tx: deployments.require_stop(tx, record, reason))
    (owed,) = store.book.owed()
    return owed


async def refusal(store: Store, work: Callable[[Tx], object]) -> RefusalCode:
    with pytest.raises(Refusal) as refused:
        await store.write(work)
    return refused.value.code


async def test_a_stop_is_marked_before_it_leaves_and_then_answered(tmp_path: Path) -> None:
    clock = HandClock()
    async with opened(tmp_path, clock) as store:
        owed = await owing(store)
        marked = await store.write(lambda tx: duties.mark_stop(tx, owed.id, holder=HOLDER))
        assert (marked.stop_attempts, marked.stop_submitted_at, marked.stop_in_flight) == (1, NOON, True)
        clock.move(S)
        answered = await store.write(
            lambda tx: duties.record_stop_answer(tx, owed.id, StopAnswer.ACCEPTED, detail="terminated-p1")
        )
        assert (answered.stop_in_flight, answered.stop_ended_at) == (False, NOON + S)
        assert (answered.stop_answer, answered.stop_reference) == (StopAnswer.ACCEPTED, "terminated-p1")
        assert answered.open


async def test_a_refusal_is_no_reference(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        owed = await owing(store)
        wait = NOON + 60 * S
        answered = await store.write(
            lambda tx: duties.record_stop_answer(tx, owed.id, StopAnswer.REFUSED, detail="409", not_before=wait)
        )
        assert (answered.stop_reference, answered.stop_not_before) == (None, wait)


async def test_no_stop_leaves_without_the_lease(tmp_path: Path) -> None:
    clock = HandClock()
    async with opened(tmp_path, clock) as store:
        owed = await owing(store)
        theirs = partial(duties.mark_stop, obligation=owed.id, holder="daemon-2")
        ours = partial(duties.mark_stop, obligation=owed.id, holder=HOLDER)
        assert await refusal(store, theirs) is RefusalCode.LEASE_LOST
        clock.move(POLICY.lease + timedelta(milliseconds=1))
        assert await refusal(store, ours) is RefusalCode.LEASE_LOST


async def test_no_stop_leaves_for_what_is_owned_elsewhere_or_has_no_key_or_is_not_wanted(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        owed = await owing(store, StopReason.OWNERSHIP_LOST)
        await store.write(lambda tx: lose(tx, "q2", slot=1))
        await store.write(lambda tx: accept(tx, "q3", "p3", slot=2))
        codes = {
            duty.id: await refusal(store, partial(duties.mark_stop, obligation=duty.id, holder=HOLDER))
            for duty in store.book.obligations.values()
        }
        assert list(codes.values()) == [
            RefusalCode.FOREIGN_RESOURCE,
            RefusalCode.AMBIGUOUS_MUTATION,
            RefusalCode.WRONG_PHASE,
        ]
        assert codes[owed.id] is RefusalCode.FOREIGN_RESOURCE


async def test_the_first_sighting_is_kept(tmp_path: Path) -> None:
    clock = HandClock()
    async with opened(tmp_path, clock) as store:
        owed = await owing(store)
        for _ in range(2):
            await store.write(lambda tx: duties.note_seen(tx, owed.id))
            clock.move(S)
        assert store.book.obligations[owed.id].seen_at == NOON


@pytest.mark.parametrize(("forced", "reference"), [(False, "ticket 7"), (True, "ticket 7 (forced against a sighting)")])
async def test_a_confirmation_from_outside_ends_the_duty_and_says_if_it_was_forced(
    tmp_path: Path, forced: bool, reference: str
) -> None:
    async with opened(tmp_path, HandClock()) as store:
        record = await store.write(accept)
        (duty,) = store.book.duties(record.id)
        ended = await store.write(lambda tx: duties.confirm(tx, duty.id, reference="ticket 7", forced=forced))
        assert ended.evidence is not None
        assert (ended.evidence.kind, ended.evidence.reference) == (EvidenceKind.EXTERNAL_CONFIRMATION, reference)
        assert store.book.records[record.id].phase is Phase.STOPPED


# Strays


async def test_a_stray_is_owed_on_the_books_before_its_stop_leaves(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        duty = await store.write(SENT)
        assert store.book.owed() == (duty,)
        assert (duty.key, duty.deployment, duty.due_at, duty.seen_at) == (key("p7"), None, NOON, NOON)
        marked = await store.write(lambda tx: duties.mark_stop(tx, duty.id, holder=HOLDER))
        assert marked.stop_attempts == 1
        events = await store.write(evidence_events)
    assert events == ["ledger.reserved", "orphan.found", "obligation.opened", "obligation.due", "stop.submitted"]


async def test_a_stray_is_on_the_day_s_books_until_its_end_is_proven(tmp_path: Path) -> None:
    clock = HandClock()
    async with opened(tmp_path, clock) as store:
        made = resource(key=key("p7"), created_at=NOON - 3600 * S)
        duty = await store.write(partial(SENT, resource=made))
        (held,) = store.book.reservations.values()
        assert (held.deployment, held.hold, held.exposure_micros) == (
            duties.lease_name(duty),
            Hold.STOP_REQUIRED,
            12 * 790_000,
        )
        clock.move(3600 * S)
        await store.write(lambda tx: deployments.discharge(tx, duty.id, proof("listing 9")))
        (settled,) = store.book.reservations.values()
        assert (settled.hold, settled.settled_micros, settled.evidence_reference) == (
            Hold.SETTLED,
            2 * 790_000,
            "listing 9",
        )


async def test_no_limit_keeps_a_stray_off_the_books_and_it_counts_against_every_start(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        dear = resource(key=key("p7"), usd_per_hour=Decimal(1000))
        await store.write(partial(SENT, resource=dear))
        assert len(store.book.owed()) == 1
        with pytest.raises(BudgetExhausted):
            await store.write(lambda tx: declare(tx, ceiling="0.000001"))


async def test_a_stray_of_unknown_price_holds_nothing_and_is_on_the_books(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        duty = await store.write(partial(SENT, resource=resource(key=key("p7"), usd_per_hour=None)))
        (held,) = store.book.reservations.values()
        assert (held.deployment, held.exposure_micros, held.open) == (duties.lease_name(duty), 0, True)


async def test_a_stray_is_fenced_above_the_epoch_that_it_carries(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        tags = replace(OURS, epoch=500)
        duty = await store.write(partial(SENT, resource=resource(key=key("p7"), tags=tags)))
        assert (duty.epoch, store.book.epoch_latest) == (501, 501)
        assert (
            await refusal(store, partial(duties.mark_stop, obligation=duty.id, holder="d2")) is RefusalCode.LEASE_LOST
        )


async def test_what_a_record_or_a_duty_holds_is_no_stray(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        await store.write(accept)
        for held in (resource(key=key("p1")), resource(key=key("p7"))):
            if held.key == key("p7"):
                await store.write(SENT)
            with pytest.raises(Stale):
                await store.write(partial(SENT, resource=held))
        assert store.unwritable_since is None


async def test_nothing_of_another_owner_is_ever_owed(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        foreign = resource(key=key("p7"), tags=Tags(owner="other"))
        assert await refusal(store, partial(SENT, resource=foreign)) is RefusalCode.FOREIGN_RESOURCE


async def test_a_stray_s_end_gives_its_lease_back(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        duty = await store.write(SENT)
        ended = await store.write(lambda tx: duties.confirm(tx, duty.id, reference="x", forced=False))
        assert ended.ending is Ending.DISCHARGED
        assert store.book.leases[duties.lease_name(duty)].expires_at is None


async def test_what_reappeared_is_owed_again_on_the_same_key(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        first = await store.write(SENT)
        await store.write(lambda tx: duties.confirm(tx, first.id, reference="x", forced=False))
        again = await store.write(partial(SENT, reason=StopReason.REAPPEARED))
        assert (again.key, again.reason, store.book.owed()) == (first.key, StopReason.REAPPEARED, (again,))
        assert (await store.write(evidence_events)).count("resource.reappeared") == 1


async def test_first_sightings_survive_a_restart_and_are_told_once(tmp_path: Path) -> None:
    foreign = Sighting(key=key("p8"), whose=Whose.FOREIGN, installation=None, first_at=NOON, last_at=NOON, times=1)
    async with opened(tmp_path, HandClock()) as store:
        await store.write(lambda tx: duties.sight(tx, foreign))
        await store.write(lambda tx: duties.sight(tx, replace(foreign, times=2)))
    async with opened(tmp_path, HandClock()) as store:
        assert store.book.sightings == {key("p8"): replace(foreign, times=2)}
        assert await store.write(evidence_events) == ["foreign.seen"]


# An operator's stop


async def test_an_operator_s_stop_cancels_what_was_never_sent(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        record = (await store.write(declare)).record
        reason = StopReason.OPERATOR_REQUEST
        after = await store.write(
            lambda tx: duties.require_stop_of(tx, record, reason, now_at_once=False, policy=POLICY)
        )
        assert after.phase is Phase.CANCELLED


async def asked(store: Store, *, at_once: bool) -> object:
    (record,) = store.book.records.values()
    reason = StopReason.OPERATOR_REQUEST
    after = await store.write(lambda tx: duties.require_stop_of(tx, record, reason, now_at_once=at_once, policy=POLICY))
    assert after.phase is Phase.STOP_REQUIRED
    return after.drain_until


@pytest.mark.parametrize(("at_once", "drain_until"), [(True, None), (False, NOON + POLICY.drain_limit)])
async def test_an_operator_s_stop_drains_what_serves_unless_it_is_wanted_at_once(
    tmp_path: Path, at_once: bool, drain_until: object
) -> None:
    async with opened(tmp_path, HandClock()) as store:
        record = await store.write(accept)
        await store.write(lambda tx: deployments.record_ready(tx, record))
        assert await asked(store, at_once=at_once) == drain_until


async def test_an_operator_s_stop_of_what_never_served_waits_for_nobody(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        await store.write(accept)
        assert await asked(store, at_once=False) is None


async def test_an_operator_s_second_stop_cuts_a_running_drain_only_if_it_says_so(tmp_path: Path) -> None:
    clock = HandClock()
    async with opened(tmp_path, clock) as store:
        record = await store.write(accept)
        await store.write(lambda tx: deployments.record_ready(tx, record))
        first = await asked(store, at_once=False)
        clock.move(S)
        drains = [first, await asked(store, at_once=False), await asked(store, at_once=True)]
        assert drains == [NOON + POLICY.drain_limit, NOON + POLICY.drain_limit, None]


async def test_a_stop_asked_for_during_the_create_is_owed_as_soon_as_its_answer_comes(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        create = await store.write(submit)
        record = store.book.records[create.deployment]
        reason = StopReason.OPERATOR_REQUEST
        await store.write(lambda tx: duties.require_stop_of(tx, record, reason, now_at_once=True, policy=POLICY))
        assert store.book.records[record.id].phase is Phase.DECLARED
        after = await store.write(lambda tx: deployments.record_unknown(tx, create, detail="timed out"))
        assert after.phase is Phase.STOP_REQUIRED
        assert [owed.reason for owed in store.book.owed()] != []
