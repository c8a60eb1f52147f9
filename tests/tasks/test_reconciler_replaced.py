"""Does what serves make way for its successor, and stay where there is none? Are slots filled again?"""

from contextlib import nullcontext
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from controller.core.deployment import Record
from controller.core.errors import Code
from controller.core.evidence import StopReason
from controller.core.identity import DeploymentId
from controller.core.lifecycle import Phase
from controller.core.readiness import Verdict
from controller.core.replacement import UNTRIED_FOR
from controller.providers.fake.adapter import Made
from controller.store import duties, replacing
from controller.tasks.reconciler import Reconciler
from tests.support.stores import unwritable
from tests.tasks.reconciling import asked, creates, passed, reconciler
from tests.tasks.world import Bench, on_bench

OLD = DeploymentId("qwen-1")


async def restart(bench: Bench) -> list[DeploymentId]:
    return await bench.store.write(
        lambda tx: replacing.ask_restart(tx, [record.id for record in bench.store.book.live()])
    )


async def asked_for(bench: Bench) -> Reconciler:
    """One serves, and an operator wants another in its place."""
    await bench.serve()
    await restart(bench)
    return await reconciler(bench)


def successor(bench: Bench) -> Record:
    (found,) = [record for record in bench.store.book.live() if record.replaces == OLD]
    return found


async def prove(bench: Bench, record: Record) -> None:
    await bench.store.write(lambda tx: replacing.note_proven(tx, record.id, epoch=record.epoch))


@on_bench
async def test_a_successor_is_started_while_the_old_one_serves_and_both_are_owed_and_paid_for(bench: Bench) -> None:
    await passed(bench, await asked_for(bench))
    assert (bench.record().phase, successor(bench).phase) == (Phase.ACTIVE, Phase.REQUESTED)
    held = {held.deployment for held in bench.store.book.reservations.values() if held.open}
    owed = {duty.deployment for duty in bench.store.book.obligations.values() if duty.open}
    leased = {name for name, lease in bench.store.book.leases.items() if lease.live(bench.clock.now())}
    assert held == owed == leased == {OLD, successor(bench).id}


@on_bench
async def test_one_successor_is_made_however_often_it_is_asked_for(bench: Bench) -> None:
    task = await asked_for(bench)
    for _ in range(3):
        await restart(bench)
        await passed(bench, task)
    assert creates(bench) == 2


@on_bench
async def test_the_old_one_drains_and_is_stopped_as_replaced_once_its_successor_is_proven(bench: Bench) -> None:
    task = await asked_for(bench)
    await passed(bench, task)
    await passed(bench, task)
    assert (bench.record().phase, successor(bench).phase) == (Phase.ACTIVE, Phase.ACTIVE)
    await prove(bench, successor(bench))
    await passed(bench, task)
    old = bench.record()
    assert (old.phase, old.reason) == (Phase.STOP_REQUIRED, StopReason.REPLACED)
    assert old.drain_until == bench.store.now + bench.model.drain_limit
    assert successor(bench).phase is Phase.ACTIVE


@on_bench
async def test_two_of_them_do_not_bill_for_as_long_as_nothing_can_be_written(bench: Bench) -> None:
    task = await asked_for(bench)
    await passed(bench, task)
    await passed(bench, task)
    await prove(bench, successor(bench))
    with unwritable(bench.folder):
        await passed(bench, task)
        old = bench.record()
        assert (old.phase, old.reason) == (Phase.STOP_REQUIRED, StopReason.REPLACED)
        assert old.drain_until == bench.store.now + bench.model.drain_limit


@on_bench
async def test_a_pass_says_until_when_a_successor_may_be_tried(bench: Bench) -> None:
    """One that nobody tries is taken as proven after UNTRIED_FOR."""
    task = await asked_for(bench)
    await passed(bench, task)
    await passed(bench, task)
    ready_at = successor(bench).ready_at
    assert ready_at is not None
    assert await task.run_pass() == ready_at + UNTRIED_FOR


@on_bench
async def test_a_changed_configuration_replaces_what_it_does_not_describe(bench: Bench) -> None:
    await bench.serve()
    bench.model = replace(bench.model, fingerprint="f2", image="vllm/vllm-openai:v0.32.0")
    await passed(bench, await reconciler(bench))
    assert (successor(bench).fingerprint, successor(bench).spec.image) == ("f2", "vllm/vllm-openai:v0.32.0")
    (line,) = [line for line in await bench.events("deployment.declared") if line["deployment"] != OLD]
    assert line["detail"]["replaces"] == OLD


@on_bench
async def test_a_replacement_survives_a_restart_and_is_not_begun_twice(bench: Bench) -> None:
    await passed(bench, await asked_for(bench))
    first = successor(bench).id
    await bench.restart()
    await bench.renew()
    task = await reconciler(bench)
    await passed(bench, task)
    assert (successor(bench).id, creates(bench)) == (first, 2)


@on_bench
async def test_a_wish_for_a_restart_survives_our_own(bench: Bench) -> None:
    await bench.serve()
    await restart(bench)
    await bench.restart()
    await bench.renew()
    await passed(bench, await reconciler(bench))
    assert creates(bench) == 2


async def full(bench: Bench) -> None:
    bench.policy = replace(bench.policy, max_active=1)


async def poor(bench: Bench) -> None:
    bench.policy = replace(bench.policy, usd_per_day=Decimal("0.01"))


async def held(bench: Bench) -> None:
    memory = replace(bench.store.book.memory("qwen"), hold_reason="crash-loop", hold_fingerprint="f1")
    await bench.store.write(lambda tx: tx.put_memory(memory))


async def unpriced(bench: Bench) -> None:
    bench.model = replace(bench.model, usd_per_hour_max=None)


@pytest.mark.parametrize("obstacle", [full, poor, held, unpriced])
@on_bench
async def test_where_no_successor_may_be_started_the_old_one_serves_on_and_it_is_told_why(
    bench: Bench, obstacle: Any
) -> None:
    await bench.serve()
    await restart(bench)
    await obstacle(bench)
    task = await reconciler(bench)
    told = task.refusals  # the very one that the API was given
    await passed(bench, task)
    assert (creates(bench), bench.record().phase) == (1, Phase.ACTIVE)
    assert OLD in told
    assert "qwen" not in told


@on_bench
async def test_a_successor_that_fails_leaves_the_old_one_serving_and_the_next_waits_for_its_proof(bench: Bench) -> None:
    task = await asked_for(bench)
    await passed(bench, task)
    await bench.require_stop(successor(bench), StopReason.CRASH_LOOP)
    await passed(bench, task)
    assert (bench.record().phase, creates(bench)) == (Phase.ACTIVE, 2)
    assert OLD in task.refusals


@on_bench
async def test_a_successor_whose_create_is_refused_leaves_the_old_one_serving(bench: Bench) -> None:
    task = await asked_for(bench)
    bench.provider.script.creates += [Made.NO_CAPACITY] * 2
    await passed(bench, task)
    assert [record.id for record in bench.store.book.live()] == [OLD]
    await passed(bench, task)
    assert task.refusals[OLD].code is Code.NO_CAPACITY


@on_bench
async def test_a_successor_whose_answer_was_lost_allows_no_second(bench: Bench) -> None:
    task = await asked_for(bench)
    bench.provider.script.creates.append(Made.LOST_BUT_MADE)
    await passed(bench, task)
    await passed(bench, task)
    assert creates(bench) == 2
    assert bench.record().phase is Phase.ACTIVE


@pytest.mark.parametrize("written", [True, False])
@on_bench
async def test_a_successor_that_gateways_try_in_vain_is_given_up_and_the_old_one_serves_on(
    bench: Bench, written: bool
) -> None:
    task = await asked_for(bench)
    await passed(bench, task)
    await passed(bench, task)
    bench.leases.lifetime = bench.model.startup_deadline * 2
    bench.use(successor(bench))
    await bench.move(899)
    await bench.renew()
    await passed(bench, task)
    assert successor(bench).phase is Phase.ACTIVE
    await bench.move(1)
    with nullcontext() if written else unwritable(bench.folder):
        await passed(bench, task)
        assert (successor(bench).phase, successor(bench).reason) == (Phase.STOP_REQUIRED, StopReason.STARTUP_DEADLINE)
        assert bench.record().phase is Phase.ACTIVE


@on_bench
async def test_the_successor_is_the_model_s_own_when_the_old_one_ends_first(bench: Bench) -> None:
    task = await asked_for(bench)
    await passed(bench, task)
    await bench.require_stop(bench.record(), StopReason.POD_EXITED)
    await passed(bench, task)
    await passed(bench, task)
    assert successor(bench).phase is Phase.ACTIVE
    assert creates(bench) == 2


# Slots


async def two_slots(bench: Bench) -> Reconciler:
    bench.model = replace(bench.model, slots=2)
    await bench.serve()
    await bench.serve("qwen-2", slot=1)
    return await reconciler(bench)


@on_bench
async def test_slots_are_replaced_one_after_the_other(bench: Bench) -> None:
    task = await two_slots(bench)
    assert await restart(bench) == [OLD, "qwen-2"]
    await passed(bench, task)
    await passed(bench, task)
    assert creates(bench) == 3
    assert task.refusals[DeploymentId("qwen-2")].reason == "another slot of it is being replaced"
    await prove(bench, successor(bench))
    await passed(bench, task)
    assert creates(bench) == 3  # what was replaced is still there


async def end(bench: Bench, name: str, reason: StopReason) -> None:
    """It is stopped, and an operator vouches for its end."""
    duty = await bench.require_stop(bench.record(name), reason)
    await bench.store.write(lambda tx: duties.confirm(tx, duty.id, reference="seen", forced=False))


@pytest.mark.parametrize(("reason", "made"), [(StopReason.POD_EXITED, 3), (StopReason.IDLE, 2)])
@on_bench
async def test_a_slot_that_was_lost_is_filled_again_while_another_serves(
    bench: Bench, reason: StopReason, made: int
) -> None:
    task = await two_slots(bench)
    await end(bench, "qwen-2", reason)
    await passed(bench, task)
    assert creates(bench) == made


@on_bench
async def test_a_slot_that_was_let_go_stays_empty_after_a_restart_days_later(bench: Bench) -> None:
    await two_slots(bench)
    await end(bench, "qwen-2", StopReason.IDLE)
    await bench.move(2 * 86400)
    await bench.restart()
    await bench.renew()
    await passed(bench, await reconciler(bench))
    assert creates(bench) == 2


@on_bench
async def test_a_slot_that_was_let_go_stays_empty_while_another_serves_for_days(bench: Bench) -> None:
    task = await two_slots(bench)
    await end(bench, "qwen-2", StopReason.IDLE)
    await bench.move(2 * 86400)
    await bench.renew()
    await passed(bench, task)
    assert (bench.record(OLD).phase, creates(bench)) == (Phase.ACTIVE, 2)


@on_bench
async def test_a_start_that_an_operator_stopped_before_anything_was_sent_is_not_begun_again(bench: Bench) -> None:
    """While another slot serves, an empty one that was never let go is filled by itself."""
    task = await two_slots(bench)
    await end(bench, "qwen-2", StopReason.POD_EXITED)
    planned, policy = await bench.plan("qwen-3", slot=1), bench.policy
    await bench.store.write(
        lambda tx: duties.require_stop_of(
            tx, planned.record, StopReason.OPERATOR_REQUEST, now_at_once=True, policy=policy
        )
    )
    await passed(bench, task)
    assert (bench.record("qwen-3").phase, bench.record("qwen-3").reason) == (
        Phase.CANCELLED,
        StopReason.OPERATOR_REQUEST,
    )
    assert creates(bench) == 2


@on_bench
async def test_a_lost_slot_is_filled_within_the_starts_that_are_allowed(bench: Bench) -> None:
    bench.policy = replace(bench.policy, starts_per_hour=2)
    task = await two_slots(bench)
    await end(bench, "qwen-2", StopReason.POD_EXITED)
    await passed(bench, task)
    assert creates(bench) == 2
    assert task.refusals["qwen"].reason == "too many starts of late"


@on_bench
async def test_who_asks_while_one_slot_serves_fills_the_others(bench: Bench) -> None:
    task = await two_slots(bench)
    await end(bench, "qwen-2", StopReason.IDLE)
    await asked(bench, task)
    assert creates(bench) == 3
    await passed(bench, task)
    assert not bench.wants.all(now=bench.clock.now())


@on_bench
async def test_a_slot_that_the_config_has_no_more_is_drained_and_stopped(bench: Bench) -> None:
    await two_slots(bench)
    bench.model = replace(bench.model, slots=1)
    bench.prober.verdict = Verdict.READY
    await passed(bench, await reconciler(bench))
    surplus = bench.record("qwen-2")
    assert (surplus.reason, surplus.drain_until is not None) == (StopReason.MODEL_REMOVED, True)
    assert bench.record().phase is Phase.ACTIVE
