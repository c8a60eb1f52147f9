"""Does a model serve when its schedule says so, and cost nothing when it is to be off?

The world begins on 2026-11-29 at 12:00 UTC; windows are of UTC. A start is led by its longest time (900 s) and half a
minute until one was measured.
"""

from datetime import timedelta

import pytest

from tests.scenarios.world import Box, World, scenario

TWO, THREE = 2 * 3600, 3 * 3600
"""14:00 and 15:00, in seconds of the world."""
DAY = 86400
LEAD_S = 930
WARM = 'keep_warm = ["14:00-15:00"]'
OFF = 'off = ["14:00-15:00"]'


def test_it_is_started_in_time_out_of_the_longest_rest_and_kept_until_the_window_ends() -> None:
    async def play(world: World) -> None:
        world.configure("m1", extra=WARM)
        async with world.box() as box:
            await world.at(TWO - LEAD_S - 1)
            assert world.creates() == []
            await world.until(lambda: bool(world.creates()), within=6)
            await world.at(TWO)
            assert (await box.operators.get("/v1/status"))["models"][0]["phase"] == "ready"
            await world.at(THREE - 1)
            assert world.deletes() == []
            await world.until(lambda: bool(world.deletes()), within=65)
            await world.at(THREE + 600)
            assert (len(world.creates()), world.alive()) == (1, [])

    scenario(play)


def test_the_next_day_the_measured_cold_start_leads() -> None:
    async def play(world: World) -> None:
        world.configure("m1", extra=WARM)
        async with world.box() as box:
            await world.at(DAY + TWO)
            took = box.daemon.store.book.memory("m1").cold_start
            assert took is not None
            assert (await box.operators.get("/v1/status"))["models"][0]["phase"] == "ready"
            _, second = [call["s"] for call in world.creates()]
            assert 0 <= second - (DAY + TWO - 30 - took.total_seconds()) < 5

    scenario(play)


def test_what_is_used_beyond_the_window_idles_out_like_any_other() -> None:
    async def play(world: World) -> None:
        world.configure("m1", extra=WARM)
        async with world.box() as box:
            await world.at(THREE - 100)
            assert (await box.chat(world)).status == 200
            await world.at(THREE + 190)
            assert world.deletes() == []
            await world.until(lambda: bool(world.deletes()), within=75)

    scenario(play)


def test_an_operator_s_stop_holds_until_the_next_window_unless_somebody_asks() -> None:
    async def play(world: World) -> None:
        world.configure("m1", extra=WARM)
        async with world.box() as box:
            await world.at(TWO + 60)
            await box.operators.post("/v1/models/m1/stop", {"now": True})
            await world.at(TWO + 900)
            assert (len(world.creates()), world.alive()) == (1, [])
            why = (await box.operators.get("/v1/models/m1/explain"))["lines"]
            assert any("stopped by an operator" in line["text"] for line in why)
            assert (await box.chat(world)).status == 200
            await world.at(THREE - 1)
            assert len(world.alive()) == 1
            await world.at(DAY + TWO)
            assert len(world.creates()) == 3

    scenario(play)


def test_a_machine_that_never_serves_is_not_bought_again_and_again_to_keep_it_warm() -> None:
    async def play(world: World) -> None:
        world.configure("m1", extra='keep_warm = ["00:00-24:00"]')
        async with world.box():
            await world.at(DAY)
            assert 2 <= len(world.creates()) <= 12

    scenario(play, ready_seconds=1e9)


def test_what_cannot_be_afforded_is_not_kept_warm() -> None:
    async def play(world: World) -> None:
        world.configure("m1", extra=WARM, usd_per_day=1)
        async with world.box() as box:
            await world.at(TWO)
            assert world.creates() == []
            why = (await box.operators.get("/v1/status"))["models"][0]["why"]
            assert "limit" in why

    scenario(play)


def test_a_restart_in_the_window_keeps_what_is_warm() -> None:
    async def play(world: World) -> None:
        world.configure("m1", extra=WARM)
        async with world.box(crash=True):
            await world.at(TWO + 60)
        await world.at(TWO + 120)
        async with world.box():
            await world.at(THREE - 1)
            assert (len(world.creates()), world.deletes()) == (1, [])
            await world.until(lambda: bool(world.deletes()), within=65)

    scenario(play)


# Off


async def refused_until_three(world: World, box: Box) -> None:
    refused = await box.chat(world)
    assert refused.status == 503
    assert refused.headers[b"retry-after"] == b"60"
    assert refused.error["code"] == "model_blocked"
    assert "off by its schedule until 2026-11-29 15:00" in refused.error["message"] + str(refused.error)


def test_off_nothing_starts_callers_are_told_and_afterwards_all_is_as_before() -> None:
    async def play(world: World) -> None:
        world.configure("m1", extra=OFF)
        async with world.box() as box:
            await world.at(TWO)
            began = world.now_s
            await refused_until_three(world, box)
            assert world.now_s - began < 1
            status = (await box.operators.get("/v1/status"))["models"][0]
            assert (status["phase"], status["schedule"]) == (
                "off",
                {"stance": "off", "until": "2026-11-29T15:00:00.000Z"},
            )
            await world.at(THREE)
            assert world.creates() == []
            assert (await box.chat(world)).status == 200

    scenario(play)


def test_what_runs_when_off_begins_is_drained_and_stopped() -> None:
    async def play(world: World) -> None:
        world.configure("m1", extra=OFF)
        async with world.box() as box:
            await world.at(TWO - 100)
            assert (await box.chat(world)).status == 200
            streaming = world.soon(box.chat(world, stream=True, max_tokens=150))
            await world.at(TWO + 5)
            (line,) = [line for line in world.events("obligation.due")]
            assert line["reason"] == "operator-request"
            assert world.deletes() == []
            await refused_until_three(world, box)
            await world.until(lambda: streaming.done, within=200)
            assert streaming.got.status == 200
            await world.until(lambda: not world.alive(), within=60)
            await world.until(lambda: not box.daemon.store.book.owed(), within=60)

    scenario(play, token_rate=1)


@pytest.mark.parametrize("away", [(TWO - 60, TWO + 600), (TWO + 1, TWO + 30)])
def test_a_daemon_that_was_away_when_off_began_stops_what_runs_when_it_is_back(away: tuple[int, int]) -> None:
    async def play(world: World) -> None:
        world.configure("m1", extra=OFF)
        async with world.box(crash=True) as box:
            await world.at(TWO - 100)
            await box.chat(world)
            await world.at(away[0])
        await world.at(away[1])
        async with world.box() as box:
            await world.until(lambda: not world.alive(), within=60)
            await refused_until_three(world, box)
            assert len(world.creates()) == 1

    scenario(play)


@pytest.mark.parametrize("ahead", [timedelta(hours=2), timedelta(hours=-2)])
def test_a_wall_clock_that_was_set_moves_no_window(ahead: timedelta) -> None:
    async def play(world: World) -> None:
        world.configure("m1", extra=OFF)
        async with world.box() as box:
            await world.at(TWO - 200)
            await box.chat(world)
            world.clock.ahead = ahead
            await world.at(TWO - 10)
            assert world.deletes() == []
            await world.until(lambda: bool(world.deletes()), within=80)
            assert world.now_s >= TWO - 1

    scenario(play)


def test_off_outweighs_warm() -> None:
    async def play(world: World) -> None:
        world.configure("m1", extra='keep_warm = ["13:00-16:00"]\n' + OFF)
        async with world.box() as box:
            await world.at(TWO - 1)
            assert len(world.alive()) == 1
            await world.at(TWO + 120)
            assert world.alive() == []
            await world.at(THREE - 1)
            assert len(world.creates()) == 1
            await world.at(THREE + 120)
            assert (await box.operators.get("/v1/status"))["models"][0]["phase"] == "ready"

    scenario(play)
