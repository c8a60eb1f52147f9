"""Do programs of the simulation stop, die and repeat themselves as real ones would?"""

import asyncio
from collections.abc import Sequence
from functools import partial

import pytest

from tests.simulation.kernel import TIMERS_MANY, Deadlock, Kernel


def test_time_moves_to_the_next_timer_of_any_program() -> None:
    kernel = Kernel(1)
    seen: list[float] = []

    async def waits(seconds: float) -> None:
        await asyncio.sleep(seconds)
        seen.append(kernel.time)

    kernel.program("a").start(waits(7200))
    kernel.program("b").start(waits(3))
    kernel.run(until=lambda: len(seen) == 2, limit=10_000)
    assert seen == [3, 7200]


def test_dead_program_runs_no_finally() -> None:
    kernel = Kernel(1)
    ran: list[str] = []
    program = kernel.program("a")

    async def works() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            ran.append("finally")

    program.start(works())
    kernel.at(5, program.die)
    kernel.at(50, lambda: ran.append("later"))
    kernel.run(until=lambda: bool(ran), limit=100)
    assert ran == ["later"]


def test_program_dies_at_the_callback_that_was_named() -> None:
    kernel = Kernel(1)
    steps: list[int] = []
    program = kernel.program("a")

    async def works() -> None:
        for step in range(10):
            steps.append(step)
            await asyncio.sleep(0)

    program.start(works())
    program.dies_in(4)
    kernel.at(1, lambda: None)
    kernel.run(until=lambda: kernel.time >= 1, limit=2)
    assert steps == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "stops", [((5, 1), (100, 0)), ((5, 1), (6, 2), (50, 1), (100, 0))], ids=["stopped once", "stopped twice"]
)
def test_stopped_program_goes_on_when_it_is_continued_as_often(stops: Sequence[tuple[int, int]]) -> None:
    kernel = Kernel(1)
    seen: list[float] = []
    program = kernel.program("a")

    async def waits() -> None:
        await asyncio.sleep(10)
        seen.append(kernel.time)

    program.start(waits())
    for at, times in stops:
        kernel.at(at, partial(setattr, program, "stopped", times))
    kernel.run(until=lambda: bool(seen), limit=1000)
    assert seen == [100]


def test_program_that_dies_while_it_is_stopped_is_not_waited_for() -> None:
    kernel = Kernel(1)
    program = kernel.program("a")
    program.start(asyncio.sleep(10))
    kernel.at(5, lambda: setattr(program, "stopped", 1))
    kernel.at(20, program.die)
    kernel.at(30, lambda: setattr(program, "stopped", 0))
    with pytest.raises(Deadlock):
        kernel.run(until=lambda: False, limit=1000)
    assert kernel.time == 30


def test_timers_that_were_cancelled_are_thrown_out_before_their_time() -> None:
    kernel = Kernel(1)
    program = kernel.program("a")

    async def asks_and_is_answered() -> None:
        for _ in range(5 * TIMERS_MANY):
            program.loop.call_later(3600, lambda: None).cancel()
            await asyncio.sleep(0.001)

    done = program.start(asks_and_is_answered())
    kernel.run(until=done.done, limit=1000)
    assert kernel.timers <= TIMERS_MANY + 2


def test_what_waits_for_nothing_is_found() -> None:
    kernel = Kernel(1)

    async def waits() -> None:
        await asyncio.Event().wait()

    kernel.program("a").start(waits())
    with pytest.raises(Deadlock):
        kernel.run(until=lambda: False, limit=10)


def _order(seed: int) -> list[int]:
    kernel = Kernel(seed)
    order: list[int] = []

    async def tells(number: int) -> None:
        for _ in range(3):
            await asyncio.sleep(1)
            order.append(number)

    for number in range(8):
        kernel.program(f"p{number}").start(tells(number))
    kernel.run(until=lambda: len(order) == 24, limit=10)
    return order


def test_seed_decides_who_comes_first() -> None:
    assert _order(1) == _order(1)
    assert len({tuple(_order(seed)) for seed in range(5)}) == 5


def test_programs_are_turned_in_an_order_that_is_drawn() -> None:
    assert _order(3)[:8] != list(range(8))
    assert sorted(_order(3)[:8]) == list(range(8))
