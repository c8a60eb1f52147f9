"""What does a model that always crashes cost, and are those who ask for it told?

Cases B19 and B21, and the demand of a whole day against it.
"""

from datetime import datetime

import anyio

from controller.emulators.runpod import pods
from tests.scenarios.world import Answered, Box, Pending, World, scenario
from tests.support.loop_clock import BEGIN

DAY_S = 24 * 3600
REQUESTS = 100
STARTS_PER_DAY = 12
CRASHING = {"state": "crashing", "crash_every_seconds": 40}


def second_of(stamp: str) -> float:
    return (datetime.fromisoformat(stamp) - BEGIN).total_seconds()


def failures(world: World) -> list[float]:
    """The seconds at which a start was given up."""
    return [second_of(line["at"]) for line in world.events("obligation.due") if line["reason"] == "crash-loop"]


def test_a_hundred_requests_a_day_for_a_model_that_always_crashes_make_no_more_pods_than_configured() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        asked: list[tuple[float, Pending]] = []
        async with world.box() as box:
            for number in range(REQUESTS):
                # Every fourth comes together with the one before it.
                await world.at((number - (number % 4 == 3)) * DAY_S / REQUESTS)
                asked.append((world.now_s, world.soon(box.chat(world))))
            await world.until(lambda: all(pending.done for _, pending in asked), within=700)
            await anyio.sleep(DAY_S - world.now_s if world.now_s < DAY_S else 5)
        made = [pod["created_at"] - BEGIN.timestamp() for pod in world.pods()]
        assert 3 <= len([at for at in made if at < DAY_S]) <= STARTS_PER_DAY
        assert not world.alive()
        ended = failures(world)
        for at, pending in asked:
            told_in_time(at, pending.got, ended)

    scenario(play, upstream=CRASHING, ready_seconds=60)


def told_in_time(asked_at: float, got: Answered, ended: list[float]) -> None:
    """Within a second of asking, or of the failure of the start that was waited for; and it is told why."""
    assert got.status == 503
    assert got.error["code"] in {"start_failed", "model_blocked"}
    assert "crash-loop" in got.error["reason"] or "too many starts" in got.error["reason"]
    since = max([asked_at, *(at for at in ended if at <= got.at)])
    assert got.at - since <= 1, (asked_at, got, ended)


def test_a_server_that_starts_anew_inside_a_container_that_stays_is_a_crash_loop() -> None:
    """Neither `startedAt` nor the uptime moves: its own metrics tell it."""

    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            assert (await box.chat(world)).status == 200
            (pod,) = world.alive()
            world.emulator.change_pod(pod["id"], {"upstream": {"respawn_every_seconds": 70}})
            begun = world.now_s
            await world.until(lambda: not world.alive(), within=700)
            assert 210 <= world.now_s - begun <= 280
            await anyio.sleep(1)
            assert failures(world)
            shown = world.emulator.pods[pod["id"]]
            assert pods.first_started_at(shown, world.emulator.settle(), moves=True) == shown.boot.container_at

    scenario(play)


def test_a_loop_that_goes_over_two_machines_is_found_at_its_third_death() -> None:
    """The first dies twice and vanishes; the next one dies once, from the same configuration and within ten minutes."""

    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            asking = world.soon(box.chat(world))
            await world.at(20 + 2 * 40 + 20)
            world.emulator.change_pod(world.alive()[0]["id"], {"vanish": True})
            await world.until(lambda: len(world.pods()) == 2, within=400)
            second = world.pods()[1]["created_at"] - BEGIN.timestamp()
            await world.until(lambda: bool(failures(world)), within=200)
            assert failures(world)[0] - second <= 20 + 40 + 60, "its own first death, seen within a listing or two"
            await world.until(lambda: asking.done and not world.alive(), within=60)
            assert (asking.got.status, asking.got.error["reason"]) == (503, "crash-loop")

    scenario(play, upstream=CRASHING, ready_seconds=1e6)


def test_deaths_before_and_after_our_own_death_are_one_loop() -> None:
    """Killed between the second death and the third (B21): it is one failed start, and the next one is allowed."""

    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box(crash=True) as box:
            world.soon(box.chat(world))
            await world.at(20 + 2 * 40 + 25)
            assert failures(world) == []
        async with world.box() as box:
            await world.until(lambda: bool(failures(world)), within=60)
            await world.until(lambda: not world.alive(), within=10)
            assert world.pods()[0]["billed_seconds"] <= 20 + 3 * 40 + 60
            assert box.daemon.store.book.memory("m1").failures == 1
            await world.until(lambda: not box.daemon.store.book.live(), within=300)
            world.soon(box.chat(world))
            await world.until(lambda: len(world.creates()) == 2, within=60)

    scenario(play, upstream=CRASHING, ready_seconds=1e6)


async def until_held(box: Box, world: World) -> Answered:
    """Ask until the model is held; returns what is then told."""
    while True:
        got = await box.chat(world)
        if got.error["code"] == "model_blocked":
            return got


def test_a_hold_survives_our_restart_and_ends_by_an_operator_or_by_a_changed_config() -> None:
    async def play(world: World) -> None:
        world.configure("m1", policy="starts_per_hour = 40")
        async with world.box(crash=True) as box:
            await until_held(box, world)
        made = len(world.pods())
        async with world.box() as box:
            asked_at = world.now_s
            got = await until_held(box, world)
            assert (got.at - asked_at <= 1, len(world.pods())) == (True, made)
            await box.operators.post("/v1/models/m1/unblock", {})
            assert (await box.chat(world)).error["code"] == "start_failed"
            assert len(world.pods()) == made + 1
            await until_held(box, world)
        held = len(world.pods())
        world.configure("m1", extra="max_num_seqs = 4", policy="starts_per_hour = 40")
        async with world.box() as box:
            assert (await box.chat(world)).error["code"] == "start_failed"
            assert len(world.pods()) == held + 1

    scenario(play, upstream=CRASHING, ready_seconds=60)


BAD_FLAG = "vllm serve: error: unrecognized arguments: --frobnicate"


def test_those_who_wait_and_those_who_look_are_told_what_the_log_says_it_died_of() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            for code in ("start_failed", "start_failed", "model_blocked"):
                asking = world.soon(box.chat(world))
                if code == "start_failed":
                    await world.until(lambda: bool(world.alive()), within=30)
                    world.emulator.change_pod(world.alive()[0]["id"], {"log": [BAD_FLAG]})
                await world.until(lambda pending=asking: pending.done, within=600)  # type: ignore[misc]
                assert asking.got.error["code"] == code
                assert "does not know one of its arguments (bad-flag)" in asking.got.error["reason"]
            await world.until(lambda: not box.daemon.store.book.live(), within=300)
            lines = (await box.operators.get("/v1/models/m1/explain"))["lines"]
            assert "bad-flag" in lines[0]["text"]
            assert "until an operator unblocks it or its config changes" in lines[0]["text"]
            await anyio.sleep(1)
            causes = [line["detail"]["cause"] for line in world.events("obligation.due")]
            assert causes == ["bad-flag", "bad-flag"]
            assert "frobnicate" not in (world.state / "evidence.jsonl").read_text()

    scenario(play, upstream=CRASHING, ready_seconds=60)
