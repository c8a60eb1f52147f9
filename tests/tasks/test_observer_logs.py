"""Of which machines is the log read, and when?"""

from dataclasses import replace
from datetime import timedelta

import pytest

from controller.core.machine_log import LogLine
from controller.store import deployments
from controller.tasks.observer import Observer
from tests.tasks.observing import key_of, looked_again, told
from tests.tasks.world import Bench, on_bench


async def logs_read(bench: Bench, observer: Observer, *, after_s: float) -> int:
    await observer.run_pass()
    return await looked_again(bench, observer, "log", after_s=after_s)


@pytest.mark.parametrize(("after_s", "times"), [(59.999, 0), (60, 1)])
@on_bench
async def test_the_log_of_what_starts_is_due_a_minute_after_its_create(
    bench: Bench, after_s: float, times: int
) -> None:
    planned = await bench.plan()
    await bench.move(100)
    request, holder = planned.create.request, bench.holder
    create = await bench.store.write(lambda tx: deployments.mark_submitting(tx, request, holder=holder))
    await bench.accept(replace(planned, create=create))
    assert await logs_read(bench, bench.observer(), after_s=after_s) == times


@on_bench
async def test_a_pass_says_when_a_log_is_due(bench: Bench) -> None:
    await bench.start()
    observer = bench.observer()
    await observer.run_pass()
    await bench.move(58)
    await observer.run_pass()
    assert await observer.run_pass() == bench.clock.now() + timedelta(seconds=2)


@pytest.mark.parametrize("why", ["stopping", "not listed", "not configured", "no container", "one card that serves"])
@on_bench
async def test_a_log_that_nobody_needs_is_not_read(bench: Bench, why: str) -> None:
    model = "other" if why == "not configured" else "qwen"
    record = await bench.start("x-1", model=model)
    (seen,) = bench.provider.resources
    match why:
        case "stopping":
            await bench.require_stop(record)
        case "not listed":
            bench.provider.vanish(seen.key)
        case "no container":
            bench.provider.put(replace(seen, started_at=None))
        case "one card that serves":
            await bench.store.write(lambda tx: deployments.record_ready(tx, record))
        case _:
            assert why == "not configured"
    cards = 1 if why == "one card that serves" else 2
    assert await logs_read(bench, told(bench, cards=cards), after_s=60) == 0


@pytest.mark.parametrize(("unready", "times"), [(False, 0), (True, 1)])
@on_bench
async def test_the_log_of_one_card_that_served_is_read_while_it_does_not(
    bench: Bench, unready: bool, times: int
) -> None:
    record = await bench.serve()
    since = bench.clock.now() if unready else None
    await bench.store.write(lambda tx: deployments.record_unready(tx, record, since=since))
    assert await logs_read(bench, bench.observer(), after_s=60) == times


@on_bench
async def test_one_that_cannot_be_read_leaves_what_the_log_said_before(bench: Bench) -> None:
    record = await bench.start()
    key = key_of(record)
    bench.provider.logs[key] = [LogLine(said="1", text="torch.OutOfMemoryError: CUDA out of memory.")]
    observer = bench.observer()
    assert await logs_read(bench, observer, after_s=60) == 1
    bench.provider.logs.clear()
    assert await looked_again(bench, observer, "log", after_s=60) == 1
    logged = bench.view.value.logs[record.id]
    assert (logged.cause is not None, logged.problem, logged.at) == (True, "scripted: no log", bench.clock.now())
