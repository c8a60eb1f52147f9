"""What becomes of a model whose starts fail again and again in one data centre?

The same bad host met twice is all that can be told of it: the next starts are asked for elsewhere, as long as there is
an elsewhere, and whoever looks is told so.
"""

import json
from typing import Any

import pytest

from tests.scenarios.world import A40, L40S, Box, World, scenario

BAD = "US-KS-2"
ONLY_THERE = {"EU-NL-1": ["*"], "US-TX-3": ["*"]}
ERRS = {BAD: {"status": "ERROR"}}
HOLD_S = 600


async def fail_twice(world: World, box: Box) -> None:
    """Two starts come to stand where everything fails; then the hold after them is over."""
    for number in (1, 2):
        world.soon(box.chat(world))
        await world.until(lambda: len(world.creates()) == number and not world.alive(), within=7200)  # noqa: B023
        await world.at(world.now_s + 60)
    await world.at(world.now_s + HOLD_S + 60)


def orders(world: World) -> list[Any]:
    """The places that each create named."""
    sent = [call for call in world.emulator.calls if (call.method, call.path) == ("POST", "/v2/pods")]
    return [json.loads(call.body or "{}").get("dataCenterIds") for call in sent]


def places(world: World) -> list[str | None]:
    return [pod.place for pod in world.emulator.pods.values()]


async def explained(box: Box) -> list[dict[str, Any]]:
    lines = (await box.operators.get("/v1/models/m1/explain"))["lines"]
    return [line for line in lines if "that place is avoided" in line["text"]]


@pytest.mark.parametrize("befalls", [{"status": "ERROR"}, {"status": "EXITED"}, {"upstream": {"state": "booting"}}])
def test_after_two_failed_starts_in_one_place_the_next_is_asked_for_in_the_others(befalls: dict[str, Any]) -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            await fail_twice(world, box)
            assert orders(world) == [None, None]
            (line,) = await explained(box)
            assert f"failed 2 times in {BAD} with {L40S}" in line["text"]
            assert line["until"] is not None
            world.emulator.change_settings({"sold_out": {}})
            waiting = world.soon(box.chat(world))
            await world.until(lambda: waiting.done, within=900)
            assert waiting.got.status == 200
        assert orders(world)[-1] == ["EU-NL-1", "US-TX-3"]
        assert places(world)[:2] == [BAD, BAD]
        assert places(world)[2] != BAD
        assert world.events("create.submitted")[-1]["detail"]["avoids"] == [{"offer": L40S, "place": BAD}]

    scenario(play, sold_out=ONLY_THERE, bad_places={BAD: befalls}, stock={A40: "NONE"})


def test_what_failed_is_still_known_to_the_daemon_after_a_restart() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            await fail_twice(world, box)
        world.emulator.change_settings({"sold_out": {}})
        async with world.box() as box:
            await world.at(world.now_s + 30)
            waiting = world.soon(box.chat(world))
            await world.until(lambda: waiting.done, within=900)
            assert waiting.got.status == 200
        assert orders(world)[-1] == ["EU-NL-1", "US-TX-3"]

    scenario(play, sold_out=ONLY_THERE, bad_places=ERRS, stock={A40: "NONE"})


def test_where_there_is_a_machine_only_in_the_bad_place_it_is_taken_in_the_second_round() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            await fail_twice(world, box)
            world.emulator.change_settings({"bad_places": {}})
            waiting = world.soon(box.chat(world))
            await world.until(lambda: waiting.done, within=900)
            assert waiting.got.status == 200
            assert await explained(box) == []  # it came to serve there
        assert places(world) == [BAD, BAD, BAD]
        assert [order for order in orders(world) if order is not None] == [["EU-NL-1", "US-TX-3"]]

    scenario(play, sold_out=ONLY_THERE, bad_places=ERRS, stock={A40: "NONE"})


def test_a_changed_config_ends_it() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            await fail_twice(world, box)
        world.emulator.change_settings({"bad_places": {}})
        world.configure("m1", extra="disk_gb = 90")
        async with world.box() as box:
            waiting = world.soon(box.chat(world))
            await world.until(lambda: waiting.done, within=900)
            assert await explained(box) == []
        assert orders(world)[-1] is None

    scenario(play, sold_out=ONLY_THERE, bad_places=ERRS, stock={A40: "NONE"})


def test_of_two_volumes_the_one_in_the_bad_place_is_passed_over() -> None:
    async def play(world: World) -> None:
        for volume, place in (("vol1", BAD), ("vol2", "US-TX-3")):
            world.emulator.put_volume({"id": volume, "name": volume, "size": 100, "dataCenter": place})
        world.configure("m1", extra=f'volumes = {{ "{BAD}" = "vol1", "US-TX-3" = "vol2" }}')
        async with world.box() as box:
            await fail_twice(world, box)
            waiting = world.soon(box.chat(world))
            await world.until(lambda: waiting.done, within=900)
            assert waiting.got.status == 200
        asked = [line["detail"]["offer"] for line in world.events("create.submitted")]
        assert asked == [f"{L40S} @ {BAD}", f"{L40S} @ {BAD}", f"{A40} @ {BAD}", f"{L40S} @ US-TX-3"]

    scenario(play, bad_places=ERRS, stock={A40: "NONE"})


def test_with_its_one_volume_in_the_bad_place_a_model_is_started_there_all_the_same_and_that_is_told() -> None:
    async def play(world: World) -> None:
        world.emulator.put_volume({"id": "vol1", "name": "vol1", "size": 100, "dataCenter": BAD})
        world.configure("m1", extra=f'volumes = {{ "{BAD}" = "vol1" }}\nmodel_size_gb = 3000')
        async with world.box() as box:
            await fail_twice(world, box)
            world.soon(box.chat(world))
            await world.until(lambda: world.alive() != [], within=300)
            await world.at(world.now_s + 1)
            (line,) = await explained(box)
            assert "there is one there all the same" in line["text"]

    scenario(play, bad_places={BAD: {"upstream": {"state": "booting"}}}, stock={A40: "NONE"})
