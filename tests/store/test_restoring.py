"""Does a restart keep every duty, forget liveness, and act only under new epochs?"""

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from controller.core.deployment import CreateAnswer, ProvisionedDeployment
from controller.core.errors import Refusal, RefusalCode
from controller.core.evidence import StopReason
from controller.core.lifecycle import Phase
from controller.core.obligation import Ending, StopAnswer
from controller.core.spend import Hold
from controller.store import deployments, duties, restoring
from controller.store.store import Store
from tests.core.samples import key, resource
from tests.store.samples import HOLDER, POLICY, accept, declare, lose, opened, submit
from tests.support.clocks import NOON, HandClock
from tests.support.stores import open_store

S = timedelta(seconds=1)
LATER = NOON + 100 * S


async def restart(folder: Path) -> Store:
    """Open what another process left, and take it over. The caller closes it."""
    store = await open_store(folder, HandClock(LATER))
    await store.write(lambda tx: restoring.restore(tx, policy=POLICY, holder=HOLDER))
    return store


async def test_a_create_caught_before_its_mark_is_cancelled_and_its_duty_void(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        planned = await store.write(declare)
    store = await restart(tmp_path)
    record, (held,) = store.book.records[planned.record.id], store.book.reservations.values()
    duty = store.book.obligations[planned.duty.id]
    await store.close()
    assert (record.phase, duty.ending, held.hold) == (Phase.CANCELLED, Ending.VOID, Hold.CANCELLED)


async def test_a_create_caught_after_its_mark_is_uncertain_and_over_only_now(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        create = await store.write(submit)
    store = await restart(tmp_path)
    record, (duty,) = store.book.records[create.deployment], store.book.duties(create.deployment)
    answered = store.book.creates[create.request]
    await store.close()
    assert (record.phase, record.reason, record.started_at) == (
        Phase.UNCERTAIN,
        StopReason.AMBIGUOUS_MUTATION,
        NOON,
    )
    assert (duty.open, duty.create_ended_at) == (True, LATER)
    assert (answered.answer, answered.ended_at) == (CreateAnswer.UNKNOWN, LATER)


async def test_a_stop_that_was_in_flight_has_an_unknown_answer(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        record = await store.write(accept)
        await store.write(lambda tx: deployments.require_stop(tx, record, StopReason.IDLE))
        (owed,) = store.book.owed()
        await store.write(lambda tx: duties.mark_stop(tx, owed.id, holder=HOLDER))
    store = await restart(tmp_path)
    (after,) = store.book.owed()
    await store.close()
    assert (after.stop_in_flight, after.stop_answer, after.stop_ended_at) == (False, StopAnswer.UNKNOWN, LATER)
    assert (after.stop_attempts, after.due_at, after.reason) == (1, NOON, StopReason.IDLE)


async def test_what_was_ready_before_the_restart_is_of_unknown_readiness_after_it(tmp_path: Path) -> None:
    seen = ProvisionedDeployment.observed(
        resource(endpoint="https://p1/v1/"), ready=True, served_model="m", observed_at=NOON
    )
    async with opened(tmp_path, HandClock()) as store:
        record = await store.write(accept)
        record = await store.write(lambda tx: deployments.record_observed(tx, record, seen))
        await store.write(lambda tx: deployments.record_ready(tx, record))
        await store.write(lambda tx: deployments.record_last_byte(tx, record.id, at=NOON + S))
    store = await restart(tmp_path)
    after = store.book.records[record.id]
    await store.close()
    assert (after.phase, after.key, after.observed) == (Phase.ACTIVE, key("p1"), None)
    assert (after.ready_at, after.last_byte_at) == (NOON, NOON + S)


async def test_every_epoch_is_raised_even_for_a_holder_of_the_same_name(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        await store.write(accept)
        await store.write(lambda tx: lose(tx, "q2", slot=1))
        stray = resource(key=key("p9"))
        await store.write(lambda tx: duties.open_stray(tx, stray, StopReason.ORPHAN, holder=HOLDER, policy=POLICY))
        before = store.book
    store = await restart(tmp_path)
    after = store.book
    await store.close()
    assert min(lease.epoch for lease in after.leases.values()) > before.epoch_latest
    granted = {lease.epoch for lease in after.leases.values()}
    carried = {record.epoch for record in after.records.values()} | {duty.epoch for duty in after.obligations.values()}
    assert carried == granted


async def test_after_a_restart_an_owed_stop_may_leave_at_once(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        record = await store.write(accept)
        await store.write(lambda tx: deployments.require_stop(tx, record, StopReason.IDLE))
        (owed,) = store.book.owed()
    store = await restart(tmp_path)
    marked = await store.write(lambda tx: duties.mark_stop(tx, owed.id, holder=HOLDER))
    await store.close()
    assert marked.stop_submitted_at == LATER


async def test_leases_that_live_are_not_taken_anew_without_a_restart(tmp_path: Path) -> None:
    clock = HandClock()
    async with opened(tmp_path, clock) as store:
        await store.write(accept)
        before = store.book.epoch_latest
        await store.write(lambda tx: restoring.take_leases(tx, policy=POLICY, holder=HOLDER))
        assert store.book.epoch_latest == before
        clock.move(POLICY.lease + timedelta(milliseconds=1))
        await store.write(lambda tx: restoring.take_leases(tx, policy=POLICY, holder=HOLDER))
        assert store.book.epoch_latest == before + 1


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("UPDATE deployments SET account = 'other'", RefusalCode.INVALID_SPEC),
        ("UPDATE deployments SET resource = replace(resource, 'main', 'other')", RefusalCode.FOREIGN_RESOURCE),
    ],
)
async def test_a_record_of_another_scope_is_refused(tmp_path: Path, statement: str, code: RefusalCode) -> None:
    async with opened(tmp_path, HandClock()) as store:
        await store.write(accept)
    with closing(sqlite3.connect(tmp_path / "store.db")) as other, other:
        other.execute(statement)
    async with opened(tmp_path, HandClock()) as store:
        with pytest.raises(Refusal) as refused:
            await store.write(lambda tx: restoring.restore(tx, policy=POLICY, holder=HOLDER))
    assert refused.value.code is code


async def test_a_second_restart_changes_nothing_but_the_epochs(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        await store.write(accept)
        await store.write(lambda tx: submit(tx, "q2", slot=1))
    first = await restart(tmp_path)
    phases = {name: record.phase for name, record in first.book.records.items()}
    seq = first.book.seq_latest
    await first.close()
    second = await restart(tmp_path)
    assert {name: record.phase for name, record in second.book.records.items()} == phases
    assert second.book.seq_latest == seq
    await second.close()
