"""Do tasks go on after failures, end when they must, and never miss a wake-up?"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import anyio
import pytest

from controller.store.errors import StoreTaken, StoreUnwritable
from controller.supervision import Cell, GaveUp, Pulse, contained, for_each, keep_running
from tests.support.loop_clock import BEGIN, LoopClock
from tests.support.passing import Passes, S, at, fail, kept_running, runner_of
from tests.support.virtual_time import run_virtual


async def stray_cancel() -> datetime | None:
    raise asyncio.CancelledError


def test_a_pass_comes_at_its_deadline_and_no_later_than_the_period() -> None:
    task = Passes(at(10), at(500))
    kept_running(task, for_s=100)
    assert task.began_s == pytest.approx([0, 10, 70])


def test_a_deadline_in_the_past_is_met_at_once_and_is_no_busy_loop() -> None:
    task = Passes(*[at(-5)] * 3)
    kept_running(task, for_s=30)
    assert task.began_s == pytest.approx([0, 0.01, 0.02, 0.03])


def test_a_failing_pass_is_tried_again_later_and_later() -> None:
    task = Passes(*[fail] * 7)
    runner = kept_running(task, for_s=95)
    assert task.began_s == pytest.approx([0, 1, 3, 7, 15, 31, 61, 91])
    assert (runner.pulse.failures, runner.pulse.problem, runner.pulse.passes) == (0, None, 1)


def test_a_failed_pass_is_told_with_its_error() -> None:
    told: list[tuple[str, str]] = []

    async def main() -> None:
        runner = runner_of(Passes(fail))
        runner.on_failure = lambda name, problem: told.append((name, problem))
        with anyio.move_on_after(0.5):
            await keep_running(runner, clock=LoopClock(), failures_max=8)
        assert runner.pulse.problem == "RuntimeError: scripted"

    run_virtual(main)
    assert told == [("passes", "RuntimeError: scripted")]


@pytest.mark.parametrize(("failures", "gives_up"), [(2, False), (3, True)])
def test_so_many_failures_in_a_row_end_it(failures: int, gives_up: bool) -> None:
    run = partial(kept_running, Passes(*[fail] * failures, at(1e6), *[fail] * 2), for_s=50, failures_max=3)
    if not gives_up:
        run()
        return
    with pytest.raises(GaveUp, match="3 times"):
        run()


def test_a_burst_of_wake_ups_is_one_pass_after_the_lull() -> None:
    task = Passes()

    async def main() -> None:
        runner = runner_of(task)
        runner.lull = timedelta(milliseconds=50)
        async with anyio.create_task_group() as group:
            group.start_soon(partial(keep_running, runner, clock=LoopClock(), failures_max=8))
            for _ in range(4):
                await anyio.sleep(0.06)
                runner.wake.ring()
                await anyio.sleep(0.01)
                runner.wake.ring()
            await anyio.sleep(1)
            group.cancel_scope.cancel()

    run_virtual(main)
    assert task.began_s == pytest.approx([0, 0.11, 0.18, 0.25, 0.32])


async def fail_to_write() -> datetime | None:
    raise StoreUnwritable("disk full")


def test_a_store_that_cannot_be_written_ends_nothing_however_long() -> None:
    runner = kept_running(Passes(*[fail_to_write] * 40), for_s=1000, failures_max=3)
    assert runner.pulse.problem == "StoreUnwritable: disk full"
    assert runner.pulse.failures > 30


@pytest.mark.parametrize("among", [[], [RuntimeError("scripted")]], ids=["alone", "among others"])
def test_a_store_that_another_took_over_ends_the_daemon_at_once(among: list[Exception]) -> None:
    async def fail_for_ever() -> datetime | None:
        taken = StoreTaken(Path("store.db"))
        raise ExceptionGroup("pass", [*among, taken]) if among else taken

    with pytest.raises(GaveUp, match="1 times"):
        kept_running(Passes(fail_for_ever), for_s=1000, failures_max=3)


def test_a_store_that_cannot_be_written_excuses_no_other_failure_beside_it() -> None:
    async def fail_both() -> datetime | None:
        raise ExceptionGroup("pass", [StoreUnwritable("disk full"), RuntimeError("scripted")])

    with pytest.raises(GaveUp, match="3 times"):
        kept_running(Passes(*[fail_both] * 4), for_s=1000, failures_max=3)


def test_a_cancellation_that_a_library_made_up_is_not_the_end() -> None:
    task = Passes(stray_cancel)
    runner = kept_running(task, for_s=30)
    assert task.began_s == pytest.approx([0, 1])
    assert runner.pulse.passes == 1


@pytest.mark.parametrize("where", ["asyncio", "anyio"])
def test_a_real_cancellation_ends_it_in_the_midst_of_a_pass(where: str) -> None:
    async def hang() -> datetime | None:
        await anyio.sleep_forever()
        return None

    async def main() -> None:
        runner = runner_of(Passes(hang))
        work = partial(keep_running, runner, clock=LoopClock(), failures_max=8)
        if where == "asyncio":
            running = asyncio.create_task(work())
            await anyio.sleep(5)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
        else:
            with anyio.move_on_after(5):
                await work()
        assert runner.pulse.failures == 0

    run_virtual(main)


def test_a_ring_while_waiting_begins_a_pass_at_once() -> None:
    task = Passes()

    async def main() -> None:
        runner = runner_of(task)
        async with anyio.create_task_group() as group:
            group.start_soon(partial(keep_running, runner, clock=LoopClock(), failures_max=8))
            await anyio.sleep(7)
            runner.wake.ring()
            runner.wake.ring()
            await anyio.sleep(7)
            group.cancel_scope.cancel()

    run_virtual(main)
    assert task.began_s == pytest.approx([0, 7])


@pytest.mark.parametrize("ends", ["well", "badly"])
def test_a_ring_in_the_midst_of_a_pass_is_not_lost(ends: str) -> None:
    async def main() -> None:
        runner = runner_of(task)

        async def rung() -> datetime | None:
            runner.wake.ring()
            await anyio.sleep(2)
            if ends == "badly":
                raise RuntimeError("scripted")
            return None

        task.script(rung)
        with anyio.move_on_after(20):
            await keep_running(runner, clock=LoopClock(), failures_max=8)

    class Late(Passes):
        def script(self, *passes: Callable[[], Awaitable[datetime | None]]) -> None:
            self._script += passes

    task = Late()
    run_virtual(main)
    # After a failure the pass waits out its backoff; the ring still brings one more pass after the next.
    assert task.began_s == pytest.approx([0, 2] if ends == "well" else [0, 3, 3])


def test_one_ring_is_one_pass() -> None:
    task = Passes()

    async def main() -> None:
        runner = runner_of(task)
        runner.wake.ring()
        with anyio.move_on_after(30):
            await keep_running(runner, clock=LoopClock(), failures_max=8)

    run_virtual(main)
    assert task.began_s == pytest.approx([0, 0])


@pytest.mark.parametrize(("after_s", "silent"), [(180, False), (180.001, True)])
def test_a_task_is_silent_after_three_periods_without_a_pass(after_s: float, silent: bool) -> None:
    pulse = Pulse(name="x", period=60 * S, last_pass_at=BEGIN)
    assert pulse.silent(BEGIN + after_s * S) is silent


def test_a_hanging_pass_falls_silent() -> None:
    async def hang() -> datetime | None:
        await anyio.sleep_forever()
        return None

    runner = kept_running(Passes(hang), for_s=200)
    assert runner.pulse.silent(BEGIN + 200 * S)


@pytest.mark.parametrize("raised", [RuntimeError("scripted"), asyncio.CancelledError()])
async def test_contained_work_takes_nobody_along(raised: BaseException) -> None:
    async def work() -> None:
        raise raised

    async with anyio.create_task_group() as group:
        group.start_soon(partial(contained, work, name="x"))
        await anyio.lowlevel.checkpoint()


async def test_contained_work_is_cancelled_with_its_group() -> None:
    after: list[str] = []

    async def work() -> None:
        await contained(anyio.sleep_forever, name="x")
        after.append("went on")

    async with anyio.create_task_group() as group:
        group.start_soon(work)
        await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()
    assert after == []


async def test_each_item_has_its_turn_whatever_becomes_of_another() -> None:
    done: list[int] = []

    async def work(item: int) -> datetime | None:
        if item == 1:
            raise RuntimeError("scripted")
        done.append(item)
        return None

    with pytest.raises(RuntimeError, match="scripted"):
        await for_each([0, 1, 2], work)
    assert done == [0, 2]
    with pytest.raises(ExceptionGroup, match="2 of 3"):
        await for_each([1, 2, 1], work)


async def test_the_earliest_deadline_of_all_items_counts() -> None:
    async def work(item: int) -> datetime | None:
        return None if item == 0 else BEGIN + item * S

    assert await for_each([3, 0, 1, 2], work) == BEGIN + S
    assert await for_each([], work) is None


def test_a_published_value_rings_everybody() -> None:
    cell, rings = Cell(1), [0, 0]
    cell.on_change(lambda: rings.__setitem__(0, cell.value))
    cell.on_change(lambda: rings.__setitem__(1, cell.value))
    cell.publish(2)
    assert rings == [2, 2]
