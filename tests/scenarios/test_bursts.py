"""How many machines does a burst of callers start, and who is served?

Case B06: one start for all who wait for a model, and no model waits for another.
"""

from collections import Counter
from collections.abc import Awaitable, Callable

import anyio
import pytest

from tests.scenarios.world import Answered, Pending, World, scenario

Asking = Callable[[], Awaitable[Answered]]


async def burst(world: World, ask: Asking, *, callers: int, within: float) -> list[Pending]:
    asked = []
    for _ in range(callers):
        asked.append(world.soon(ask()))
        await anyio.sleep(within / callers)
    return asked


@pytest.mark.parametrize(("callers", "queue", "served"), [(10, 64, 10), (200, 256, 200), (1000, 64, 64)])
def test_burst_of_callers_makes_one_start_and_fills_the_queue(callers: int, queue: int, served: int) -> None:
    async def play(world: World) -> None:
        world.configure("m1", extra=f"queue = {queue}")
        async with world.box() as box:
            asked = await burst(world, lambda: box.chat(world), callers=callers, within=0.05)
            await world.at(1.05)
            refused = [pending.got for pending in asked if pending.done]
            assert len(refused) == callers - served
            assert {(answer.status, b"retry-after" in answer.headers) for answer in refused} <= {(429, True)}
            await world.until(lambda: all(pending.done for pending in asked), within=120)
            assert Counter(pending.got.status for pending in asked)[200] == served
            assert len(world.creates()) == 1
            (pod,) = world.pods()
            assert pod["upstream"]["requests"] == served + 1  # and the gateway's proof

    scenario(play)


def test_slow_start_of_one_model_holds_up_no_other() -> None:
    async def play(world: World) -> None:
        world.configure("m1", "m2", extra='wait = "25m"')
        async with world.box() as box:
            await world.at(0.1)  # the gateway has heard what it may wait
            slow = await burst(world, lambda: box.chat(world), callers=50, within=0.05)
            await world.at(1)
            world.emulator.change_settings({"boot_seconds": 10})
            quick = await box.chat(world, "m2")
            assert (quick.status, quick.at < 60) == (200, True)
            assert not any(pending.done for pending in slow)
            await world.until(lambda: all(pending.done for pending in slow), within=650)
            assert {pending.got.status for pending in slow} == {200}
            assert min(pending.got.at for pending in slow) >= 600
            assert len(world.creates()) == 2

    scenario(play, boot_seconds=570)


@pytest.mark.parametrize("seed", range(3))
def test_each_request_around_the_moment_of_readiness_reaches_the_model_once(seed: int) -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            first = world.soon(box.chat(world))
            await world.at(49.995)
            asked = await burst(world, lambda: box.chat(world), callers=20, within=0.01)
            await world.at(60)
            assert {pending.got.status for pending in [first, *asked]} == {200}
            (pod,) = world.alive()
            assert pod["upstream"]["requests"] == 22

    scenario(play, seed=seed)


def test_caller_who_wants_to_be_told_at_once_starts_the_model_for_those_who_follow() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            told = await box.chat(world, prefer="wait=0")
            assert (told.status, told.error["code"], told.at < 1) == (503, "model_starting", True)
            assert 1 <= int(told.headers[b"retry-after"]) <= 60
            await world.at(30)
            assert (await box.chat(world, prefer="wait=0")).error["phase"] == "requested"
            await world.at(60)
            assert (await box.chat(world)).status == 200
            assert (await box.chat(world, prefer="wait=0")).status == 200
            assert len(world.creates()) == 1

    scenario(play)
