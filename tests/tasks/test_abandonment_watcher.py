"""Is a start that nobody waits for given up on time, and one that somebody wants never?"""

from dataclasses import replace
from datetime import timedelta

import pytest

from controller.core.evidence import StopReason
from controller.core.lifecycle import Phase
from controller.core.schedule import Schedule, Window
from controller.store import deployments
from controller.store.waits import LASTS, Waits, note_expected
from controller.tasks.abandonment_watcher import AbandonmentWatcher
from tests.support.stores import overtake, unwritable
from tests.tasks.world import Bench, on_bench

AFTER_S = 600
NONE = timedelta(0)


def watcher(bench: Bench, waits: Waits | None = None, *, abandon_after_s: float | None = AFTER_S) -> AbandonmentWatcher:
    span = None if abandon_after_s is None else timedelta(seconds=abandon_after_s)
    model = replace(bench.model, abandon_after=span)
    return AbandonmentWatcher(store=bench.store, waits=waits or Waits(), models={"qwen": model})


@pytest.mark.parametrize(("after_s", "phase"), [(AFTER_S - 0.001, Phase.REQUESTED), (AFTER_S, Phase.STOP_REQUIRED)])
@on_bench
async def test_a_start_that_nobody_waits_for_is_given_up(bench: Bench, after_s: float, phase: Phase) -> None:
    await bench.start()
    task = watcher(bench)
    assert await task.run_pass() == bench.clock.now() + timedelta(seconds=AFTER_S)
    await bench.move(after_s)
    await task.run_pass()
    assert bench.record().phase is phase


@on_bench
async def test_what_was_given_up_is_no_failed_start(bench: Bench) -> None:
    await bench.start()
    task = watcher(bench)
    await bench.move(AFTER_S)
    await task.run_pass()
    memory = bench.store.book.memory("qwen")
    assert (bench.record().reason, memory.failures, memory.failure) == (StopReason.ABANDONED, 0, None)


@pytest.mark.parametrize(("after_s", "phase"), [(AFTER_S - 0.001, Phase.REQUESTED), (AFTER_S, Phase.STOP_REQUIRED)])
@on_bench
async def test_it_is_given_up_where_nothing_can_be_written_too(bench: Bench, after_s: float, phase: Phase) -> None:
    await bench.start()
    task = watcher(bench)
    await bench.move(after_s)
    with unwritable(bench.folder):
        await task.run_pass()
        assert bench.record().phase is phase
    await bench.store.write(lambda tx: None)
    assert [duty.due for duty in bench.store.book.obligations.values()] == [phase is Phase.STOP_REQUIRED]


@on_bench
async def test_what_somebody_else_wrote_meanwhile_puts_the_stop_off_to_the_next_pass(bench: Bench) -> None:
    await bench.start()
    task = watcher(bench)
    await bench.move(AFTER_S)
    overtake(bench.folder)
    await task.run_pass()
    assert bench.record().phase is Phase.REQUESTED
    await task.run_pass()
    assert bench.record().reason is StopReason.ABANDONED


@on_bench
async def test_without_a_span_nothing_is_given_up(bench: Bench) -> None:
    await bench.start()
    task = watcher(bench, abandon_after_s=None)
    await bench.move(24 * 3600)
    await task.run_pass()
    assert (bench.record().phase, task.decide(bench.record())) == (Phase.REQUESTED, None)


@pytest.mark.parametrize(("after_s", "phase"), [(AFTER_S - 0.001, Phase.REQUESTED), (AFTER_S, Phase.STOP_REQUIRED)])
@on_bench
async def test_the_span_counts_from_when_the_last_one_left(bench: Bench, after_s: float, phase: Phase) -> None:
    await bench.start()
    waits = Waits()
    task = watcher(bench, waits)
    waits.tell("g-1", "qwen", waiting=1, returning=NONE, now=bench.clock.now())
    assert await task.run_pass() == bench.clock.now() + LASTS + timedelta(milliseconds=1)
    await bench.move(50)
    waits.tell("g-1", "qwen", waiting=0, returning=NONE, now=bench.clock.now())
    await bench.move(after_s)
    await task.run_pass()
    assert bench.record().phase is phase


@on_bench
async def test_a_caller_who_waits_keeps_it_and_a_gateway_that_died_does_not(bench: Bench) -> None:
    await bench.start()
    waits = Waits()
    task = watcher(bench, waits)
    for _ in range(100):
        waits.tell("g-1", "qwen", waiting=1, returning=NONE, now=bench.clock.now())
        await bench.move(10)
        await task.run_pass()
        assert bench.record().phase is Phase.REQUESTED
    await bench.move(AFTER_S)
    await task.run_pass()
    assert bench.record().phase is Phase.STOP_REQUIRED


@on_bench
async def test_who_was_told_to_come_back_is_waited_for_after_a_restart_too(bench: Bench) -> None:
    await bench.start()
    until = bench.clock.now() + timedelta(seconds=3000)
    await bench.store.write(lambda tx: note_expected(tx, "qwen", until=until))
    await bench.restart()
    task = watcher(bench)
    await bench.move(3000 + AFTER_S - 1)
    await task.run_pass()
    assert bench.record().phase is Phase.REQUESTED
    await bench.move(1)
    await task.run_pass()
    assert bench.record().phase is Phase.STOP_REQUIRED


@on_bench
async def test_after_our_own_restart_gateways_are_heard_first(bench: Bench) -> None:
    await bench.start()
    await bench.move(2 * AFTER_S)
    await bench.restart()
    task = watcher(bench)
    await task.run_pass()
    assert bench.record().phase is Phase.REQUESTED
    await bench.move(AFTER_S)
    await task.run_pass()
    assert bench.record().phase is Phase.STOP_REQUIRED


@on_bench
async def test_after_a_pause_gateways_are_heard_first(bench: Bench) -> None:
    await bench.start()
    task = watcher(bench)
    bench.store.clock.beat(timedelta(seconds=60))
    await bench.move(AFTER_S)
    await task.run_pass()
    assert bench.record().phase is Phase.REQUESTED
    bench.store.clock.beat(timedelta(seconds=AFTER_S))
    await bench.move(AFTER_S)
    await task.run_pass()
    assert bench.record().phase is Phase.STOP_REQUIRED


@on_bench
async def test_what_its_schedule_keeps_warm_is_not_given_up(bench: Bench) -> None:
    always = Window(days=frozenset(range(7)), begin_minute=0, end_minute=1440)
    bench.model = replace(bench.model, schedule=Schedule(warm=(always,)))
    await bench.start()
    task = watcher(bench)
    await bench.move(AFTER_S)
    await task.run_pass()
    assert bench.record().phase is Phase.REQUESTED


@on_bench
async def test_what_comes_beside_a_machine_that_serves_is_not_given_up(bench: Bench) -> None:
    bench.model = replace(bench.model, slots=2)
    await bench.serve("qwen-1")
    await bench.start("qwen-2", slot=1)
    task = watcher(bench)
    await bench.move(AFTER_S)
    await task.run_pass()
    assert bench.record("qwen-2").phase is Phase.REQUESTED


@pytest.mark.parametrize("why", [{"fills": "EU-1"}, {"replaces": "qwen-0"}])
@on_bench
async def test_what_fills_a_volume_or_replaces_another_is_not_given_up(bench: Bench, why: dict[str, str]) -> None:
    record = await bench.start()
    task = watcher(bench)
    await bench.move(AFTER_S)
    assert task.decide(record) is not None
    assert task.decide(replace(record, **why)) is None  # type: ignore[arg-type]


@on_bench
async def test_what_serves_is_left_to_others(bench: Bench) -> None:
    record = await bench.serve()
    task = watcher(bench)
    await bench.move(AFTER_S)
    assert task.decide(record) is None


@on_bench
async def test_a_caller_between_decision_and_write_wins(bench: Bench) -> None:
    await bench.start()
    waits = Waits()
    task = watcher(bench, waits)
    await bench.move(AFTER_S)
    write = bench.store.write

    async def late(work: object) -> object:
        waits.tell("g-1", "qwen", waiting=1, returning=NONE, now=bench.clock.now())
        return await write(work)  # type: ignore[arg-type]

    bench.store.write = late  # type: ignore[method-assign, assignment]
    await task.run_pass()
    assert bench.record().phase is Phase.REQUESTED


@on_bench
async def test_a_caller_who_comes_while_the_store_refuses_the_stop_keeps_it(bench: Bench) -> None:
    await bench.start()
    waits = Waits()
    task = watcher(bench, waits)
    await bench.move(AFTER_S)
    bench.lock_store(meanwhile=lambda: waits.tell("g-1", "qwen", waiting=1, returning=NONE, now=bench.clock.now()))
    await task.run_pass()
    assert bench.record().phase is Phase.REQUESTED


@on_bench
async def test_one_that_became_ready_between_decision_and_write_is_kept(bench: Bench) -> None:
    record = await bench.start()
    task = watcher(bench)
    await bench.move(AFTER_S)
    write = bench.store.write

    async def late(work: object) -> object:
        await write(lambda tx: deployments.record_ready(tx, record))
        return await write(work)  # type: ignore[arg-type]

    bench.store.write = late  # type: ignore[method-assign, assignment]
    await task.run_pass()
    assert bench.record().phase is Phase.ACTIVE
