"""Does a client that goes away leave anything behind?

Case B12: whatever moment it leaves at, nothing stays counted, the model stops working for it, and the machine is
stopped when its idle time is over.
"""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import anyio
import pytest

from tests.scenarios.world import Box, World, scenario

CLIENTS = 5


async def leave_after(wait: float, ask: Callable[[], Awaitable[object]]) -> None:
    with anyio.move_on_after(wait):
        await ask()


async def in_the_cold_start(world: World, box: Box) -> None:
    await leave_after(10, lambda: box.chat(world))


async def before_the_first_byte(world: World, box: Box) -> None:
    await box.chat(world)
    (pod,) = world.alive()
    world.emulator.change_pod(pod["id"], {"upstream": {"first_token_seconds": 60}})
    await leave_after(5, lambda: box.chat(world, max_tokens=50))


async def before_the_first_byte_of_a_stream(world: World, box: Box) -> None:
    await box.chat(world)
    (pod,) = world.alive()
    world.emulator.change_pod(pod["id"], {"upstream": {"first_token_seconds": 60}})
    await leave_after(5, lambda: box.chat(world, stream=True, max_tokens=50))


async def in_the_middle_of_a_stream(world: World, box: Box) -> None:
    await box.chat(world)
    answer = await box.open(stream=True, max_tokens=4000)
    await leave_after(5, lambda: answer.read(1 << 20))
    answer.close()


async def without_reading_a_stream(world: World, box: Box) -> None:
    await box.chat(world)
    answer = await box.open(stream=True, max_tokens=4000)
    await anyio.sleep(5)
    answer.close()


READY_AT = 50
STREAMED = (in_the_middle_of_a_stream, without_reading_a_stream)


@pytest.mark.parametrize(
    "leave",
    [
        in_the_cold_start,
        before_the_first_byte,
        before_the_first_byte_of_a_stream,
        in_the_middle_of_a_stream,
        without_reading_a_stream,
    ],
)
def test_clients_who_left_are_not_counted_and_the_machine_goes_idle(
    leave: Callable[[World, Box], Coroutine[Any, Any, None]],
) -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box, anyio.create_task_group() as group:
            for _ in range(CLIENTS):
                group.start_soon(leave, world, box)
            await world.until(lambda: leave is in_the_cold_start or bool(box.gateway.leases.open_requests), within=60)
            await world.until(lambda: not box.gateway.live, within=20)
            left_at = world.now_s
            await world.at(left_at + 2)
            assert box.gateway.leases.open_requests == 0
            assert sum(pod["upstream"]["running"] for pod in world.pods()) == 0
            assert box.upstream.open == 0
            await world.until(lambda: not world.alive(), within=420)
            # Idle time counts from the last byte: those who left before theirs prolong nothing.
            last_byte_at = left_at if leave in STREAMED else READY_AT
            assert last_byte_at + 299 <= world.now_s <= max(left_at, READY_AT) + 361

    scenario(play, token_rate=2)
