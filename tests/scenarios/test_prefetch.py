"""Are a model's volumes filled before anybody asks, and by what is stopped as soon as that is done?"""

from datetime import timedelta
from typing import Any

import pytest

from tests.scenarios.test_places import A40_HERE, BESIDE_1, BESIDE_2, asked_for, configure
from tests.scenarios.world import L40S, Box, World, scenario

PREFETCH = "/v1/models/m1/prefetch"


async def told(box: Box, place: str) -> dict[str, Any]:
    """The latest deployment that was to fill the volume there."""
    known = (await box.operators.get("/v1/deployments"))["deployments"]
    found: dict[str, Any] = [entry for entry in known if entry["fills"] == place][-1]
    return found


async def filled(world: World, box: Box, *places: str) -> None:
    for place in places:
        await box.operators.post(PREFETCH, {"place": place})
    await world.until(lambda: len(world.events("obligation.discharged")) == len(places), within=600)


def test_each_volume_is_filled_by_a_machine_beside_it_that_is_stopped_when_it_could_serve() -> None:
    async def play(world: World) -> None:
        configure(world)
        async with world.box() as box:
            await box.operators.post(PREFETCH)
            await world.until(lambda: len(world.events("obligation.discharged")) == 2, within=600)
            ends = [(await told(box, place))["reason"] for place in ("US-TX-3", "US-KS-2")]
        assert asked_for(world) == [BESIDE_1, BESIDE_2]
        pods = world.emulator.pods.values()
        assert [pod.mounts["network"][0]["volumeId"] for pod in pods] == ["vol1", "vol2"]
        assert (ends, world.alive()) == (["prefetched", "prefetched"], [])
        assert [line["phase"]["to"] for line in world.events("deployment.phase")].count("active") == 0

    scenario(play)


def test_what_fills_a_volume_is_routed_to_by_nobody_and_delays_no_start() -> None:
    async def play(world: World) -> None:
        configure(world)
        async with world.box() as box:
            await box.operators.post(PREFETCH, {"place": "US-TX-3"})
            await world.until(lambda: len(world.alive()) == 1, within=60)
            (before,) = (await box.operators.get("/v1/models"))["models"]
            waiting = world.soon(box.chat(world))
            await world.until(lambda: waiting.done, within=300)
            assert waiting.got.status == 200
            await world.until(lambda: len(world.alive()) == 1, within=300)
            serving = (await told(box, "US-TX-3"))["id"]
            (after,) = (await box.operators.get("/v1/models"))["models"]
        assert (before["phase"], before["routes"], after["phase"]) == ("prefetching", 0, "ready")
        assert (before["prefetches"], after["prefetches"]) == ([{"place": "US-TX-3", "deployment": serving}], [])
        assert len(world.creates()) == 2

    scenario(play)


def test_a_wish_is_one_attempt_and_what_is_under_way_is_named_instead_of_asked_for_again() -> None:
    async def play(world: World) -> None:
        configure(world)
        async with world.box() as box:
            await box.operators.post(PREFETCH, {"place": "US-TX-3"})
            await world.until(lambda: len(world.alive()) == 1, within=60)
            again = await box.operators.post(PREFETCH, {"place": "US-TX-3"})
            await world.until(lambda: len(world.events("obligation.discharged")) == 1, within=600)
            await world.at(world.now_s + 200)
            assert again["places"][0]["deployment"] == (await told(box, "US-TX-3"))["id"]
        assert len(world.creates()) == 1

    scenario(play)


def test_a_place_that_is_sold_out_is_told_in_the_provider_s_words_and_keeps_nobody_waiting_elsewhere() -> None:
    async def play(world: World) -> None:
        configure(world)
        async with world.box() as box:
            await box.operators.post(PREFETCH, {"place": "US-TX-3"})
            await world.until(lambda: len(world.events("create.answered")) == 2, within=60)
            await world.at(world.now_s + 1)
            refused = await told(box, "US-TX-3")
            waiting = world.soon(box.chat(world))
            await world.until(lambda: len(world.alive()) == 1, within=5)
            await world.until(lambda: waiting.done, within=300)
        assert (refused["phase"], waiting.got.status) == ("cancelled", 200)
        assert "instances" in refused["refused"]
        assert asked_for(world)[:2] == [BESIDE_1, A40_HERE]

    scenario(play, sold_out={"US-TX-3": ["*"]})


@pytest.mark.parametrize(
    ("usd_per_day", "policy", "code"),
    [(0.4, "", "budget_exhausted"), (200, "max_active = 1", "refused")],
)
def test_no_more_is_rented_to_fill_a_volume_than_money_and_limits_allow(
    usd_per_day: float, policy: str, code: str
) -> None:
    async def play(world: World) -> None:
        configure(world, policy=policy, usd_per_day=usd_per_day)
        async with world.box() as box:
            for _ in range(2):
                await box.operators.post(PREFETCH)
                await world.at(world.now_s + 2)
            answer = await box.operators.post(PREFETCH)
        assert answer["places"][-1]["refusal"]["code"] == code
        assert len(world.creates()) == (0 if code == "budget_exhausted" else 1)

    scenario(play)


def test_money_is_held_for_no_longer_than_a_start_may_take() -> None:
    async def play(world: World) -> None:
        configure(world)
        async with world.box() as box:
            await box.operators.post(PREFETCH, {"place": "US-TX-3"})
            await world.until(lambda: len(world.alive()) == 1, within=60)
            spend = await box.operators.get("/v1/spend")
        assert spend["held_usd"] == "1"  # 2 USD an hour, for twice the startup deadline of 900 s

    scenario(play)


def test_one_that_never_serves_is_stopped_at_the_startup_deadline_and_counts_as_a_failed_start() -> None:
    async def play(world: World) -> None:
        configure(world)
        async with world.box() as box:
            waiting = None
            for _ in range(2):
                await box.operators.post(PREFETCH, {"place": "US-TX-3"})
                count = len(world.creates())
                await world.until(lambda: len(world.creates()) > count, within=60)  # noqa: B023
                await world.until(lambda: not world.alive(), within=1900)
                await world.at(world.now_s + 60)
            (blocked,) = (await box.operators.get("/v1/models"))["models"]
            waiting = (await told(box, "US-TX-3"))["reason"]
        assert (waiting, blocked["blocked"]) == ("startup-deadline", "startup-deadline")

    scenario(play, ready_seconds=100_000)


@pytest.mark.parametrize("crash", [False, True])
def test_one_that_was_under_way_is_filled_by_the_next_daemon_and_stopped(crash: bool) -> None:
    async def play(world: World) -> None:
        configure(world)
        async with world.box(crash=crash) as box:
            await box.operators.post(PREFETCH, {"place": "US-TX-3"})
            await world.until(lambda: len(world.alive()) == 1, within=60)
        async with world.box() as box:
            await world.until(lambda: len(world.events("obligation.discharged")) == 1, within=600)
            assert (await told(box, "US-TX-3"))["reason"] == "prefetched"
        assert (len(world.creates()), world.alive()) == (1, [])

    scenario(play)


def test_one_whose_create_s_answer_was_lost_is_found_goes_on_and_is_stopped_when_filled() -> None:
    async def play(world: World) -> None:
        configure(world)
        lost = {"match": {"method": "POST", "path": "/v2/pods"}, "times": 1, "do": {"answer": 500, "effect": True}}
        world.emulator.add_faults([lost])
        async with world.box() as box:
            await filled(world, box, "US-TX-3")
            assert (await told(box, "US-TX-3"))["reason"] == "prefetched"
        assert (len(world.creates()), world.alive()) == (1, [])

    scenario(play)


def test_a_stop_of_the_model_ends_what_fills_its_volumes_too() -> None:
    async def play(world: World) -> None:
        configure(world)
        async with world.box() as box:
            await box.operators.post(PREFETCH)
            await world.until(lambda: len(world.alive()) == 2, within=60)
            await box.operators.post("/v1/models/m1/stop")
            await world.until(lambda: world.alive() == [], within=60)
            lines = (await box.operators.get("/v1/models/m1/explain"))["lines"]
        assert any("operator-request" in line["text"] for line in lines)

    scenario(play)


def test_explain_says_what_is_being_filled_and_until_when_at_most() -> None:
    async def play(world: World) -> None:
        configure(world)
        async with world.box() as box:
            await box.operators.post(PREFETCH, {"place": "US-KS-2"})
            await world.until(lambda: len(world.alive()) == 1, within=60)
            lines = (await box.operators.get("/v1/models/m1/explain"))["lines"]
        (line,) = [line for line in lines if line["text"].startswith("filling the volume in US-KS-2")]
        assert L40S in line["text"]
        assert line["until"] is not None
        assert any(line["text"].startswith("off") for line in lines)

    scenario(play)


def test_an_operator_s_stop_of_it_dismisses_no_window_in_which_the_model_is_kept_warm() -> None:
    async def play(world: World) -> None:
        configure(world, extra='keep_warm = ["00:00-24:00"]')
        async with world.box() as box:
            await box.operators.post(PREFETCH, {"place": "US-KS-2"})
            await world.until(lambda: len(world.creates()) == 2, within=60)
            await box.operators.post(f"/v1/deployments/{(await told(box, 'US-KS-2'))['id']}/stop")
            await world.at(world.now_s + timedelta(hours=1).total_seconds())
            (model,) = (await box.operators.get("/v1/models"))["models"]
        assert (model["phase"], len(world.alive())) == ("ready", 1)

    scenario(play)
