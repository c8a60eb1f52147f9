"""Is a start given up when everybody left, and never one that somebody waits for or may come back for?"""

from functools import partial
from typing import Any

import anyio
import pytest

from tests.scenarios.world import Answered, Box, Pending, World, scenario

GIVES_UP = 'abandon_after = "2m"'
BOOT_S = 400


async def leave_after(seconds: float, world: World, box: Box, **options: Any) -> None:
    with anyio.move_on_after(seconds):
        await box.chat(world, **options)


@pytest.mark.parametrize("stream", [False, True])
def test_a_start_that_all_have_left_is_given_up_and_who_comes_later_gets_another(stream: bool) -> None:
    async def play(world: World) -> None:
        world.configure("m1", extra=GIVES_UP)
        async with world.box() as box, anyio.create_task_group() as group:
            for seconds in (10, 20, 30):
                group.start_soon(partial(leave_after, seconds, world, box, stream=stream))
            await world.until(lambda: bool(world.deletes()), within=200)
            assert 150 <= world.now_s <= 155
            (due,) = [line for line in world.events("obligation.due") if line["reason"] == "abandoned"]
            assert due["model"] == "m1"
            await world.at(world.now_s + 60)
            world.emulator.change_settings({"boot_seconds": 30})
            answer = await box.chat(world)
            assert (answer.status, len(world.creates())) == (200, 2)

    scenario(play, boot_seconds=BOOT_S)


def test_by_default_nothing_that_starts_is_given_up() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            await leave_after(10, world, box)
            await world.at(BOOT_S + 100)
            assert (world.deletes(), box.daemon.store.book.live("m1")[0].phase.value) == ([], "active")

    scenario(play, boot_seconds=BOOT_S)


def test_while_one_waits_nothing_is_given_up_though_the_daemon_is_killed_meanwhile() -> None:
    async def play(world: World) -> None:
        world.configure("m1", extra=GIVES_UP)
        asked: list[Pending] = []
        async with world.front("m1") as front:
            for crash in (True, False):
                async with world.box(front=front, crash=crash) as box:
                    if not asked:
                        asked.append(world.soon(box.chat(world)))
                    await world.at(world.now_s + 130)
                await world.at(world.now_s + 20)
            async with world.box(front=front):
                await world.until(lambda: asked[0].done, within=300)
                assert (asked[0].got.status, len(world.creates()), world.deletes()) == (200, 1, [])

    scenario(play, boot_seconds=BOOT_S)


def test_who_was_told_to_come_back_finds_it_though_the_daemon_was_killed_meanwhile() -> None:
    async def play(world: World) -> None:
        world.configure("m1", extra=GIVES_UP)
        answers: list[Answered] = []
        async with world.front("m1") as front:
            while not answers or answers[-1].status != 200:
                async with world.box(front=front, crash=True) as box:
                    await world.at(world.now_s + 20)
                    answers.append(await box.chat(world, prefer="wait=0"))
                    assert answers[-1].status == 200 or 1 <= int(answers[-1].headers[b"retry-after"]) <= 60
                    await world.at(world.now_s + int(answers[-1].headers.get(b"retry-after", b"1")))
            assert (len(world.creates()), world.deletes()) == (1, [])
            assert len(answers) > 4

    scenario(play, boot_seconds=BOOT_S)


def test_what_an_operator_started_is_not_given_up() -> None:
    async def play(world: World) -> None:
        world.configure("m1", extra=GIVES_UP)
        async with world.front("m1") as front:
            async with world.box(front=front, crash=True) as box:
                await world.at(1)
                await box.operators.post("/v1/models/m1/start")
                await world.at(60)
            async with world.box(front=front) as box:
                await world.at(BOOT_S + 100)
                assert (world.deletes(), box.daemon.store.book.live("m1")[0].phase.value) == ([], "active")

    scenario(play, boot_seconds=BOOT_S)
