"""Does every limit that is not written in the config hold all the same?

Case B27: with the shortest config each limit has its default, and each of them fires.
"""

from typing import Any

import anyio
import pytest

from controller.settings.problems import ConfigProblems
from tests.scenarios.world import L40S, World, scenario, seconds

SHORTEST = """
[models.m1]
model = "org/m1"
image = "vllm/vllm-openai:v0.31.0"
gpus = ["NVIDIA L40S", "NVIDIA A40"]
context = 4096
"""


def write_shortest(world: World, extra: str = "", **more: Any) -> None:
    world.write(SHORTEST + extra, **more)


async def reason_of(world: World) -> str:
    await anyio.sleep(1)  # until it is in the file
    reasons = [line["reason"] for line in world.events("obligation.due")]
    return str(reasons[-1])


def test_without_an_idle_limit_a_machine_is_stopped_after_thirty_minutes() -> None:
    async def play(world: World) -> None:
        write_shortest(world)
        async with world.box() as box:
            got = await box.chat(world)
            await world.until(lambda: not world.alive(), within=1900)
            assert got.at + 1799 <= world.now_s <= got.at + 1860
            assert await reason_of(world) == "idle"

    scenario(play)


def test_without_a_startup_deadline_a_machine_of_unknown_size_is_stopped_after_thirty_minutes() -> None:
    async def play(world: World) -> None:
        write_shortest(world)
        async with world.box() as box:
            await box.chat(world, prefer="wait=0")
            await world.until(lambda: bool(world.alive()), within=5)
            await world.until(lambda: not world.alive(), within=1900)
            assert 1799 <= world.now_s <= 1860
            assert await reason_of(world) == "startup-deadline"

    scenario(play, boot_seconds=1e9)


def test_without_a_crash_rule_the_second_restart_within_ten_minutes_ends_it() -> None:
    async def play(world: World) -> None:
        write_shortest(world)
        async with world.box() as box:
            await box.chat(world, prefer="wait=0")
            await world.until(lambda: bool(world.alive()), within=5)
            await world.until(lambda: not world.alive(), within=300)
            assert await reason_of(world) == "crash-loop"
            assert world.pods()[0]["billed_seconds"] <= 20 + 3 * 40 + 60

    scenario(play, upstream={"state": "crashing", "crash_every_seconds": 40})


def test_without_a_lifetime_a_machine_in_use_is_stopped_after_seven_days() -> None:
    """The week is jumped over: what passes of it is seen at the first pass after it."""

    async def play(world: World) -> None:
        write_shortest(world)
        async with world.box() as box:
            await box.chat(world)
            streaming = world.soon(box.chat(world, stream=True, max_tokens=4000))
            await anyio.sleep(60)
            (record,) = box.daemon.store.book.live()
            assert record.spec.requested_lifetime.days == 7
            assert record.started_at is not None
            world.clock.suspend(record.started_at + record.spec.requested_lifetime - world.clock.now())
            before = world.now_s
            await world.until(lambda: bool(world.events("obligation.due")), within=120)
            assert world.now_s - before <= 61
            assert await reason_of(world) == "lifetime-exceeded"
            await world.until(lambda: bool(world.deletes()), within=700)
            del streaming

    scenario(play, token_rate=1)


def test_money_of_the_day_bounds_what_starts_and_the_caller_is_told() -> None:
    async def play(world: World) -> None:
        world.configure("m1", "m2", usd_per_day=30)
        async with world.box() as box:
            assert (await box.chat(world, "m1")).status == 200  # holds 2 USD for each of the day's 12 hours left
            told = await box.chat(world, "m2")
            assert (told.status, told.error["code"]) == (503, "budget_exhausted")
            assert told.at < 60
            assert len(world.creates()) == 1
            assert {pod["gpu"]["id"] for pod in world.pods()} == {L40S}

    scenario(play)


def test_machine_that_tomorrow_cannot_pay_for_is_stopped_at_midnight() -> None:
    async def play(world: World) -> None:
        world.configure("m1", usd_per_day=30)
        async with world.box() as box:
            await box.chat(world)
            streaming = world.soon(box.chat(world, stream=True, max_tokens=40000))
            await anyio.sleep(60)
            midnight = 12 * 3600
            world.clock.suspend(seconds(midnight - world.now_s - 30))
            await world.until(lambda: bool(world.deletes()), within=900)
            assert await reason_of(world) == "spend"
            del streaming

    scenario(play, token_rate=1)


def test_fifth_start_within_an_hour_is_refused_and_told() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            for _ in range(4):
                assert (await box.chat(world)).status == 200
                await box.operators.post("/v1/models/m1/stop", {"now": True})
                await world.until(lambda: not box.daemon.store.book.live(), within=200)
            told = await box.chat(world)
            assert (told.status, told.error["code"]) == (503, "model_blocked")
            assert told.error["reason"] == "too many starts of late"
            assert len(world.creates()) == 4
            await world.at(3605)
            assert (await box.chat(world)).status == 200

    scenario(play, boot_seconds=5, ready_seconds=5)


@pytest.mark.parametrize("wrong", ["0", "-1", '"-5s"', '"0s"', '"for ever"', "inf"])
@pytest.mark.parametrize(
    "key", ["idle_after", "startup_deadline", "max_lifetime", "crash_restart_limit", "max_usd_per_hour", "queue"]
)
def test_limit_that_would_mean_for_ever_is_refused_with_its_name(key: str, wrong: str) -> None:
    async def play(world: World) -> None:
        write_shortest(world, f"{key} = {wrong}\n")
        with pytest.raises(ConfigProblems) as refused:
            async with world.daemon():
                pass
        assert key in str(refused.value)
        write_shortest(world)
        async with world.daemon():
            pass

    scenario(play)


def test_failed_starts_hold_the_model_as_configured() -> None:
    async def play(world: World) -> None:
        world.configure("m1", policy='failed_starts_limit = 1\nhold_first = "30m"')
        async with world.box() as box:
            await box.chat(world)
            await world.until(lambda: not box.daemon.store.book.live(), within=100)
            told = await box.chat(world)
            assert (told.status, told.error["code"]) == (503, "model_blocked")
            memory = box.daemon.store.book.memory("m1")
            assert memory.hold_until is not None and memory.failure is not None
            assert (memory.hold_until - memory.failure.at).total_seconds() == 1800
            assert len(world.creates()) == 1

    scenario(play, ready_seconds=1e6, upstream={"crash_every_seconds": 40})
