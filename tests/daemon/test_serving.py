"""What does the running daemon tell of a duty that nobody pursues yet?"""

from tests.scenarios.world import World, scenario


def test_a_duty_whose_stop_is_not_wanted_waits_for_no_proof() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            assert (await box.chat(world)).status == 200
            (duty,) = (await box.operators.get("/v1/obligations"))["obligations"]
            assert (duty["due"], duty["waiting_for"]) == (False, "nothing: no stop is wanted yet")
            await box.operators.post("/v1/stop", {"now": True})
            (duty,) = (await box.operators.get("/v1/obligations"))["obligations"]
            assert (duty["due"], duty["waiting_for"]) == (True, "a complete listing without it")

    scenario(play)
