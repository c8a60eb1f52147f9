"""Is every stop on record before it leaves, sent by right alone, and its answer recorded?"""

from dataclasses import replace
from datetime import timedelta

import anyio
import pytest

from controller.core.evidence import StopReason
from controller.core.identity import ResourceKey
from controller.core.obligation import Obligation, StopAnswer
from controller.providers.fake.adapter import Ended
from controller.providers.writing import (
    StopOutcome,
    StopRefused,
    Writing,
)
from controller.store import duties
from controller.store.errors import StoreUnwritable
from controller.tasks.obligation_settler import ObligationSettler
from tests.tasks.world import Bench, on_bench
from tests.tasks.writing import Port, broken, pauses_after_commit

# Stops


async def owed(bench: Bench) -> Obligation:
    return await bench.require_stop(await bench.serve())


@on_bench
async def test_a_stop_is_on_record_before_it_leaves_and_its_answer_after(bench: Bench) -> None:
    port, duty, in_flight = Port(bench), await owed(bench), []
    port.before_stop = lambda key: in_flight.append(bench.duty().stop_in_flight)
    (await bench.executor(writing=port)).stop(duty)
    await bench.settle()
    after = bench.duty()
    assert in_flight == [True]
    assert (after.stop_attempts, after.stop_answer, after.open) == (1, StopAnswer.ACCEPTED, True)


@pytest.mark.parametrize(
    ("fate", "answer"),
    [
        (Ended.REFUSED, StopAnswer.REFUSED),
        (Ended.LOST_BUT_DONE, StopAnswer.UNKNOWN),
        (Ended.LOST_NOT_DONE, StopAnswer.UNKNOWN),
    ],
)
@on_bench
async def test_another_answer_to_a_stop_keeps_it_owed(bench: Bench, fate: Ended, answer: StopAnswer) -> None:
    bench.provider.script.stops.append(fate)
    (await bench.executor()).stop(await owed(bench))
    await bench.settle()
    assert (bench.duty().stop_answer, bench.duty().due) == (answer, True)


@pytest.mark.parametrize(("asked_s", "waits_s"), [(120, 120), (4000, 300)])
@on_bench
async def test_a_stop_waits_as_long_as_asked_and_never_longer_than_its_limit(
    bench: Bench, asked_s: float, waits_s: float
) -> None:
    class Limited(Port):
        async def stop(self, key: ResourceKey) -> StopOutcome:
            return StopRefused(detail="scripted", retry_after=timedelta(seconds=asked_s))

    (await bench.executor(writing=Limited(bench))).stop(await owed(bench))
    await bench.settle()
    assert bench.duty().stop_not_before == bench.clock.now() + timedelta(seconds=waits_s)


@on_bench
async def test_one_stop_is_in_flight_at_a_time(bench: Bench) -> None:
    port, duty = Port(bench), await owed(bench)
    port.hangs = True
    executor = await bench.executor(writing=port)
    for _ in range(3):
        executor.stop(duty)
        await bench.settle()
    assert len(port.stopped_s) == 1


@pytest.mark.parametrize(("age_s", "full", "sent"), [(300, False, 1), (300.001, False, 0), (300.001, True, 1)])
@on_bench
async def test_no_stop_leaves_under_a_lease_that_expired_unless_nobody_can_renew_it(
    bench: Bench, age_s: float, full: bool, sent: int
) -> None:
    duty = await owed(bench)
    await bench.move(age_s)
    if full:
        bench.break_store()
        with pytest.raises(StoreUnwritable):
            await bench.store.write(lambda tx: tx.line("clock.jumped"))
    (await bench.executor()).stop(duty)
    await bench.settle()
    assert bench.provider.calls["stop"] == sent


@pytest.mark.parametrize(("paused_s", "sent"), [(300, 1), (300.001, 0)])
@on_bench
async def test_a_process_that_was_stopped_past_its_lease_after_the_commit_sends_no_stop(
    bench: Bench, paused_s: float, sent: int
) -> None:
    duty = await owed(bench)
    pauses_after_commit(bench, paused_s)
    (await bench.executor()).stop(duty)
    await bench.move(301)
    assert (bench.provider.calls["stop"], bench.duty().open) == (sent, True)
    assert bench.duty().stop_answer is (StopAnswer.ACCEPTED if sent else StopAnswer.REFUSED)


@on_bench
async def test_a_process_whose_file_another_took_after_the_commit_sends_no_stop(bench: Bench) -> None:
    duty = await owed(bench)
    pauses_after_commit(bench, 1, meanwhile=bench.lose_file)
    (await bench.executor()).stop(duty)
    await bench.move(2)
    assert bench.provider.calls["stop"] == 0


@pytest.mark.parametrize("unwritable", [False, True])
@on_bench
async def test_no_stop_leaves_under_an_older_epoch(bench: Bench, unwritable: bool) -> None:
    duty = await owed(bench)
    lease = bench.store.book.leases[bench.record().id]
    await bench.store.write(lambda tx: tx.put_lease(replace(lease, epoch=tx.next_epoch())))
    if unwritable:
        bench.lock_store()
    (await bench.executor()).stop(duty)
    await bench.settle()
    assert bench.provider.calls["stop"] == 0


@pytest.mark.parametrize("unwritable", [False, True])
@on_bench
async def test_no_stop_leaves_for_what_another_owner_took(bench: Bench, unwritable: bool) -> None:
    duty = await bench.require_stop(await bench.serve(), StopReason.OWNERSHIP_LOST)
    if unwritable:
        bench.lock_store()
    (await bench.executor()).stop(duty)
    await bench.settle()
    assert (bench.provider.calls["stop"], bench.duty().open) == (0, True)


@on_bench
async def test_no_stop_leaves_unrecorded_where_the_lock_on_the_file_is_lost(bench: Bench) -> None:
    """Whoever holds it now answers for what is owed."""
    duty = await owed(bench)
    bench.lock_store()
    bench.lose_file()
    (await bench.executor()).stop(duty)
    await bench.settle()
    assert bench.provider.calls["stop"] == 0


@on_bench
async def test_a_due_stop_leaves_though_the_store_cannot_be_written_and_is_told_late(bench: Bench) -> None:
    port, duty = Port(bench), await owed(bench)
    await bench.move(295)
    bench.break_store()
    (await bench.executor(writing=port)).stop(duty)
    await bench.move(8)  # beyond the end of the lease
    assert port.stopped_s == [295]
    assert await bench.events("stop.submitted") == []
    bench.mend_store()
    await bench.move(10)
    (told,) = await bench.events("stop.submitted")
    assert told["detail"] == {"attempt": 1, "late": True}
    assert bench.duty().stop_answer is StopAnswer.ACCEPTED
    assert bench.duty().stop_submitted_at == bench.clock.now() - timedelta(seconds=18)


@pytest.mark.parametrize("unwritable_at_s", [300, 300.001])
@on_bench
async def test_a_lease_that_cannot_be_renewed_counts_on_for_stops(bench: Bench, unwritable_at_s: float) -> None:
    """Nobody can take it while the file's lock is ours; also one that ran out while the box was suspended."""
    duty = await owed(bench)
    await bench.move(unwritable_at_s)
    bench.lock_store()
    bench.store.unwritable_since = bench.clock.now()
    await bench.move(3600)
    (await bench.executor()).stop(duty)
    await bench.settle()
    assert bench.provider.calls["stop"] == 1


async def asked_thrice(bench: Bench, port: Port, duty: Obligation) -> list[object]:
    """What is told of each stop once the store is mended."""
    (await bench.executor(writing=port)).stop(duty)
    await bench.move(100)
    assert port.stopped_s == [0, 5, 15]
    bench.mend_store()
    await bench.move(10)
    return [line["detail"] for line in await bench.events("stop.submitted")]


@on_bench
async def test_a_stop_that_is_not_taken_is_asked_again_though_nothing_can_be_written(bench: Bench) -> None:
    port, duty = Port(bench), await owed(bench)
    bench.provider.script.stops += [Ended.REFUSED, Ended.LOST_NOT_DONE]
    bench.break_store()
    told = await asked_thrice(bench, port, duty)
    assert told == [{"attempt": number, "late": True} for number in (1, 2, 3)]
    assert [line["detail"]["answer"] for line in await bench.events("stop.answered")] == [
        "refused",
        "unknown",
        "accepted",
    ]


@on_bench
async def test_a_stop_that_fails_as_writing_ends_is_asked_again(bench: Bench) -> None:
    """It was on record as on its way, and stayed so: nobody sent another until there was room."""
    port, duty = Port(bench), await owed(bench)
    bench.provider.script.stops += [Ended.REFUSED, Ended.LOST_NOT_DONE]
    port.before_stop = lambda key: bench.break_store() if not port.stopped_s[1:] else None
    told = await asked_thrice(bench, port, duty)
    assert told == [{"attempt": 1}, {"attempt": 2, "late": True}, {"attempt": 3, "late": True}]


@pytest.mark.parametrize(("seen_s", "sent"), [(None, [0]), (0, [0]), (30, [0, 60]), (70, [0, 70])])
@on_bench
async def test_a_stop_that_was_taken_is_asked_again_where_its_resource_is_still_seen(
    bench: Bench, seen_s: float | None, sent: list[float]
) -> None:
    port, duty = Port(bench), await owed(bench)
    seen_at = None if seen_s is None else bench.clock.now() + timedelta(seconds=seen_s)
    bench.break_store()
    executor = await bench.executor(
        writing=port, sighted=lambda key: seen_at if seen_at is not None and seen_at <= bench.clock.now() else None
    )
    executor.stop(duty)
    await bench.move(250)
    assert port.stopped_s == sent


@on_bench
async def test_a_duty_is_not_ended_before_the_stops_that_were_sent_for_it_are_told(bench: Bench) -> None:
    """While nothing could be written one was sent, and its machine went: who ended the duty first left it untold."""
    duty, executor = await owed(bench), await bench.executor()
    settler = ObligationSettler(
        store=bench.store, view=bench.view, stream_leases=bench.leases, executor=executor, policy=bench.policy
    )
    bench.break_store()
    executor.stop(duty)
    for _ in range(3):
        await bench.move(100)
        await bench.look()
    bench.mend_store()
    await settler.run_pass()
    assert (bench.duty().open, await bench.events("stop.submitted")) == (True, [])
    await bench.move(5)
    assert len(await bench.events("stop.submitted")) == 1
    await bench.move(1)
    await bench.look()
    await settler.run_pass()
    assert not bench.duty().open


@pytest.mark.parametrize(("asked_s", "waits_s"), [(4, 5), (120, 120), (300, 300), (301, 300)])
@on_bench
async def test_a_late_stop_waits_as_long_as_asked_and_never_longer_than_its_limit(
    bench: Bench, asked_s: float, waits_s: float
) -> None:
    class Limited(Port):
        async def stop(self, key: ResourceKey) -> StopOutcome:
            self.stopped_s.append(anyio.current_time())
            return StopRefused(detail="scripted", retry_after=timedelta(seconds=asked_s))

    port, duty = Limited(bench), await owed(bench)
    bench.break_store()
    (await bench.executor(writing=port)).stop(duty)
    await bench.move(waits_s + 0.5)
    bench.mend_store()
    assert port.stopped_s == [0, waits_s]


@on_bench
async def test_a_stop_that_can_be_recorded_is_sent_once(bench: Bench) -> None:
    port, duty = Port(bench), await owed(bench)
    bench.provider.script.stops.append(Ended.REFUSED)
    (await bench.executor(writing=port)).stop(duty)
    await bench.move(100)
    assert port.stopped_s == [0]


@on_bench
async def test_a_stop_that_is_cut_off_by_our_end_is_recorded_as_unknown(bench: Bench) -> None:
    port, duty = Port(bench), await owed(bench)
    port.hangs = True
    async with anyio.create_task_group() as group:
        bench.group = group
        (await bench.executor(writing=port)).stop(duty)
        await bench.move(1)
        group.cancel_scope.cancel()
    assert bench.duty().stop_answer is StopAnswer.UNKNOWN


@on_bench
async def test_an_error_in_the_port_takes_no_other_stop_along(bench: Bench) -> None:
    port: Port = Port(bench)
    executor = await bench.executor(writing=port)
    one, other = await owed(bench), await bench.require_stop(await bench.serve("qwen-2", slot=1))
    port.before_stop = lambda key: broken() if key == one.key else None
    executor.stop(one)
    executor.stop(other)
    await bench.settle()
    assert bench.duty(bench.record()).stop_answer is StopAnswer.UNKNOWN
    assert bench.duty(bench.record("qwen-2")).stop_answer is StopAnswer.ACCEPTED


@on_bench
async def test_a_duty_without_a_key_has_nothing_to_stop(bench: Bench) -> None:
    duty = await bench.require_stop(await bench.lose())
    (await bench.executor()).stop(duty)
    await bench.settle()
    assert (bench.provider.calls["stop"], bench.duty().stop_attempts) == (0, 0)


def test_the_port_of_these_tests_is_one() -> None:
    port: type[Writing] = Port
    assert port.idempotent is False


@on_bench
async def test_an_orphan_s_stop_leaves_while_the_store_takes_no_writes(bench: Bench) -> None:
    seen = bench.stray()
    duty = await bench.store.write(
        lambda tx: duties.open_stray(tx, seen, StopReason.ORPHAN, holder=bench.holder, policy=bench.policy)
    )
    bench.lock_store()
    (await bench.executor()).stop(duty)
    await bench.settle()
    assert bench.provider.calls["stop"] == 1


@pytest.mark.parametrize(("raised_by", "sent"), [(0, 1), (1, 0)])
@pytest.mark.parametrize("unwritable", [False, True])
@on_bench
async def test_no_stop_of_what_no_record_holds_leaves_under_an_older_epoch(
    bench: Bench, unwritable: bool, raised_by: int, sent: int
) -> None:
    seen = bench.stray()
    duty = await bench.store.write(
        lambda tx: duties.open_stray(tx, seen, StopReason.ORPHAN, holder=bench.holder, policy=bench.policy)
    )
    lease = bench.store.book.leases[duties.lease_name(duty)]
    await bench.store.write(lambda tx: tx.put_lease(replace(lease, epoch=duty.epoch + raised_by)))
    if unwritable:
        bench.lock_store()
    (await bench.executor()).stop(duty)
    await bench.settle()
    assert bench.provider.calls["stop"] == sent


@on_bench
async def test_what_nobody_knows_the_name_of_is_not_stopped(bench: Bench) -> None:
    await bench.lose()
    (await bench.executor()).stop(bench.duty())
    await bench.settle()
    assert (bench.duty().stop_attempts, bench.duty().stop_in_flight) == (0, False)
    assert bench.provider.calls["stop"] == 0


@on_bench
async def test_a_stop_whose_lease_is_gone_after_the_commit_is_known_not_to_have_left(bench: Bench) -> None:
    duty = await owed(bench)

    def forget() -> None:
        leases = bench.store.book.leases
        assert isinstance(leases, dict)
        leases.clear()

    pauses_after_commit(bench, 1, meanwhile=forget)
    (await bench.executor()).stop(duty)
    await bench.move(2)
    assert (bench.provider.calls["stop"], bench.duty().stop_answer) == (0, StopAnswer.REFUSED)
