"""What does a clock that jumps, sleeps or lies stop or start? Only what time really made due (B40)."""

from datetime import datetime, timedelta

import anyio
import pytest

from controller.daemon.built import Daemon
from tests.scenarios.world import World, scenario, seconds

HOUR, YEAR = timedelta(hours=1), timedelta(days=365)


async def last_use(world: World, daemon: Daemon) -> float:
    """The second after which the one deployment was not used any more."""
    await anyio.sleep(40)
    (record,) = daemon.store.book.live()
    used_at: datetime = max(at for at in (record.last_byte_at, record.ready_at) if at is not None)
    return world.now_s - (daemon.store.now - used_at).total_seconds()


@pytest.mark.parametrize("ahead", [2 * HOUR, -2 * HOUR, YEAR])
def test_a_wall_that_jumps_stops_nothing_early_and_keeps_nothing_late(ahead: timedelta) -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            await box.chat(world)
            used_s = await last_use(world, box.daemon)
            await world.at(100)
            world.clock.ahead = ahead
            await world.at(used_s + 295)
            assert world.deletes() == []
            await world.until(lambda: bool(world.deletes()), within=65)
            (line,) = world.events("clock.jumped")
            assert (line["detail"]["by_seconds"], line["detail"]["followed"]) == (ahead.total_seconds(), False)
            assert [line["detail"]["alarm"] for line in world.events("alarm.raised")] == ["clock"]

    scenario(play)


@pytest.mark.parametrize("ahead", [2 * HOUR, -2 * HOUR])
def test_a_wall_that_jumps_under_a_live_stream_stops_nothing(ahead: timedelta) -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            await box.chat(world)
            streaming = world.soon(box.chat(world, stream=True, max_tokens=600))
            await world.at(100)
            world.clock.ahead = ahead
            await world.until(lambda: streaming.done, within=700)
            assert streaming.got.status == 200
            assert world.deletes() == []
            assert {line["event"] for line in world.evidence() if line["event"].startswith("stop")} == set()

    scenario(play, token_rate=1)


@pytest.mark.parametrize("offset_s", [7200, -7200, 365 * 86400])
def test_a_provider_whose_date_is_wrong_does_not_matter(offset_s: int) -> None:
    async def play(world: World) -> None:
        world.configure("m1", "m2")
        async with world.box() as box:
            assert (await box.chat(world)).status == 200
            used_s = await last_use(world, box.daemon)
            await world.at(used_s + 295)
            assert world.deletes() == []
            await world.until(lambda: bool(world.deletes()), within=65)
            assert (await box.chat(world, "m2")).status == 200
            assert world.events("clock.jumped") == []
            assert [line["detail"]["alarm"] for line in world.events("alarm.raised")] == ["clock-disagrees"]

    scenario(play, clock_offset_seconds=offset_s)


@pytest.mark.parametrize("ahead", [YEAR, -2 * HOUR, 2 * HOUR])
@pytest.mark.parametrize("reboot", [False, True])
def test_a_restart_under_a_wrong_wall_stops_nothing_early_and_starts_what_is_asked(
    ahead: timedelta, reboot: bool
) -> None:
    async def play(world: World) -> None:
        world.configure("m1", "m2")
        async with world.box() as box:
            await box.chat(world)
            used_s = await last_use(world, box.daemon)
        world.clock.ahead = ahead
        if reboot:
            world.clock.reboot(seconds(60))
        async with world.box() as box:
            await world.at(used_s + 250)
            assert world.deletes() == []
            if not reboot or ahead > timedelta():
                assert (await box.chat(world, "m2")).status == 200
            await world.until(lambda: bool(world.deletes()), within=130)
            assert world.now_s >= used_s + 295

    scenario(play)


def test_after_a_reboot_of_an_hour_what_fell_due_is_stopped_as_soon_as_the_provider_tells_the_time() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            await box.chat(world)
        world.clock.reboot(HOUR)
        began_s = world.now_s
        async with world.box():
            await world.until(lambda: not world.alive(), within=100)
            assert world.now_s - began_s >= 30
            assert world.events("clock.jumped") == []

    scenario(play)


def test_after_a_sleep_the_provider_is_read_and_gateways_are_heard_before_anything_is_idled_out() -> None:
    """An hour's sleep is an hour for lifetime and money; the idle stop that fell due in it waits for a new look."""

    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            await box.chat(world)
            await world.at(100)
            world.clock.suspend(HOUR)
            woken_s = world.now_s
            await world.until(lambda: bool(world.deletes()), within=420)
            listings = [call["s"] for call in world.calls("GET") if call["path"].startswith("/v2/pods")]
            (stopped,) = world.events("obligation.due")
            assert stopped["reason"] == "idle"
            assert any(woken_s <= at < world.deletes()[0]["s"] for at in listings)
            assert world.deletes()[0]["s"] >= woken_s + 30

    scenario(play)


def test_a_frozen_machine_learns_from_wall_and_provider_that_time_passed() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            await box.chat(world)
            streaming = world.soon(box.chat(world, stream=True, max_tokens=400))
            await world.at(100)
            world.clock.freeze(HOUR)
            await anyio.sleep(90)
            assert abs(box.daemon.store.now - world.clock.true()) <= seconds(1)
            assert world.deletes() == []
            (line,) = [line for line in world.events("clock.jumped") if line["detail"]["followed"]]
            assert abs(line["detail"]["by_seconds"] - 3600) <= 2
            await world.until(lambda: streaming.done, within=500)
            assert streaming.got.status == 200
            assert world.deletes() == []

    scenario(play, token_rate=1)
