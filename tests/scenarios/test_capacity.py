"""What is done when the machines that a model may have cannot be had, or when the provider wants to be left alone?

Case B45: the declared types in order, never another, one create at a time; what was really got is held against what
was asked. Case B32: a limit is kept by everybody at once, and a stop is the first call after it; before it
comes to that, what is left of a minute is left to stops.
"""

from datetime import timedelta
from email.utils import format_datetime
from typing import Any

import httpx
import pytest

from tests.scenarios.world import A40, ACCOUNT_KEY, L40S, World, scenario
from tests.support.asgi_transport import AsgiTransport
from tests.support.loop_clock import BEGIN

THREE = """
[models.m{number}]
model = "org/m{number}"
image = "vllm/vllm-openai:v0.31.0"
gpus = ["NVIDIA L40S", "NVIDIA A40"]
context = 4096
idle_after = "300s"
key_file = "keys/m1"
api_key_secret = "vllm_m1"
"""
A6000 = "NVIDIA RTX A6000"


def test_types_are_tried_in_their_order_one_by_one_until_one_is_to_be_had() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        config = world.folder / "config.toml"
        config.write_text(config.read_text().replace(f'"{A40}"', f'"{A6000}", "{A40}"'))
        async with world.box() as box:
            assert (await box.chat(world)).status == 200
            offers = [line["detail"]["offer"] for line in world.events("create.submitted")]
            assert offers == [L40S, A6000, A40]
            answers = [line["detail"]["answer"] for line in world.events("create.answered")]
            assert answers == ["rejected", "rejected", "accepted"]
            assert [pod["gpu"]["id"] for pod in world.pods()] == [A40]

    scenario(play, stock={L40S: 0, A6000: "NONE"})


def test_a_type_that_the_catalog_does_not_have_is_told_and_the_others_are_had() -> None:
    async def play(world: World) -> None:
        config = world.configure("m1")
        mended = config.read_text()
        config.write_text(mended.replace(f'"{L40S}"', '"NVIDIA L40s"').replace("max_usd_per_hour = 2", ""))
        async with world.box() as box:
            await world.at(1)  # nobody asked for anything
            (told,) = (await box.operators.get("/v1/status"))["alarms"]
            assert (told["name"], told["subject"]) == ("gpu-unknown", "m1")
            assert told["detail"].startswith("models.m1.gpus: ")
            assert f'no "NVIDIA L40s" (did you mean "{L40S}"' in told["detail"]
            lines = (await box.operators.get("/v1/models/m1/explain"))["lines"]
            assert told["detail"] in {line["text"] for line in lines}
            assert (await box.chat(world)).status == 200
            assert [pod["gpu"]["id"] for pod in world.pods()] == [A40]
        config.write_text(mended)
        async with world.box() as box:
            await world.until(lambda: bool(world.events("alarm.cleared")), within=5)
            assert (await box.operators.get("/v1/status"))["alarms"] == []

    scenario(play)


def test_a_machine_that_costs_more_than_allowed_is_stopped_with_the_reason() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            asking = world.soon(box.chat(world, prefer="wait=60"))
            await world.until(lambda: bool(world.pods()) and not world.alive(), within=120)
            assert world.events("obligation.due")[0]["reason"] == "wrong-resource"
            assert world.pods()[0]["billed_seconds"] <= 60
            await world.until(lambda: asking.done, within=300)
            assert asking.got.status == 503

    scenario(play, price_jump=4.0)


@pytest.mark.parametrize("written", ["seconds", "date"])
def test_a_limit_is_kept_by_everybody_and_the_stop_goes_first(written: str) -> None:
    """One stop is owed and three models are wanted while everything is answered with 429 for two minutes."""

    async def play(world: World) -> None:
        world.write("".join(THREE.format(number=number) for number in (1, 2, 3, 4)))
        async with world.box() as box:
            await box.chat(world, "m4")
            await world.until(lambda: len(world.alive()) == 1, within=10)
            again = (
                "120" if written == "seconds" else format_datetime(world.clock.true() + timedelta(seconds=120), True)
            )
            limit: dict[str, Any] = {"answer": 429, "headers": {"Retry-After": again}}
            order = world.emulator.add_faults([{"match": {"path": "/v2/*"}, "do": limit}])
            begun, before = world.now_s, len(api_calls(world))
            await box.operators.post("/v1/models/m4/stop", {"now": True})
            waiting = [world.soon(box.chat(world, alias)) for alias in ("m1", "m2", "m3")]
            await world.at(begun + 119)
            limited = api_calls(world)[before:]
            assert len(limited) <= 2, limited  # one that was on its way when the first was refused
            assert (len(world.events("obligation.due")), world.events("obligation.discharged")) == (1, [])
            world.emulator.remove_faults(order)
            await world.until(lambda: len(api_calls(world)) > before + len(limited), within=5)
            assert api_calls(world)[before + len(limited)][1] == "DELETE"
            await world.until(lambda: all(pending.done for pending in waiting), within=300)
            assert {pending.got.status for pending in waiting} == {200}
            assert len(world.creates()) == 4

    scenario(play)


def test_the_last_calls_of_a_minute_are_left_to_stops() -> None:
    """Somebody else uses the account too: five calls of this minute are left, and our own listings come every 15 s."""

    async def play(world: World) -> None:
        aliases = ("m1", "m2", "m3")
        world.write("".join(THREE.format(number=number) for number in (1, 2, 3)))
        async with world.box() as box:
            for alias in aliases:
                assert (await box.chat(world, alias)).status == 200
            minute = 60 * (world.now_s // 60 + 1)
            await world.at(minute + 1)
            used = sum(at >= BEGIN.timestamp() + minute for at, _ in api_calls(world))
            for _ in range(25 - used):
                await call_as_another(world)
            await world.at(minute + 55)
            for alias in aliases:
                await box.operators.post(f"/v1/models/{alias}/stop", {"now": True})
            await world.until(lambda: not world.alive(), within=4)
            assert [call["status"] for call in world.deletes()] == [204] * 3
            assert not [call for call in world.emulator.calls if call.status == 429]
            await world.until(lambda: len(world.events("obligation.discharged")) == 3, within=300)

    scenario(play, quotas={"minute": 30})


async def call_as_another(world: World) -> None:
    """A call on the same account that is none of ours."""
    async with httpx.AsyncClient(transport=AsgiTransport(world.emulator_app), base_url="http://other") as client:
        answer = await client.get("/v2/pods?limit=1", headers={"authorization": f"Bearer {ACCOUNT_KEY}"})
        assert answer.status_code == 200


def api_calls(world: World) -> list[tuple[float, str]]:
    """In order, with what each was."""
    calls = world.emulator.truth()["calls"]
    return [(call["at"], call["method"]) for call in calls if call["path"].startswith("/v2/")]
