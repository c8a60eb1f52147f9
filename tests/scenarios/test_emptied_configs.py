"""What becomes of machines when the config that is read at a start has none of their models any more?"""

from pathlib import Path
from typing import Any

import pytest

from controller.api.client import Problem
from controller.settings import load
from tests.scenarios.world import Box, World, scenario


def alarms(status: dict[str, Any]) -> list[str]:
    return [alarm["name"] for alarm in status["alarms"]]


async def confirm(box: Box, config: Path) -> bool:
    """As `config check --confirm` does."""
    found = load(config, {})
    answer = await box.operators.post("/v1/config/confirm", {"digest": found.digest(), "models": list(found.models)})
    return bool(answer["confirmed"])


def test_an_emptied_config_stops_nothing_and_what_runs_is_served_until_it_is_idle() -> None:
    async def play(world: World) -> None:
        world.configure("m1", "m2")
        async with world.front("m1", "m2") as front:
            async with world.box(front=front) as box:
                assert [(await box.chat(world, alias)).status for alias in ("m1", "m2")] == [200, 200]
            world.configure()
            async with world.box(front=front) as box:
                assert (await box.chat(world)).status == 200
                await world.at(world.now_s + 120)
                status = await box.operators.get("/v1/status")
                assert (status["mode"], alarms(status)) == ("former-config", ["config-refused"])
                assert "m1, m2: 2 machines" in status["config"]["refused"]
                assert (world.deletes(), len(world.alive())) == ([], 2)
            world.configure("m1", "m2")
            async with world.box(front=front) as box:
                assert alarms(await box.operators.get("/v1/status")) == []
                await world.until(lambda: not world.alive(), within=600)
                assert {line["reason"] for line in world.events("obligation.due")} == {"idle"}

    scenario(play)


def test_on_the_former_config_nothing_is_started_filled_or_replaced_and_it_is_said_why() -> None:
    async def play(world: World) -> None:
        world.configure("m1", "m2")
        async with world.front("m1", "m2") as front:
            async with world.box(front=front) as box:
                await box.chat(world)
            world.configure()
            async with world.box(front=front) as box:
                with pytest.raises(Problem, match="the config was refused"):
                    await box.operators.post("/v1/models/m1/restart")
                asked = await box.operators.post("/v1/models/m2/start")
                assert asked["model"]["refusal"]["final"]
                told = (await box.operators.get("/v1/models/m2/explain"))["lines"]
                assert told[0]["text"].startswith("not started: the config was refused")
                assert "is not taken" in told[-1]["text"]
                await world.at(world.now_s + 60)
                assert len(world.creates()) == 1

    scenario(play)


@pytest.mark.parametrize("crash", [False, True])
def test_a_confirmed_one_is_taken_and_what_it_removes_is_drained_and_stopped(crash: bool) -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.front("m1") as front:
            async with world.box(front=front) as box:
                await box.chat(world)
                config = world.configure()
                assert await confirm(box, config)
                assert world.deletes() == []
                await world.at(world.now_s + 30)
                assert world.deletes() == []
            async with world.box(front=front, crash=crash):
                if not crash:
                    await world.until(lambda: not world.alive(), within=60)
            async with world.box(front=front) as box:
                await world.until(lambda: not world.alive(), within=60)
                await world.until(lambda: not box.daemon.store.book.live(), within=300)
                status = await box.operators.get("/v1/status")
                assert (status["mode"], alarms(status)) == ("normal", [])
        assert {line["reason"] for line in world.events("obligation.due")} == {"model-removed"}

    scenario(play)


def test_a_word_that_nothing_needs_is_not_kept_for_what_is_started_later() -> None:
    async def play(world: World) -> None:
        config = world.configure("m1")
        full = config.read_text()
        async with world.front("m1") as front:
            async with world.box(front=front) as box:
                world.configure()
                assert not await confirm(box, config)
                await box.chat(world)
            async with world.box(front=front) as box:
                assert box.daemon.mode.name == "former-config"
                await world.at(world.now_s + 60)
                assert world.deletes() == []
        config.write_text(full)

    scenario(play)
