"""What becomes of a block, and of its task, when it is cut from outside?"""

import asyncio

import anyio
import anyio.lowlevel
import pytest

from controller.gateway.cutting import Cut


async def test_a_block_that_is_cut_ends_and_its_task_goes_on() -> None:
    cut, after = Cut(), False
    asyncio.get_running_loop().call_later(0.01, cut.cancel)
    with cut:
        await anyio.sleep(5)
    await anyio.sleep(0.001)
    after = True
    assert after


async def test_a_cut_reaches_through_a_limit_and_a_task_group_inside_the_block() -> None:
    cut = Cut()
    asyncio.get_running_loop().call_later(0.01, cut.cancel)
    with cut:
        with anyio.move_on_after(5):
            async with anyio.create_task_group() as group:
                group.start_soon(anyio.sleep, 5)
                await anyio.sleep(5)
        raise AssertionError("not reached")
    await anyio.sleep(0.001)


async def test_a_cut_of_a_block_that_was_left_does_nothing() -> None:
    with Cut() as cut:
        await anyio.lowlevel.checkpoint()
    cut.cancel()
    await anyio.sleep(0.001)


async def test_a_task_that_is_cut_and_cancelled_is_cancelled() -> None:
    cut, went_on = Cut(), False

    async def run() -> None:
        nonlocal went_on
        with cut:
            await anyio.sleep(5)
        went_on = True

    task = asyncio.get_running_loop().create_task(run())
    await anyio.sleep(0.01)
    cut.cancel()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not went_on


async def test_what_the_block_raises_comes_out_of_it() -> None:
    with pytest.raises(ValueError, match="own"), Cut():
        raise ValueError("own")


async def test_a_cut_that_an_error_overtakes_leaves_no_cancellation_behind() -> None:
    cut = Cut()
    asyncio.get_running_loop().call_later(0.01, cut.cancel)
    with pytest.raises(ValueError, match="last"), cut:
        try:
            await anyio.sleep(5)
        except asyncio.CancelledError:
            raise ValueError("last") from None
    await anyio.sleep(0.001)
    current = asyncio.current_task()
    assert current is not None
    assert current.cancelling() == 0
