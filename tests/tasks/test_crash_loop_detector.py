"""Is a container that restarts for ever found, and one that recovered forgiven?"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta

import anyio
import pytest

from controller.core.book import Failure
from controller.core.deployment import Record
from controller.core.evidence import StopReason
from controller.core.identity import DeploymentId
from controller.core.lifecycle import Phase
from controller.core.readiness import Verdict
from controller.core.runtime import Runtime, Scrape
from controller.core.view import Probed
from controller.store import deployments, holds
from controller.store.errors import StoreUnwritable
from controller.store.transaction import Tx
from controller.tasks.crash_loop_detector import CrashLoopDetector
from tests.support.stores import overtake, unwritable
from tests.tasks.world import Bench, on_bench


def detector(bench: Bench) -> CrashLoopDetector:
    return CrashLoopDetector(store=bench.store, view=bench.view, models={"qwen": bench.model})


async def restarted(bench: Bench, task: CrashLoopDetector) -> None:
    """The container starts anew, now, and is seen so."""
    (seen,) = bench.provider.resources
    bench.provider.put(replace(seen, started_at=bench.clock.now()))
    await bench.look()
    await task.run_pass()


@pytest.mark.parametrize(("restarts", "phase"), [(1, Phase.REQUESTED), (2, Phase.STOP_REQUIRED)])
@on_bench
async def test_so_many_restarts_are_a_loop_and_one_fewer_is_not(bench: Bench, restarts: int, phase: Phase) -> None:
    await bench.start()
    task = detector(bench)
    for _ in range(1 + restarts):  # the first start is none
        await restarted(bench, task)
        await bench.move(60)
    assert bench.record().phase is phase
    assert bench.record().reason is (StopReason.CRASH_LOOP if phase is Phase.STOP_REQUIRED else None)


@on_bench
async def test_what_its_log_told_while_a_restart_was_being_written_is_kept(bench: Bench) -> None:
    record = await bench.start()
    task = detector(bench)
    await restarted(bench, task)
    (seen,) = bench.provider.resources
    await bench.move(60)
    bench.provider.put(replace(seen, started_at=bench.clock.now()))
    await bench.look()

    def log_tells(tx: Tx) -> None:
        tx.put_starts(record.id, replace(tx.book.starts[record.id], cause="out-of-memory"))

    async with anyio.create_task_group() as group:
        group.start_soon(bench.store.write, log_tells)
        group.start_soon(task.run_pass)
    starts = bench.store.book.starts[record.id]
    assert (starts.cause, starts.latest, len(starts.restarts)) == ("out-of-memory", bench.clock.now(), 1)


@on_bench
async def test_a_loop_is_owed_its_stop_where_nothing_can_be_written_too(bench: Bench) -> None:
    await bench.start()
    task = detector(bench)
    for _ in range(2):
        await restarted(bench, task)
        await bench.move(60)
    with unwritable(bench.folder):
        await restarted(bench, task)
        assert (bench.record().reason, bench.duty().due) == (StopReason.CRASH_LOOP, True)


@on_bench
async def test_what_somebody_else_wrote_meanwhile_puts_the_stop_off_to_the_next_pass(bench: Bench) -> None:
    await bench.start()
    task = detector(bench)
    for _ in range(2):
        await restarted(bench, task)
        await bench.move(60)
    overtake(bench.folder)
    await restarted(bench, task)
    assert bench.record().phase is Phase.REQUESTED
    await task.run_pass()
    assert bench.record().reason is StopReason.CRASH_LOOP


@on_bench
async def test_one_restart_that_cannot_be_written_is_no_loop(bench: Bench) -> None:
    await bench.start()
    task = detector(bench)
    await restarted(bench, task)
    await bench.move(60)
    with unwritable(bench.folder), pytest.raises(StoreUnwritable):
        await restarted(bench, task)
    assert bench.record().phase is Phase.REQUESTED


@on_bench
async def test_a_first_start_that_cannot_be_written_is_no_death_whatever_came_before(bench: Bench) -> None:
    """So many deaths of an earlier machine are a loop by the limit that the config has since."""
    bench.model = replace(bench.model, crash_restart_limit=3)
    first = await bench.start()
    for _ in range(3):
        await restarted_one(bench, detector(bench), first)
        await bench.move(60)
    await bench.require_stop(first)
    bench.model = replace(bench.model, crash_restart_limit=2)
    second = await bench.start("qwen-2", slot=1)
    with unwritable(bench.folder), pytest.raises(StoreUnwritable):
        await restarted_one(bench, detector(bench), second)
    assert bench.record("qwen-2").phase is Phase.REQUESTED


@on_bench
async def test_a_loop_is_a_failed_start(bench: Bench) -> None:
    await bench.start()
    task = detector(bench)
    for _ in range(3):
        await restarted(bench, task)
        await bench.move(60)
    memory = bench.store.book.memory("qwen")
    assert memory.failures == 1
    assert memory.failure is not None
    assert memory.failure.reason == "crash-loop"


@on_bench
async def test_the_same_start_seen_again_is_no_restart(bench: Bench) -> None:
    await bench.start()
    task = detector(bench)
    await restarted(bench, task)
    for _ in range(5):
        await bench.move(60)
        await bench.look()
        before = bench.store.book
        await task.run_pass()
        assert bench.store.book is before
    assert bench.record().phase is Phase.REQUESTED


@pytest.mark.parametrize(("gap_s", "phase"), [(600, Phase.STOP_REQUIRED), (600.001, Phase.REQUESTED)])
@on_bench
async def test_restarts_count_inside_one_window_its_end_included(bench: Bench, gap_s: float, phase: Phase) -> None:
    await bench.start()
    task = detector(bench)
    await restarted(bench, task)
    await bench.move(10)
    await restarted(bench, task)
    await bench.move(gap_s)
    await restarted(bench, task)
    assert bench.record().phase is phase


@on_bench
async def test_restarts_are_counted_across_a_restart_of_ours(bench: Bench) -> None:
    await bench.start()
    task = detector(bench)
    for _ in range(2):
        await restarted(bench, task)
        await bench.move(60)
    await bench.restart()
    await restarted(bench, detector(bench))
    assert bench.record().reason is StopReason.CRASH_LOOP


@on_bench
async def test_two_deaths_a_long_calm_and_two_deaths_are_no_loop_at_a_limit_of_three(bench: Bench) -> None:
    bench.model = replace(bench.model, crash_restart_limit=3)
    await bench.serve()
    task = detector(bench)
    for gap_s in (10, 10, 700, 10):
        await restarted(bench, task)
        await bench.move(gap_s)
    await restarted(bench, task)
    assert bench.record().phase is Phase.ACTIVE


async def restarted_one(bench: Bench, task: CrashLoopDetector, record: Record) -> None:
    """Of several: the container of this one starts anew, now."""
    (seen,) = [resource for resource in bench.provider.resources if resource.key == record.key]
    bench.provider.put(replace(seen, started_at=bench.clock.now()))
    await bench.look()
    await task.run_pass()


async def die_after_another(bench: Bench, end: Callable[[Record], Awaitable[object]]) -> Record:
    """One machine restarts once and ends so; the next one restarts once. Two restarts are the limit."""
    first = await bench.start()
    for _ in range(2):
        await restarted_one(bench, detector(bench), first)
        await bench.move(60)
    await end(bench.record())
    task = detector(bench)
    second = await bench.start("qwen-2", slot=1)
    await restarted_one(bench, task, second)
    assert bench.record("qwen-2").phase is Phase.REQUESTED, "a first start is no death, whatever came before"
    await bench.move(60)
    await restarted_one(bench, task, second)
    return bench.record("qwen-2")


@pytest.mark.parametrize(
    ("reason", "loop"),
    [
        (StopReason.OPERATOR_REQUEST, True),
        (StopReason.IDLE, True),
        (StopReason.REPLACED, True),
        (StopReason.CRASH_LOOP, False),
        (StopReason.POD_EXITED, False),
    ],
)
@on_bench
async def test_a_loop_over_two_machines_is_one_unless_the_first_already_failed_its_start(
    bench: Bench, reason: StopReason, loop: bool
) -> None:
    second = await die_after_another(bench, lambda record: bench.require_stop(record, reason))
    assert (second.reason is StopReason.CRASH_LOOP) is loop


@on_bench
async def test_a_restart_of_another_slot_s_machine_is_not_this_one_s(bench: Bench) -> None:
    async def lives_on(_: Record) -> None: ...

    assert (await die_after_another(bench, lives_on)).phase is Phase.REQUESTED


@on_bench
async def test_deaths_under_another_configuration_do_not_count(bench: Bench) -> None:
    async def was_made_otherwise(record: Record) -> None:
        await bench.store.write(lambda tx: tx.put_record(replace(tx.current(record), fingerprint="another")))
        await bench.require_stop(record)

    assert (await die_after_another(bench, was_made_otherwise)).phase is Phase.REQUESTED


@on_bench
async def test_deaths_of_an_earlier_machine_leave_the_window_like_any_other(bench: Bench) -> None:
    async def ends_long_ago(record: Record) -> None:
        await bench.require_stop(record)
        await bench.move(480.001)

    assert (await die_after_another(bench, ends_long_ago)).phase is Phase.REQUESTED


@on_bench
async def test_deaths_of_an_earlier_machine_are_remembered_across_a_restart_of_ours(bench: Bench) -> None:
    async def we_begin_anew(record: Record) -> None:
        await bench.require_stop(record)
        await bench.restart()

    assert (await die_after_another(bench, we_begin_anew)).reason is StopReason.CRASH_LOOP


async def failed_before(bench: Bench) -> None:
    def fail(tx: Tx) -> None:
        tx.put_memory(replace(tx.book.memory("qwen"), failures=1))

    await bench.store.write(fail)


@pytest.mark.parametrize(("served_s", "failures"), [(599.999, 1), (600, 0)])
@on_bench
async def test_earlier_failures_are_forgiven_after_a_window_of_service(
    bench: Bench, served_s: float, failures: int
) -> None:
    await failed_before(bench)
    await bench.serve()
    await bench.look()
    task = detector(bench)
    due = await task.run_pass()
    assert due is not None
    assert (due - bench.clock.now()).total_seconds() == 600
    await bench.move(served_s)
    await task.run_pass()
    assert bench.store.book.memory("qwen").failures == failures


@pytest.mark.parametrize(("failed_ms", "failures"), [(-1, 0), (0, 1), (1, 1)])
@on_bench
async def test_what_served_before_a_failure_says_nothing_of_it(bench: Bench, failed_ms: int, failures: int) -> None:
    """Another slot, or what a successor was to replace."""
    record = await bench.serve()
    at = (record.ready_at or record.declared_at) + timedelta(milliseconds=failed_ms)
    failure = Failure(deployment=DeploymentId("qwen-2"), reason="crash-loop", at=at, seq=1)
    memory = replace(bench.store.book.memory("qwen"), failures=1, failure=failure)
    await bench.store.write(lambda tx: tx.put_memory(memory))
    await bench.move(700)
    await detector(bench).run_pass()
    assert bench.store.book.memory("qwen").failures == failures


@on_bench
async def test_a_restart_begins_the_time_of_service_anew(bench: Bench) -> None:
    await failed_before(bench)
    await bench.serve()
    task = detector(bench)
    await restarted(bench, task)
    await bench.move(300)
    await restarted(bench, task)
    await bench.move(599)
    await task.run_pass()
    assert bench.store.book.memory("qwen").failures == 1
    await bench.move(1)
    await task.run_pass()
    assert bench.store.book.memory("qwen").failures == 0


@on_bench
async def test_what_does_not_serve_now_is_not_forgiven(bench: Bench) -> None:
    await failed_before(bench)
    record = await bench.serve()
    await bench.store.write(lambda tx: deployments.record_unready(tx, record, since=tx.now))
    await bench.move(700)
    assert await detector(bench).run_pass() is None
    assert bench.store.book.memory("qwen").failures == 1


@on_bench
async def test_forgiving_writes_once(bench: Bench) -> None:
    await bench.serve()
    await bench.store.write(lambda tx: holds.note_success(tx, "qwen"))
    await bench.move(700)
    before = bench.store.book
    await detector(bench).run_pass()
    assert bench.store.book is before


@on_bench
async def test_what_is_stopping_or_not_configured_is_left_alone(bench: Bench) -> None:
    await bench.serve("other-1", model="other")
    await bench.require_stop(await bench.serve())
    await bench.look()
    before = bench.store.book
    assert await detector(bench).run_pass() is None
    assert bench.store.book is before


async def respawned(bench: Bench, task: CrashLoopDetector, record: Record) -> None:
    """The server began anew, now, and tells so; the provider tells nothing."""
    now = bench.clock.now()
    runtime = Runtime(at=now, scrape=Scrape(running=0.0, process_started_at=now))
    probed = Probed(verdict=Verdict.READY, served=None, detail="", at=now, runtime=runtime)
    bench.view.publish(replace(bench.view.value, probes={record.id: probed}))
    await task.run_pass()


@pytest.mark.parametrize(("restarts", "phase"), [(1, Phase.ACTIVE), (2, Phase.STOP_REQUIRED)])
@on_bench
async def test_a_loop_that_only_the_server_tells_of_is_one(bench: Bench, restarts: int, phase: Phase) -> None:
    record = await bench.serve()
    task = detector(bench)
    for _ in range(1 + restarts):
        await respawned(bench, task, record)
        await bench.move(60)
    assert bench.record().phase is phase
    assert bench.record().reason is (StopReason.CRASH_LOOP if phase is Phase.STOP_REQUIRED else None)


@on_bench
async def test_the_servers_restarts_are_counted_across_a_restart_of_ours(bench: Bench) -> None:
    record = await bench.serve()
    for _ in range(2):
        await respawned(bench, detector(bench), record)
        await bench.move(60)
    await bench.restart()
    await respawned(bench, detector(bench), record)
    assert bench.record().reason is StopReason.CRASH_LOOP


@pytest.mark.parametrize(("answers", "phase"), [(True, Phase.ACTIVE), (False, Phase.STOP_REQUIRED)])
@on_bench
async def test_restarts_that_the_provider_tells_of_count_only_where_the_server_does_not_deny_them(
    bench: Bench, answers: bool, phase: Phase
) -> None:
    """Its count of seconds stands still: each look puts the start later, and the server answers all the while."""
    record = await bench.serve()
    task = detector(bench)
    await respawned(bench, task, record)
    told = bench.view.value.probes
    for _ in range(3):
        await bench.move(60)
        (seen,) = bench.provider.resources
        bench.provider.put(replace(seen, started_at=bench.clock.now()))
        view = await bench.look()
        bench.view.publish(replace(view, probes=told if answers else {}))
        await task.run_pass()
    assert bench.record().phase is phase
