"""Where does a model's machine come to stand, when its weights lie on volumes in several places?

Each volume in the declared order, and a machine that fetches the weights itself when no place has any (RP-22).
"""

from typing import Any

import pytest

from tests.scenarios.world import A40, L40S, Box, World, scenario

VOLUMES = 'volumes = { "US-TX-3" = "vol1", "US-KS-2" = "vol2" }'
BESIDE_1 = f"{L40S} @ US-TX-3"
A40_HERE = f"{A40} @ US-TX-3"
BESIDE_2 = f"{L40S} @ US-KS-2"
EVERY = {"US-TX-3": ["*"], "US-KS-2": ["*"]}


def configure_volumes(world: World) -> None:
    """One volume in each of two places, and a model that names both."""
    for volume, place in (("vol1", "US-TX-3"), ("vol2", "US-KS-2")):
        world.emulator.put_volume({"id": volume, "name": volume, "size": 100, "dataCenter": place})
    world.configure("m1", extra=VOLUMES)


def configure(world: World, *, extra: str = "", **head: Any) -> None:
    """A model with two volumes, which are there."""
    for name, place in (("vol1", "US-TX-3"), ("vol2", "US-KS-2")):
        world.emulator.put_volume({"id": name, "name": name, "size": 100, "dataCenter": place})
    world.configure("m1", extra=f"{VOLUMES}\n{extra}", **head)


async def served(world: World, box: Box) -> Any:
    """The machine that a first caller gets his answer from."""
    waiting = world.soon(box.chat(world))
    await world.until(lambda: waiting.done, within=300)
    assert waiting.got.status == 200
    (alive,) = world.alive()
    return world.emulator.pods[alive["id"]]


def asked_for(world: World) -> list[str]:
    return [line["detail"]["offer"] for line in world.events("create.submitted")]


@pytest.mark.parametrize(
    ("sold_out", "offer", "volume", "place"),
    [
        ({}, BESIDE_1, "vol1", "US-TX-3"),
        ({"US-TX-3": ["*"]}, BESIDE_2, "vol2", "US-KS-2"),
        ({"US-TX-3": [L40S], "US-KS-2": [L40S]}, f"{A40} @ US-KS-2", "vol2", "US-KS-2"),
    ],
)
def test_the_first_place_that_has_a_machine_is_taken_and_its_volume_with_it(
    sold_out: dict[str, list[str]], offer: str, volume: str, place: str
) -> None:
    async def play(world: World) -> None:
        configure_volumes(world)
        async with world.box() as box:
            pod = await served(world, box)
        assert (pod.place, pod.mounts) == (place, {"network": [{"volumeId": volume, "path": "/workspace"}]})
        assert (pod.env["HF_HOME"], pod.env["VLLM_CACHE_ROOT"]) == ("/workspace/huggingface", "/workspace/vllm")
        assert pod.disk == 30
        assert asked_for(world)[-1] == offer

    scenario(play, sold_out=sold_out)


def test_where_no_volume_has_a_machine_beside_it_one_fetches_the_weights_elsewhere() -> None:
    async def play(world: World) -> None:
        configure_volumes(world)
        async with world.box() as box:
            pod = await served(world, box)
        assert (pod.place, pod.mounts, pod.disk) == ("EU-NL-1", {}, 80)
        assert "HF_HOME" not in pod.env
        in_order = [BESIDE_1, f"{A40} @ US-TX-3", BESIDE_2, f"{A40} @ US-KS-2", L40S]
        asked = asked_for(world)
        assert (asked[0], asked[-1], asked) == (BESIDE_1, L40S, [offer for offer in in_order if offer in asked])
        assert len(asked) < len(in_order)  # after a refusal the catalog was asked, and said where none is left

    scenario(play, sold_out=EVERY)


def test_with_everything_sold_out_all_is_asked_for_and_told_and_the_first_that_comes_back_is_taken() -> None:
    async def play(world: World) -> None:
        configure(world)
        async with world.box() as box:
            waiting = world.soon(box.chat(world))
            await world.at(29)
            asked = asked_for(world)
            told = (await box.operators.get("/v1/models/m1/explain"))["lines"]
            world.emulator.change_settings({"sold_out": {}, "stock": {L40S: "NONE"}})
            await world.until(lambda: waiting.done, within=300)
            assert waiting.got.status == 200
        assert len(asked) == 6
        assert any("none is left of" in line["text"] and BESIDE_2 in line["text"] for line in told)
        assert asked_for(world)[-1] == f"{A40} @ US-KS-2"

    scenario(play, sold_out=EVERY, stock={L40S: "NONE", A40: "NONE"})


def test_evidence_and_explain_say_which_place_was_taken() -> None:
    async def play(world: World) -> None:
        configure_volumes(world)
        async with world.box() as box:
            await served(world, box)
            lines = (await box.operators.get("/v1/models/m1/explain"))["lines"]
            (shown,) = (await box.operators.get("/v1/deployments"))["deployments"]
        assert [line["detail"]["answer"] for line in world.events("create.answered")] == ["rejected"] * 2 + ["accepted"]
        assert world.events("create.answered")[-1]["detail"]["offer"] == BESIDE_2
        assert any(BESIDE_2 in line["text"] for line in lines)
        assert (shown["offer"], shown["ordered"]) == (L40S, BESIDE_2)

    scenario(play, sold_out={"US-TX-3": ["*"]})


@pytest.mark.parametrize(
    "otherwise",
    [
        {"mounts": {}},
        {"mounts": {"network": [{"volumeId": "vol2", "path": "/workspace"}]}},
        {"mounts": {"network": [{"volumeId": "vol1", "path": "/elsewhere"}]}},
        {"dataCenterIds": ["US-KS-2"]},
        {"disk": 20},
        {"cloud": "COMMUNITY"},
        {"gpu": {"id": L40S, "count": 2}},
        {"gpu": {"id": A40, "count": 1}},
    ],
)
def test_what_is_made_otherwise_than_ordered_is_stopped_at_once_and_those_who_wait_are_told(
    otherwise: dict[str, Any],
) -> None:
    async def play(world: World) -> None:
        configure_volumes(world)
        async with world.box() as box:
            waiting = world.soon(box.chat(world))
            await world.until(lambda: not world.alive() and world.deletes() != [], within=5)
            assert waiting.got.error["reason"] == "wrong-resource"
        assert len(world.creates()) == 1

    scenario(play, made_otherwise=otherwise)


def test_what_a_lost_create_made_otherwise_than_ordered_is_stopped_when_it_is_found() -> None:
    async def play(world: World) -> None:
        configure(world)
        lost = {"match": {"method": "POST", "path": "/v2/pods"}, "times": 1, "do": {"answer": 500, "effect": True}}
        world.emulator.add_faults([lost])
        async with world.box() as box:
            world.soon(box.chat(world, prefer="wait=0"))
            await world.until(lambda: world.deletes() != [] and not world.alive(), within=60)
        assert [line["reason"] for line in world.events("stop.submitted")] == ["wrong-resource"]

    scenario(play, made_otherwise={"gpu": {"id": L40S, "count": 2}})


def test_a_machine_dearer_than_the_catalog_said_is_stopped_at_once() -> None:
    async def play(world: World) -> None:
        world.write(UNLIMITED)
        async with world.box() as box:
            waiting = world.soon(box.chat(world))
            await world.until(lambda: not world.alive() and world.deletes() != [], within=5)
            assert waiting.got.error["reason"] == "wrong-resource"

    scenario(play, price_jump=1.1)


def test_a_machine_below_the_list_price_serves_and_is_told_as_no_machine_on_demand() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            assert (await box.chat(world)).status == 200
            lines = (await box.operators.get("/v1/models/m1/explain"))["lines"]
            told = [line["text"] for line in lines if "less than the catalog's" in line["text"]]
            assert len(told) == 1 and "taken away" in told[0]

    scenario(play, price_jump=0.5)


UNLIMITED = """
[models.m1]
model = "org/m1"
image = "vllm/vllm-openai:v0.31.0"
gpus = ["NVIDIA L40S"]
context = 4096
"""


@pytest.mark.parametrize(("usd", "stopped"), [(2.0, False), (2.01, True)])
def test_a_machine_whose_cost_rises_above_the_ceiling_drains_and_one_at_it_serves_on(usd: float, stopped: bool) -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            waiting = world.soon(box.chat(world))
            await world.until(lambda: waiting.done, within=120)
            (pod,) = world.alive()
            world.emulator.change_pod(pod["id"], {"cost": usd})
            await world.at(world.now_s + 150)
        assert (world.alive() == []) is stopped
        reasons = [line["reason"] for line in world.events("obligation.due")]
        assert reasons == (["spend"] if stopped else [])

    scenario(play)


def test_a_private_image_is_asked_for_with_its_registry_credential_and_in_no_other_way() -> None:
    async def play(world: World) -> None:
        world.configure("m1", extra='registry = "reg1"')
        async with world.box() as box:
            pod = await served(world, box)
        assert (pod.registry, pod.image) == ("reg1", "vllm/vllm-openai:v0.31.0")
        assert not any("reg1" in value for value in pod.env.values())

    scenario(play)


def test_what_volumes_bill_is_told_and_seldom_asked_for() -> None:
    async def play(world: World) -> None:
        configure_volumes(world)
        async with world.box() as box:
            await world.at(1)
            told = (await box.operators.get("/v1/status"))["storage"]
            assert (told["usd_per_month"], [volume["size_gb"] for volume in told["volumes"]]) == ("14.0000", [100, 100])
            await world.at(6 * 3600 - 60)
            assert [call["path"] for call in world.calls("GET")].count("/v2/network-volumes") == 1

    scenario(play)
