"""Is an old copy noticed by what others carry, and is all that it forgot matched once, and nothing else?"""

from dataclasses import replace

from controller.core.identity import DeploymentId, RequestId
from controller.core.lifecycle import Phase
from controller.core.restoration import RAISED_BY
from controller.store.adopting import Adopter
from controller.store.restoring import Older, take_up
from controller.store.stream_leases import StreamLease
from controller.tasks.orphan_sweeper import OrphanSweeper
from controller.tasks.restore_matcher import RestoreMatcher
from tests.tasks.world import Bench, on_bench


def matcher(bench: Bench, recalled: dict[RequestId, DeploymentId] | None = None) -> RestoreMatcher:
    adopter = Adopter(models={"qwen": bench.model}, holder=bench.holder, policy=bench.policy)
    return RestoreMatcher(
        store=bench.store,
        view=bench.view,
        stream_leases=bench.leases,
        clock=bench.clock,
        adopter=adopter,
        recalled=recalled or {},
    )


async def passed(bench: Bench, task: RestoreMatcher, *, after_s: float = 0) -> None:
    await bench.move(after_s)
    await bench.look()
    await task.run_pass()


@on_bench
async def test_an_orphan_of_an_epoch_that_was_granted_is_no_sign_of_an_old_copy(bench: Bench) -> None:
    bench.stray()
    await passed(bench, matcher(bench))
    assert bench.store.book.matching_since is None


@on_bench
async def test_a_resource_with_an_epoch_that_was_never_granted_raises_epochs_above_it(bench: Bench) -> None:
    bench.stray(tags=bench.tags("rlost", epoch=70))
    await passed(bench, matcher(bench))
    assert bench.store.book.matching_since is not None
    assert bench.store.book.epoch_latest > RAISED_BY
    assert bench.alarms("store-restored") == ["store"]


@on_bench
async def test_the_next_grant_is_above_a_listed_epoch_before_any_task_has_looked(bench: Bench) -> None:
    bench.stray(tags=bench.tags("rlost", epoch=70))
    await bench.look()
    assert await bench.store.write(lambda tx: tx.next_epoch()) > 70 + RAISED_BY


@on_bench
async def test_a_gateway_that_holds_what_was_never_given_is_a_sign(bench: Bench) -> None:
    lease = StreamLease(deployment=DeploymentId("qwen-lost"), epoch=9, open_requests=1, last_byte_at=bench.clock.now())
    bench.leases.put_strange("g1", [lease], now=bench.clock.now())
    await matcher(bench).run_pass()
    assert bench.store.book.matching_since is not None


@on_bench
async def test_what_was_forgotten_is_adopted_under_its_name_and_never_swept(bench: Bench) -> None:
    await bench.store.write(lambda tx: take_up(tx, Older(why="told")))
    seen = bench.stray(tags=bench.tags("rlost", epoch=3), alias="qwen")
    task = matcher(bench, {RequestId("rlost"): DeploymentId("qwen-lost")})
    await passed(bench, task)
    (record,) = bench.store.book.live()
    assert (record.id, record.key, record.phase) == ("qwen-lost", seen.key, Phase.REQUESTED)
    await passed(bench, task, after_s=120)
    assert bench.store.book.matching_since is None
    assert bench.alarms("store-restored") == []


@on_bench
async def test_while_matching_the_sweeper_leaves_what_waits_for_an_occupant(bench: Bench) -> None:
    await bench.serve()
    await bench.store.write(lambda tx: take_up(tx, Older(why="told")))
    bench.stray("second", tags=bench.tags("rlost", epoch=3), alias="qwen")
    task = matcher(bench)
    sweeper = OrphanSweeper(
        store=bench.store, view=bench.view, policy=bench.policy, models={"qwen": bench.model}, holder=bench.holder
    )
    for _ in range(3):
        await passed(bench, task, after_s=30)
        await sweeper.run_pass()
    assert [duty for duty in bench.store.book.obligations.values() if duty.deployment is None] == []


@on_bench
async def test_what_no_model_wants_is_owed_a_stop(bench: Bench) -> None:
    await bench.store.write(lambda tx: take_up(tx, Older(why="told")))
    seen = bench.stray(tags=replace(bench.tags("rlost"), epoch=3), alias="removed")
    await passed(bench, matcher(bench))
    assert [duty.key for duty in bench.store.book.owed()] == [seen.key]
