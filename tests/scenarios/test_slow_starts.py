"""What becomes of a start that does not get ready in time?

Case B03: a null runtime is "not yet"; a start that failed is over with proof before anything else is bought.
"""

from tests.scenarios.world import World, scenario


def test_running_without_a_runtime_is_waited_for_until_the_startup_deadline() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            early = world.soon(box.chat(world))
            await world.at(500)
            later = world.soon(box.chat(world))
            await world.at(899)
            assert world.deletes() == []
            assert (early.got.status, early.got.error["code"]) == (503, "model_starting")
            await world.at(901)
            assert len(world.deletes()) == 1
            assert (later.got.status, later.got.error["code"]) == (503, "start_failed")
            assert later.got.error["reason"] == "startup-deadline"
            assert len(world.creates()) == 1

    scenario(play, provisioning=False, boot_seconds=1e9)


def test_a_start_whose_log_tells_of_progress_may_take_twice_its_deadline_and_no_more() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            world.soon(box.chat(world))
            await world.until(lambda: bool(world.alive()), within=30)
            pod = world.alive()[0]["id"]
            for percent in range(100):
                await world.at(60 + 60 * percent)
                if not world.alive():
                    break
                world.emulator.change_pod(
                    pod, {"log": [f"Loading safetensors checkpoint shards: {percent}% Completed"]}
                )
            assert 1800 <= world.deletes()[0]["s"] <= 1805

    scenario(play, upstream={"state": "booting"})


def test_a_start_whose_log_fell_silent_gets_five_minutes_from_its_last_word() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            world.soon(box.chat(world))
            await world.at(800)
            world.emulator.change_pod(world.alive()[0]["id"], {"log": ["Starting to load model"]})
            await world.until(lambda: bool(world.deletes()), within=400)
            assert 1100 <= world.now_s <= 1100 + 75  # as the next look saw it

    scenario(play, upstream={"state": "booting"})


def test_next_create_follows_the_proof_that_the_failed_pod_is_gone() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            world.soon(box.chat(world))
            await world.at(890)
            world.emulator.change_settings({"boot_seconds": 10, "ready_seconds": 20})
            await world.at(905)
            second = world.soon(box.chat(world))
            await world.until(lambda: second.done, within=200)
            assert second.got.status == 200
        order = [line for line in world.evidence() if line["event"] in ORDERED]
        assert [line["event"] for line in order] == ORDERED
        first, next_one = world.pods()
        assert world.deletes()[0]["s"] < 905 <= world.creates()[1]["s"]
        assert first["gpu"] == next_one["gpu"]  # from the first GPU type again
        assert first["deleted_at"] + 40 <= next_one["created_at"]  # still listed for so long

    scenario(play, provisioning=False, boot_seconds=1e9, stop_lag_seconds=40)


ORDERED = ["create.submitted", "stop.submitted", "obligation.discharged", "create.submitted"]


def test_pod_whose_model_server_never_answers_is_stopped_at_the_deadline_whatever_callers_do() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            for second in range(0, 900, 60):
                await world.at(second)
                world.soon(box.chat(world, prefer="wait=0"))
            await world.until(lambda: not world.alive(), within=70)
            assert world.pods()[0]["billed_seconds"] <= 905
            assert len(world.creates()) == 1

    scenario(play, upstream={"state": "booting"})
