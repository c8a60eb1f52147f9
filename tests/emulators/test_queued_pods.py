"""Do pods that wait for a machine become pods that bill, unless they are cancelled or their time is over?"""

import pytest

from controller.emulators.runpod import BadControl
from tests.emulators.world import VLLM_BODY, World

PATH = "/v2/queued-pods"


async def state_of(world: World, queued: str) -> str:
    return str((await world.client.get(f"{PATH}/{queued}")).json()["status"])


async def test_a_queued_pod_is_listed_apart_and_becomes_a_pod_that_bills() -> None:
    world = World()
    queued = world.emulator.put_queued({"name": "ours", "env": {"A": "b"}, "deploys_in_seconds": 60})
    (listed,) = (await world.client.get(PATH)).json()["queuedPods"]
    assert (listed["name"], listed["status"], await world.listed()) == ("ours", "QUEUED", [])
    world.now += 70
    (pod,) = await world.listed()
    shown = (await world.client.get(f"{PATH}/{queued}")).json()
    assert (shown["status"], shown["podId"]) == ("DEPLOYED", pod)
    truth = world.truth_of(pod)
    assert (truth["name"], truth["env"], truth["billed_seconds"]) == ("ours", {"A": "b"}, 10)


async def test_a_cancelled_one_becomes_nothing() -> None:
    world = World()
    queued = world.emulator.put_queued({"deploys_in_seconds": 60})
    assert (await world.client.delete(f"{PATH}/{queued}")).status_code == 204
    world.now += 70
    assert (await world.listed(), await state_of(world, queued), world.effects()[0]) == ([], "CANCELLED", "cancelled")
    assert (await world.client.delete(f"{PATH}/{queued}")).status_code == 409


async def test_one_whose_time_is_over_becomes_nothing() -> None:
    world = World()
    queued = world.emulator.put_queued({"expires_in_seconds": 50, "deploys_in_seconds": 60})
    world.now += 49
    assert await state_of(world, queued) == "QUEUED"
    world.now += 20
    assert (await state_of(world, queued), await world.listed()) == ("EXPIRED", [])


async def test_a_cancellation_that_is_ignored_is_answered_as_if_it_were_not() -> None:
    world = World()
    queued = world.emulator.put_queued({"deploys_in_seconds": 60})
    world.emulator.add_faults([{"match": {"method": "DELETE", "path": f"{PATH}/*"}, "do": {"ignore": True}}])
    assert (await world.client.delete(f"{PATH}/{queued}")).status_code == 204
    world.now += 70
    assert len(await world.listed()) == 1


async def test_a_create_that_was_ordered_to_wait_becomes_the_pod_that_was_asked_for() -> None:
    world = World()
    rule = {"match": {"method": "POST"}, "times": 1, "do": {"answer": 500, "effect": True, "queued": 30}}
    world.emulator.add_faults([rule])
    assert (await world.client.post("/v2/pods", json=VLLM_BODY)).status_code == 500
    (queued,) = world.emulator.queued
    assert (await world.listed(), await state_of(world, queued), world.effects()[0]) == ([], "QUEUED", "queued")
    world.now += 31
    (pod,) = await world.listed()
    shown = (await world.client.get(f"/v2/pods/{pod}")).json()
    assert (shown["name"], shown["args"], shown["env"]) == (VLLM_BODY["name"], VLLM_BODY["args"], VLLM_BODY["env"])


async def test_one_may_be_shown_without_its_name() -> None:
    world = World(unheard_of=True)
    world.emulator.put_queued({"nameless": True})
    (listed,) = (await world.client.get(PATH)).json()["queuedPods"]
    assert (listed["status"], "name" in listed) == ("QUEUED", False)


async def test_another_accounts_are_not_there() -> None:
    world = World()
    queued = world.emulator.put_queued({"account": "other", "state": "FAILED", "failure": "no machine"})
    assert (await world.client.get(PATH)).json()["queuedPods"] == []
    assert (await world.client.get(f"{PATH}/{queued}")).status_code == 404
    assert world.emulator.truth()["queued"][0]["status"] == "FAILED"


def test_a_key_that_does_not_exist_is_named() -> None:
    with pytest.raises(BadControl, match="colour"):
        World().emulator.put_queued({"colour": "red"})


async def test_volumes_and_queued_pods_are_put_over_the_control_surface_too() -> None:
    world = World()
    volume = {"name": "weights", "size": 10, "dataCenter": "EU-SE-1"}
    made = await world.client.post("/_emulator/volumes", json=volume)
    queued = await world.client.post("/_emulator/queued-pods", json={"name": "ours"})
    assert (made.status_code, queued.status_code) == (201, 201)
    truth = world.emulator.truth()
    assert (truth["volumes"][0]["id"], truth["queued"][0]["id"]) == (made.json()["id"], queued.json()["id"])
    refused = await world.client.post("/_emulator/volumes", json={"name": "weights"})
    assert (refused.status_code, refused.json()["errors"]) == (422, ["size"])
