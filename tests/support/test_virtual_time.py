"""Does virtual time move, stand still and repeat as promised?"""

import asyncio
import threading
import time

import anyio
import anyio.lowlevel
import pytest

from tests.support.virtual_time import Deadlock, run_virtual


def now() -> float:
    return asyncio.get_running_loop().time()


def test_a_virtual_week_takes_no_time() -> None:
    async def main() -> float:
        for _ in range(7 * 24):
            await anyio.sleep(3600)
        return now()

    begun = time.monotonic()
    assert run_virtual(main) == pytest.approx(7 * 24 * 3600, abs=1e-6)
    assert time.monotonic() - begun < 1


def test_timers_end_in_the_order_of_their_deadlines() -> None:
    async def main() -> list[tuple[int, float]]:
        woken: list[tuple[int, float]] = []

        async def sleeper(seconds: int) -> None:
            await anyio.sleep(seconds)
            woken.append((seconds, now()))

        async with anyio.create_task_group() as group:
            for seconds in (300, 5, 86_400 * 3, 60):
                group.start_soon(sleeper, seconds)
        return woken

    assert run_virtual(main) == [(5, 5), (60, 60), (300, 300), (86_400 * 3, 86_400 * 3)]


def test_a_deadline_cuts_off_what_never_answers() -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError), anyio.fail_after(30):
            await anyio.Event().wait()
        return now()

    assert run_virtual(main) == 30


def test_time_stands_still_while_a_thread_works() -> None:
    async def main() -> tuple[float, list[float]]:
        released: list[float] = []

        async def ticker() -> None:
            await anyio.sleep(1)
            released.append(now())

        async with anyio.create_task_group() as group:
            group.start_soon(ticker)
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(None, threading.Event().wait, 0.02)
            answered_at = now()
        return answered_at, released

    assert run_virtual(main) == (0, [1])


def test_waiting_for_nothing_is_a_deadlock_that_names_its_time() -> None:
    async def main() -> None:
        await anyio.sleep(90)
        await anyio.Event().wait()

    with pytest.raises(Deadlock, match=r"virtual second 90\.000"):
        run_virtual(main)


def test_an_error_of_the_program_comes_out_as_it_is() -> None:
    async def main() -> None:
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        run_virtual(main)


def schedule(seed: int | None) -> list[int]:
    async def main() -> list[int]:
        seen: list[int] = []

        async def worker(number: int) -> None:
            for _ in range(3):
                await anyio.lowlevel.checkpoint()
                seen.append(number)

        async with anyio.create_task_group() as group:
            for number in range(6):
                group.start_soon(worker, number)
        return seen

    return run_virtual(main, seed=seed)


def test_the_same_seed_gives_the_same_order() -> None:
    assert [schedule(seed) for seed in range(5)] == [schedule(seed) for seed in range(5)]


def test_seeds_explore_different_orders() -> None:
    assert len({tuple(schedule(seed)) for seed in range(10)}) > 5


def test_without_a_seed_order_is_asyncio_s_own() -> None:
    assert schedule(None) == [0, 1, 2, 3, 4, 5] * 3
