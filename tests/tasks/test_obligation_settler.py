"""Is every stop that is due asked for until it is proven, and never one that must not be?"""

from dataclasses import replace
from datetime import timedelta

import pytest

from controller.core.deployment import ProviderState
from controller.core.evidence import EvidenceKind, StopReason
from controller.core.lifecycle import Phase
from controller.core.obligation import Ending, Obligation
from controller.core.policy import StopEvidence
from controller.providers.fake.adapter import Ended, Looked
from controller.store import deployments
from controller.store.errors import StoreUnwritable
from controller.store.transaction import Tx
from controller.tasks.executor import Executor
from controller.tasks.obligation_settler import ObligationSettler
from tests.tasks.world import Bench, on_bench


async def settler(bench: Bench) -> ObligationSettler:
    return ObligationSettler(
        store=bench.store,
        view=bench.view,
        stream_leases=bench.leases,
        executor=await bench.executor(),
        policy=bench.policy,
    )


async def passed(bench: Bench, task: ObligationSettler, *, times: int = 1, every_s: float = 0) -> None:
    """Look, pass, and let the calls be made; so many times."""
    for _ in range(times):
        await bench.move(every_s)
        await bench.renew()
        await bench.look()
        await task.run_pass()
        await bench.settle()


@on_bench
async def test_a_due_stop_is_sent_and_proven_by_a_read_and_a_listing_begun_after_it(bench: Bench) -> None:
    duty = await bench.require_stop(await bench.serve())
    task = await settler(bench)
    await passed(bench, task)
    assert (bench.provider.calls["stop"], bench.duty().open) == (1, True)
    await passed(bench, task, every_s=1)
    after = bench.duty()
    assert (after.ending, bench.record().phase) == (Ending.DISCHARGED, Phase.STOPPED)
    assert after.evidence is not None
    assert after.evidence.kind is EvidenceKind.INVENTORY_COMPLETE_ABSENT
    assert after.id == duty.id


@on_bench
async def test_what_nobody_wants_stopped_is_not(bench: Bench) -> None:
    await bench.serve()
    await passed(bench, await settler(bench), times=3, every_s=60)
    assert bench.provider.calls["stop"] == 0


@on_bench
async def test_a_stop_without_effect_is_sent_again_after_a_minute_until_it_has_one(bench: Bench) -> None:
    bench.provider.script.stops += [Ended.IGNORED] * 3
    await bench.require_stop(await bench.serve())
    task, sent = await settler(bench), []
    for _ in range(42):
        await passed(bench, task, every_s=5)
        sent.append(bench.provider.calls["stop"])
    # At 5 s, then each time a minute after the last answer; the fourth one works.
    assert [sent.index(count) for count in (1, 2, 3, 4)] == [0, 12, 24, 36]
    assert bench.duty().ending is Ending.DISCHARGED


@on_bench
async def test_a_refused_stop_is_sent_again_at_growing_intervals_of_at_most_a_minute(bench: Bench) -> None:
    bench.provider.script.stops += [Ended.REFUSED] * 100
    await bench.require_stop(await bench.serve())
    task, sent_s = await settler(bench), []
    for second in range(0, 260, 5):
        before = bench.provider.calls["stop"]
        await passed(bench, task)
        sent_s += [second] * (bench.provider.calls["stop"] - before)
        await bench.move(5)
    assert sent_s == [0, 5, 15, 35, 75, 135, 195, 255]


@on_bench
async def test_a_stop_is_sent_though_another_duty_cannot_be_written(bench: Bench) -> None:
    gone, alive = await bench.serve(), await bench.serve("qwen-2", slot=1)
    await bench.require_stop(gone)
    task = await settler(bench)
    await passed(bench, task)
    await bench.require_stop(alive)
    await bench.move(1)
    await bench.look()
    bench.break_store()
    with pytest.raises(StoreUnwritable):
        await task.run_pass()
    await bench.settle()
    assert bench.provider.calls["stop"] == 2
    bench.mend_store()


@pytest.mark.parametrize("look", [Looked.FAILED, Looked.PARTIAL])
@on_bench
async def test_a_listing_that_is_not_complete_ends_nothing(bench: Bench, look: Looked) -> None:
    await bench.require_stop(await bench.serve())
    task = await settler(bench)
    await passed(bench, task)
    bench.provider.script.listings += [look] * 20
    await passed(bench, task, times=20, every_s=30)
    assert bench.duty().open


@on_bench
async def test_one_empty_listing_ends_nothing_and_two_far_apart_with_a_read_do(bench: Bench) -> None:
    record = await bench.serve()
    task = await settler(bench)
    await passed(bench, task)
    assert record.key is not None
    bench.provider.vanish(record.key)
    await passed(bench, task, every_s=1)
    await passed(bench, task, every_s=119)
    assert bench.duty().open
    await passed(bench, task, every_s=1)
    assert (bench.duty().ending, bench.provider.calls["stop"]) == (Ending.DISCHARGED, 0)


@on_bench
async def test_a_doubtful_account_proves_nothing(bench: Bench) -> None:
    record = await bench.serve()
    await bench.require_stop(record)
    distrusted = replace(bench.store.book.account, trusted=False)
    await bench.store.write(lambda tx: tx.put_account(distrusted))
    assert record.key is not None
    bench.provider.vanish(record.key)
    task = await settler(bench)
    await passed(bench, task, times=5, every_s=60)
    assert bench.view.value.vouched(bench.view.value.absences.keys[record.key].last)
    assert (bench.duty().open, task.sight(bench.duty()).account_trusted) == (True, False)


@on_bench
async def test_a_listing_that_the_guard_did_not_judge_yet_proves_nothing(bench: Bench) -> None:
    """RP-43: the stop was accepted and ignored; the next listing is another account's, and this task runs first."""
    record, *others = [await bench.serve(f"qwen-{slot}", slot=slot) for slot in range(3)]
    bench.provider.script.stops.append(Ended.IGNORED)
    duty = await bench.require_stop(record)
    task = await settler(bench)
    await passed(bench, task)
    for gone in (record, *others):
        assert gone.key is not None
        bench.provider.vanish(gone.key)
    await bench.move(1)
    await bench.look(judge=False)
    await task.run_pass()
    assert bench.duty(record).open
    await bench.guard.run_pass()
    await passed(bench, task, times=5, every_s=60)
    assert (bench.duty(record).open, bench.store.book.account.trusted) == (True, False)
    assert duty.id == bench.duty(record).id


@on_bench
async def test_a_lost_create_is_settled_by_listings_that_lack_its_request(bench: Bench) -> None:
    await bench.lose()
    task = await settler(bench)
    await passed(bench, task, times=3, every_s=39.9)
    assert bench.duty().open
    await passed(bench, task, every_s=1)
    assert (bench.duty().ending, bench.record().phase) == (Ending.DISCHARGED, Phase.STOPPED)


@on_bench
async def test_a_declared_deployment_s_duty_is_not_settled_by_absence(bench: Bench) -> None:
    await bench.submit()
    await passed(bench, await settler(bench), times=6, every_s=60)
    assert (bench.duty().open, bench.record().phase) == (True, Phase.DECLARED)


@pytest.mark.parametrize(("accepts", "open_after"), [(StopEvidence.ACCEPTED, False), (StopEvidence.VERIFIED, True)])
@on_bench
async def test_the_provider_s_word_suffices_only_where_the_policy_says_so(
    bench: Bench, accepts: StopEvidence, open_after: bool
) -> None:
    bench.policy = replace(bench.policy, stop_evidence=accepts)
    bench.provider.script.stops.append(Ended.IGNORED)
    await bench.require_stop(await bench.serve())
    task = await settler(bench)
    await passed(bench, task, times=2, every_s=1)
    assert bench.duty().open is open_after


@on_bench
async def test_a_read_that_says_terminated_is_proof_alone(bench: Bench) -> None:
    record = await bench.serve()
    assert record.key is not None
    await bench.require_stop(record)
    task = await settler(bench)
    await passed(bench, task)
    await bench.restart()
    described = bench.provider.described(record.key, tags=bench.tags(), state=ProviderState.TERMINATED)
    bench.provider.vanish(record.key)
    bench.provider.put(described)
    await passed(bench, await settler(bench), every_s=1)
    evidence = bench.duty().evidence
    assert evidence is not None
    assert evidence.kind is EvidenceKind.PROVIDER_TERMINATED


@on_bench
async def test_what_another_owner_took_is_never_stopped_nor_asked_to_be_and_stays_owed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.require_stop(await bench.serve(), StopReason.OWNERSHIP_LOST)
    task, asked = await settler(bench), []
    monkeypatch.setattr(Executor, "stop", lambda _, duty: asked.append(duty))
    await passed(bench, task, times=10, every_s=60)
    assert (asked, bench.provider.calls["stop"], bench.duty().due) == ([], 0, True)


# Drains


@on_bench
async def test_a_drain_lets_open_requests_end_up_to_its_limit(bench: Bench) -> None:
    record = await bench.serve()
    task = await settler(bench)
    await bench.move(60)
    await bench.require_stop(record, drain=100)
    for _ in range(9):
        bench.use(record)
        await passed(bench, task, every_s=10)
    bench.use(record)
    await bench.move(9.9)
    assert await task.run_pass() is not None
    await bench.settle()
    assert bench.provider.calls["stop"] == 0
    await passed(bench, task, every_s=0.1)
    assert bench.provider.calls["stop"] == 1


@on_bench
async def test_a_drain_ends_as_soon_as_every_gateway_that_held_it_has_let_go(bench: Bench) -> None:
    record = await bench.serve()
    task = await settler(bench)
    await bench.move(60)
    bench.use(record)
    await bench.require_stop(record, drain=600)
    await passed(bench, task)
    assert bench.provider.calls["stop"] == 0
    bench.use(record, open_requests=0)  # it may have sent another since
    await passed(bench, task)
    assert bench.provider.calls["stop"] == 0
    bench.leases.put("g1", [], now=bench.clock.now())
    await passed(bench, task)
    assert bench.provider.calls["stop"] == 1


@on_bench
async def test_once_a_stop_was_sent_a_new_request_puts_none_off(bench: Bench) -> None:
    bench.provider.script.stops.append(Ended.REFUSED)
    record = await bench.serve()
    task = await settler(bench)
    await bench.move(60)
    await bench.require_stop(record, drain=600)
    await passed(bench, task)
    assert bench.provider.calls["stop"] == 1
    bench.use(record)
    await passed(bench, task, every_s=5)
    assert bench.provider.calls["stop"] == 2


@on_bench
async def test_a_restart_does_not_cut_a_drain_short_before_gateways_could_speak(bench: Bench) -> None:
    record = await bench.serve()
    await bench.require_stop(record, drain=600)
    await bench.restart()
    task = await settler(bench)
    await passed(bench, task, every_s=29.9)
    assert bench.provider.calls["stop"] == 0
    await passed(bench, task, every_s=0.1)
    assert bench.provider.calls["stop"] == 1


@on_bench
async def test_a_pause_of_ours_does_not_cut_a_drain_short_before_gateways_could_speak(bench: Bench) -> None:
    record = await bench.serve()
    task = await settler(bench)
    await bench.move(60)
    await bench.require_stop(record, drain=600)
    bench.store.clock.resumed_at = bench.clock.now()
    await passed(bench, task, every_s=29.9)
    assert bench.provider.calls["stop"] == 0
    await passed(bench, task, every_s=0.1)
    assert bench.provider.calls["stop"] == 1


@on_bench
async def test_without_a_drain_a_restart_puts_no_stop_off(bench: Bench) -> None:
    await bench.require_stop(await bench.serve())
    await bench.restart()
    await passed(bench, await settler(bench))
    assert bench.provider.calls["stop"] == 1


# Alarms


async def unproven(bench: Bench) -> Obligation:
    bench.provider.script.stops += [Ended.IGNORED] * 20
    return await bench.require_stop(await bench.serve())


@on_bench
async def test_a_stop_that_stays_unproven_for_so_long_is_alarmed_once(bench: Bench) -> None:
    duty = await unproven(bench)
    task = await settler(bench)
    await passed(bench, task)
    await passed(bench, task, every_s=299.999)
    assert bench.alarms("stop-unproven") == []
    await passed(bench, task, every_s=0.001)
    assert bench.alarms("stop-unproven") == [duty.id]
    await passed(bench, task, every_s=60)
    assert bench.alarms("stop-unproven") == [duty.id]
    assert len(await bench.events("alarm.raised")) == 1


@on_bench
async def test_a_stop_is_sent_though_its_alarm_cannot_be_written(bench: Bench) -> None:
    await bench.require_stop(await bench.serve())
    task = await settler(bench)
    await bench.move(290)
    await bench.renew()
    await bench.move(11)
    bench.break_store()
    with pytest.raises(StoreUnwritable):
        await task.run_pass()
    await bench.settle()
    assert bench.provider.calls["stop"] == 1
    bench.mend_store()


@on_bench
async def test_the_alarm_ends_with_the_proof(bench: Bench) -> None:
    await unproven(bench)
    task = await settler(bench)
    await passed(bench, task, times=6, every_s=61)
    assert bench.alarms("stop-unproven")
    bench.provider.script.stops.clear()
    await passed(bench, task, times=2, every_s=61)
    assert (bench.alarms("stop-unproven"), bench.duty().open) == ([], False)


@pytest.mark.parametrize("drained_s", [200, 600])
@on_bench
async def test_the_time_of_a_drain_does_not_count_however_often_the_stop_is_sent(
    bench: Bench, drained_s: float
) -> None:
    bench.provider.script.stops += [Ended.IGNORED] * 20
    record = await bench.serve()
    task = await settler(bench)
    await bench.require_stop(record, drain=600)
    bench.leases.lifetime = timedelta(hours=1)
    bench.use(record)
    await passed(bench, task, times=2, every_s=drained_s / 2 - 0.01)
    bench.leases.put("g1", [], now=bench.clock.now())
    await passed(bench, task, every_s=0.02)
    assert bench.provider.calls["stop"] == 1
    await passed(bench, task, times=4, every_s=74)
    assert (bench.provider.calls["stop"] > 2, bench.alarms("stop-unproven")) == (True, [])
    await passed(bench, task, every_s=5)
    assert len(bench.alarms("stop-unproven")) == 1


@on_bench
async def test_a_pass_says_when_the_next_thing_falls_due(bench: Bench) -> None:
    await bench.require_stop(await bench.serve())
    task = await settler(bench)
    assert await task.run_pass() == bench.clock.now() + timedelta(seconds=300)


@on_bench
async def test_a_duty_that_another_transaction_ended_meanwhile_is_left(bench: Bench) -> None:
    record = await bench.serve()
    await bench.require_stop(record)
    task = await settler(bench)
    await passed(bench, task)
    await bench.move(1)
    await bench.look()

    def hand_over(tx: Tx) -> None:
        deployments.hand_over(tx, tx.record(record.id), epoch=99)

    bench.store.on_change(lambda: None)
    await bench.store.write(hand_over)
    await task.run_pass()
    assert bench.duty().ending is Ending.TRANSFERRED
