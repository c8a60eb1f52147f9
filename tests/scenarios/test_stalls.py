"""Are two cards that wait for each other for ever stopped, by what their log says and by nothing less?"""

import anyio

from tests.scenarios.world import Box, World, scenario

BLOCK = "INFO shm_broadcast.py:501] No available shared memory broadcast block found in 60 seconds."
MET = "pod:1:1 [0] NCCL INFO comm 0x1 rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0"
TWO_CARDS = """
[models.m1]
model = "org/m1"
image = "vllm/vllm-openai:v0.31.0"
gpus = ["NVIDIA A40"]
gpu_count = 2
context = 4096
startup_deadline = "2h"
"""


async def writing(world: World, pod: str, *texts: str, minutes: int) -> None:
    """One of these lines a minute, in turn, for as long as it lives."""
    for minute in range(minutes):
        if not world.alive():
            return
        world.emulator.change_pod(pod, {"log": [texts[minute % len(texts)]]})
        await anyio.sleep(60)


async def begun(world: World, box: Box) -> str:
    world.soon(box.chat(world))
    await world.until(lambda: bool(world.alive()), within=30)
    return str(world.alive()[0]["id"])


def reasons(world: World) -> list[str]:
    return [line["reason"] for line in world.events("obligation.due")]


def test_ten_minutes_of_waiting_for_each_other_are_stopped_and_told() -> None:
    async def play(world: World) -> None:
        world.write(TWO_CARDS)
        async with world.box() as box:
            pod = await begun(world, box)
            await anyio.sleep(60)
            began = world.now_s
            await writing(world, pod, BLOCK, minutes=20)
            assert 600 <= world.now_s - began <= 600 + 180
            assert reasons(world) == ["multi-card-stall"]
            assert box.daemon.store.book.memory("m1").failures == 1

    scenario(play, upstream={"state": "booting"})


def test_a_line_about_anything_else_every_nine_minutes_keeps_it() -> None:
    async def play(world: World) -> None:
        world.write(TWO_CARDS)
        async with world.box() as box:
            pod = await begun(world, box)
            await writing(world, pod, *([BLOCK] * 8), "INFO compiling", minutes=40)
            assert reasons(world) == []

    scenario(play, upstream={"state": "booting"})


def test_a_log_that_cannot_be_read_stops_nothing() -> None:
    async def play(world: World) -> None:
        world.write(TWO_CARDS)
        world.emulator.add_faults([{"match": {"method": "GET", "path": "/v2/pods/*/logs"}, "do": {"answer": 403}}])
        async with world.box() as box:
            pod = await begun(world, box)
            await writing(world, pod, BLOCK, minutes=40)
            assert reasons(world) == []

    scenario(play, upstream={"state": "booting"})


def test_two_cards_that_met_in_one_machine_are_on_record() -> None:
    async def play(world: World) -> None:
        world.write(TWO_CARDS)
        async with world.box() as box:
            pod = await begun(world, box)
            await anyio.sleep(240)
            (found,) = world.events("qualification.finding")
            assert (found["resource"]["incarnation"], found["detail"]["said"]) == (pod, "yes")
            lines = [line["text"] for line in (await box.operators.get("/v1/models/m1/explain"))["lines"]]
            assert "NCCL counts 2 cards in one machine, which reach each other by SHM" in lines
            assert reasons(world) == []

    scenario(play, upstream={"state": "booting"})
