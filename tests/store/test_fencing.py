"""Under which lease may a call leave, and what stands for it while nothing can be written?"""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from controller.core.deployment import Record
from controller.core.errors import Refusal, RefusalCode
from controller.core.evidence import StopReason
from controller.core.identity import DeploymentId, ObligationId
from controller.core.lease import release
from controller.core.obligation import Obligation
from controller.store import duties, owing
from controller.store.errors import Stale, StoreUnwritable
from controller.store.fencing import fence_call, fence_stop
from controller.store.store import Store
from tests.core.samples import hosting_policy, key, resource
from tests.store.samples import HOLDER, accept, opened
from tests.support.clocks import HandClock
from tests.support.stores import unwritable

NAME = DeploymentId("qwen-1")
NEXT = "c-2"


async def owed(store: Store) -> Obligation:
    """A stop that the run before this one was to send."""
    await store.write(accept)
    await owing.oblige(store, store.book.records[NAME], StopReason.IDLE)
    return store.book.owed()[0]


async def begun_unwritten(store: Store) -> None:
    await store.take_over(lambda tx: tx.line("daemon.started"))
    assert not store.taken_over


def refusal(fenced: Callable[..., None], store: Store, subject: Record | Obligation, holder: str) -> RefusalCode | None:
    try:
        fenced(store, subject, holder=holder)
    except Refusal as refused:
        return refused.code
    return None


@pytest.mark.parametrize("lapsed", [False, True])
async def test_a_run_that_could_not_tell_that_it_began_stops_under_the_leases_on_record(
    tmp_path: Path, lapsed: bool
) -> None:
    clock = HandClock()
    async with opened(tmp_path, clock) as store:
        duty = await owed(store)
        with unwritable(tmp_path):
            clock.move(timedelta(hours=1 if lapsed else 0))
            await begun_unwritten(store)
            fence_call(store, duty, holder=NEXT)
            fence_stop(store, duty, holder=NEXT)


async def test_such_a_run_creates_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        await owed(store)
        with unwritable(tmp_path):
            await begun_unwritten(store)
            with pytest.raises(Refusal) as caught:
                fence_call(store, store.book.records[NAME], holder=NEXT)
    assert caught.value.code is RefusalCode.LEASE_LOST


async def test_once_it_is_told_only_its_own_leases_count(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        duty = await owed(store)
        with unwritable(tmp_path):
            await begun_unwritten(store)
        await store.write(lambda tx: None)
        assert store.taken_over
        for fenced in (fence_call, fence_stop):
            with pytest.raises(Refusal) as caught:
                fenced(store, duty, holder=NEXT)
            assert caught.value.code is RefusalCode.LEASE_LOST
            fenced(store, duty, holder=HOLDER)


async def test_nothing_leaves_without_the_lock_on_the_file(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        duty = await owed(store)
        with unwritable(tmp_path):
            await begun_unwritten(store)
            (tmp_path / "store.db.lock").unlink()
            for fenced in (fence_call, fence_stop):
                with pytest.raises(Stale, match="lock"):
                    fenced(store, duty, holder=NEXT)


async def test_a_stop_that_is_not_owed_does_not_leave_unmarked(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        await store.write(accept)
        (duty,) = store.book.obligations.values()
        with unwritable(tmp_path):
            await begun_unwritten(store)
            with pytest.raises(Refusal) as caught:
                fence_stop(store, duty, holder=NEXT)
    assert caught.value.code is RefusalCode.WRONG_PHASE


async def test_a_run_is_told_before_anything_that_comes_of_it(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        await owed(store)
        before = store.book.seq_latest
        with unwritable(tmp_path):
            await begun_unwritten(store)
            with pytest.raises(StoreUnwritable):
                await store.write(lambda tx: tx.line("clock.jumped"))
        told: list[str] = []
        await store.write(lambda tx: told.append(str(tx.book.seq_latest - before)))
        assert (told, store.taken_over, store.book.seq_latest) == (["1"], True, before + 1)


async def test_where_nothing_is_owed_a_run_does_not_begin_unwritten(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        with unwritable(tmp_path), pytest.raises(StoreUnwritable):
            await store.take_over(lambda tx: tx.line("daemon.started"))
        assert store.taken_over


@pytest.mark.parametrize("full_after_s", [300, 300.001])
async def test_a_lease_of_ours_that_cannot_be_renewed_counts_on_for_stops(tmp_path: Path, full_after_s: float) -> None:
    """Also one that ran out in a pause, before anybody could know that nothing can be written."""
    clock = HandClock()
    async with opened(tmp_path, clock) as store:
        duty = await owed(store)
        record = store.book.records[NAME]
        clock.move(timedelta(seconds=full_after_s))
        store.unwritable_since = store.now
        clock.move(timedelta(hours=1))
        for fenced in (fence_call, fence_stop):
            assert refusal(fenced, store, duty, HOLDER) is None
            assert refusal(fenced, store, duty, NEXT) is RefusalCode.LEASE_LOST
        assert refusal(fence_call, store, record, HOLDER) is RefusalCode.LEASE_LOST


async def test_a_lease_that_was_given_back_counts_for_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        duty = await owed(store)
        await store.write(lambda tx: tx.put_lease(release(tx.book.leases[NAME])))
        for since in (None, store.now):
            store.unwritable_since = since
            for fenced in (fence_call, fence_stop):
                assert refusal(fenced, store, duty, HOLDER) is RefusalCode.LEASE_LOST


async def test_a_lease_of_a_newer_epoch_refuses_what_was_decided_under_the_older_one(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        duty = await owed(store)
        record = store.book.records[NAME]
        await store.write(lambda tx: tx.put_lease(replace(tx.book.leases[NAME], epoch=record.epoch + 1)))
        assert refusal(fence_call, store, record, HOLDER) is RefusalCode.STALE_EPOCH
        assert refusal(fence_stop, store, duty, HOLDER) is RefusalCode.STALE_EPOCH


async def test_what_no_deployment_holds_is_stopped_under_a_lease_of_its_own(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        orphan, reason = resource(key=key("p9")), StopReason.ORPHAN
        duty = await store.write(
            lambda tx: duties.open_stray(tx, orphan, reason, holder=HOLDER, policy=hosting_policy())
        )
        for fenced in (fence_call, fence_stop):
            assert refusal(fenced, store, duty, HOLDER) is None
            assert refusal(fenced, store, duty, NEXT) is RefusalCode.LEASE_LOST
        assert refusal(fence_stop, store, replace(duty, epoch=duty.epoch - 1), HOLDER) is RefusalCode.STALE_EPOCH
        store.unwritable_since = store.now
        lost = replace(duty, id=ObligationId("o-none"))
        for fenced in (fence_call, fence_stop):
            assert refusal(fenced, store, lost, HOLDER) is RefusalCode.LEASE_LOST
