"""Do we keep the right to act while we live, and take it anew where it ran out?"""

from dataclasses import replace
from datetime import timedelta
from functools import partial

import anyio
import pytest

from controller.core.evidence import StopReason
from controller.core.lease import Lease
from controller.core.lifecycle import Phase
from controller.core.policy import LeaseExpiry
from controller.providers.writing import CreateOutcome, Order
from controller.store import deployments, duties
from controller.store.errors import StoreTaken, StoreUnwritable
from controller.supervision import Pulse, Runner, Wake, keep_running
from controller.tasks.lease_keeper import LeaseKeeper
from tests.support.stores import unwritable
from tests.tasks.world import Bench, on_bench


def keeper(bench: Bench) -> LeaseKeeper:
    return LeaseKeeper(store=bench.store, policy=bench.policy, holder=bench.holder)


def lease(bench: Bench, name: str = "qwen-1") -> Lease:
    return bench.store.book.leases[bench.record(name).id]


def left_s(bench: Bench, name: str = "qwen-1") -> float:
    expires_at = lease(bench, name).expires_at
    assert expires_at is not None
    return (expires_at - bench.clock.now()).total_seconds()


@on_bench
async def test_a_lease_is_renewed_each_minute_under_the_same_epoch(bench: Bench) -> None:
    await bench.serve()
    epoch, task = lease(bench).epoch, keeper(bench)
    for _ in range(20):
        due = await task.run_pass()
        assert due == bench.clock.now() + timedelta(seconds=60)
        await bench.move(60)
        assert left_s(bench) >= 240
    assert lease(bench).epoch == epoch


@on_bench
async def test_a_run_that_could_not_be_told_is_told_though_nobody_else_has_anything_to_write(bench: Bench) -> None:
    await bench.serve()
    task = keeper(bench)
    await bench.move(1)
    with unwritable(bench.folder):
        await bench.store.take_over(lambda tx: tx.line("daemon.started"))
        with pytest.raises(StoreUnwritable):
            await task.run_pass()
        assert await bench.events("daemon.started") == []
    await task.run_pass()
    assert bench.store.taken_over
    assert len(await bench.events("daemon.started")) == 1


@on_bench
async def test_passes_in_between_write_nothing(bench: Bench) -> None:
    await bench.serve()
    task = keeper(bench)
    await bench.move(59)
    before = bench.store.book
    await task.run_pass()
    assert bench.store.book is before


@pytest.mark.parametrize(("age_s", "left"), [(59.499, 240.501), (59.5, 300)])
@on_bench
async def test_a_lease_is_renewed_from_half_a_second_before_its_minute_is_over(
    bench: Bench, age_s: float, left: float
) -> None:
    await bench.serve()
    await bench.move(age_s)
    await keeper(bench).run_pass()
    assert left_s(bench) == left


@on_bench
async def test_a_lease_that_another_holds_is_not_ours_to_renew(bench: Bench) -> None:
    await bench.serve()
    others = replace(lease(bench), holder="another")
    await bench.store.write(lambda tx: tx.put_lease(others))
    await bench.move(299)
    assert await keeper(bench).run_pass() is None
    assert lease(bench) == others


@on_bench
async def test_every_lease_is_renewed_a_stray_s_too(bench: Bench) -> None:
    await bench.serve()
    policy, holder = bench.policy, bench.holder
    stray = bench.stray()
    await bench.store.write(lambda tx: duties.open_stray(tx, stray, StopReason.ORPHAN, holder=holder, policy=policy))
    await bench.move(60)
    await keeper(bench).run_pass()
    assert {held.expires_at for held in bench.store.book.leases.values()} == {bench.clock.now() + bench.policy.lease}


@on_bench
async def test_what_was_given_back_is_not_renewed_beside_what_is_held(bench: Bench) -> None:
    await bench.serve()
    ended = await bench.plan("qwen-2", slot=1)
    await bench.store.write(lambda tx: deployments.cancel(tx, ended.record))
    before = lease(bench, "qwen-2")
    await bench.move(60)
    await keeper(bench).run_pass()
    assert (before.expires_at, lease(bench, "qwen-2")) == (None, before)
    assert left_s(bench) == 300


@pytest.mark.parametrize(("age_s", "raised"), [(300, False), (300.001, True)])
@on_bench
async def test_an_expired_lease_is_taken_anew_under_a_higher_epoch(bench: Bench, age_s: float, raised: bool) -> None:
    await bench.serve()
    before = lease(bench).epoch
    await bench.move(age_s)
    await keeper(bench).run_pass()
    assert (lease(bench).epoch > before, left_s(bench)) == (raised, 300)
    assert lease(bench).epoch == bench.record().epoch == bench.duty().epoch
    assert bench.record().phase is Phase.ACTIVE


@on_bench
async def test_an_epoch_never_repeats_however_often_leases_run_out(bench: Bench) -> None:
    await bench.serve()
    task, epochs = keeper(bench), [lease(bench).epoch]
    for _ in range(5):
        await bench.move(301)
        await task.run_pass()
        epochs.append(lease(bench).epoch)
    assert epochs == sorted(set(epochs))


@on_bench
async def test_the_policy_may_oblige_a_stop_where_a_lease_ran_out(bench: Bench) -> None:
    bench.policy = replace(bench.policy, lease_expiry=LeaseExpiry.STOP)
    await bench.serve()
    await bench.lose("qwen-2", slot=1)
    await bench.move(0.001)
    await bench.serve("qwen-3", slot=2)
    await bench.move(300)
    await keeper(bench).run_pass()
    assert bench.record("qwen-3").phase is Phase.ACTIVE  # its lease is live to this very instant
    assert (bench.record().phase, bench.record().reason) == (Phase.STOP_REQUIRED, StopReason.LEASE_EXPIRED)
    assert bench.record("qwen-2").phase is Phase.UNCERTAIN
    assert left_s(bench) == 300  # so that the stop may be sent


@on_bench
async def test_a_lease_that_was_given_back_stays_so(bench: Bench) -> None:
    planned = await bench.plan()
    await bench.store.write(
        lambda tx: duties.require_stop_of(
            tx, planned.record, StopReason.OPERATOR_REQUEST, now_at_once=True, policy=bench.policy
        )
    )
    before = bench.store.book
    assert await keeper(bench).run_pass() is None
    assert bench.store.book is before


@on_bench
async def test_leases_are_renewed_during_a_create_that_hangs(bench: Bench) -> None:
    class Hanging:
        idempotent = False
        stop = bench.provider.stop

        async def create(self, order: Order) -> CreateOutcome:
            await anyio.sleep_forever()
            raise AssertionError

    (await bench.executor(writing=Hanging())).start(await bench.submit(), bench.model)
    task = keeper(bench)
    runner = Runner(task=task, wake=Wake(), pulse=Pulse(name="x", period=task.period, last_pass_at=bench.clock.now()))
    bench.group.start_soon(partial(keep_running, runner, clock=bench.clock, failures_max=3))
    epoch = lease(bench).epoch
    await bench.move(3600)
    assert left_s(bench) >= 239
    assert lease(bench).epoch == epoch


@on_bench
async def test_a_daemon_without_anything_to_write_finds_out_in_ten_minutes_that_its_file_was_taken(
    bench: Bench,
) -> None:
    task = keeper(bench)
    await bench.taken_over()
    await bench.move(599)
    await task.run_pass()
    await bench.move(1)
    with pytest.raises(StoreTaken):
        await task.run_pass()
