"""Do network volumes outlive pods, bind them to a place, and bill by themselves?"""

from typing import Any

import pytest

from tests.emulators.world import VLLM_BODY, World

PATH = "/v2/network-volumes"
BODY: dict[str, Any] = {"name": "weights", "size": 100, "dataCenter": "EU-SE-1"}


def mounts(volume: str) -> dict[str, Any]:
    return {"network": [{"volumeId": volume, "path": "/models"}]}


async def test_a_volume_is_made_listed_renamed_and_removed() -> None:
    world = World()
    made = await world.client.post(PATH, json=BODY)
    volume = made.json()
    assert (made.status_code, volume["type"]) == (201, "STANDARD")
    changed = await world.client.patch(f"{PATH}/{volume['id']}", json={"name": "models", "size": 200})
    assert changed.json() == volume | {"name": "models", "size": 200}
    assert (await world.client.get(PATH)).json() == {"networkVolumes": [changed.json()]}
    assert (await world.client.get(f"{PATH}/{volume['id']}")).json() == changed.json()
    assert (await world.client.delete(f"{PATH}/{volume['id']}")).status_code == 204
    assert (await world.client.get(f"{PATH}/{volume['id']}")).status_code == 404
    assert (await world.client.get(PATH)).json() == {"networkVolumes": []}


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"size": 9}, 422),
        ({"size": 4097}, 422),
        ({"name": ""}, 422),
        ({"colour": "red"}, 422),
        ({"type": "SLOW"}, 422),
        ({"type": "HIGH_PERFORMANCE"}, 400),
        ({"dataCenter": "XX-NOWHERE-1"}, 400),
    ],
)
async def test_a_volume_that_breaks_a_rule_is_refused(change: dict[str, Any], status: int) -> None:
    world = World()
    assert (await world.client.post(PATH, json=BODY | change)).status_code == status
    assert world.emulator.truth()["volumes"] == []


async def test_a_volume_never_shrinks_and_a_change_of_nothing_is_422() -> None:
    world = World()
    volume = world.emulator.put_volume(BODY)
    assert (await world.client.patch(f"{PATH}/{volume}", json={"size": 99})).status_code == 400
    assert (await world.client.patch(f"{PATH}/{volume}", json={})).status_code == 422


async def test_a_pod_with_a_volume_is_where_the_volume_is_and_nowhere_else() -> None:
    world = World()
    volume = world.emulator.put_volume(BODY)
    pod = await world.read(await world.create(mounts=mounts(volume)))
    assert (pod["dataCenterId"], pod["mounts"]) == ("EU-SE-1", mounts(volume))
    elsewhere = await world.client.post(
        "/v2/pods", json=VLLM_BODY | {"mounts": mounts(volume), "dataCenterIds": ["CA-MTL-1"]}
    )
    assert (elsewhere.status_code, "no longer any instances" in elsewhere.text) == (400, True)


async def test_a_pod_cannot_have_a_volume_that_is_not_there_or_is_another_accounts() -> None:
    world = World(accounts={"other-key": "other"})
    theirs = world.emulator.put_volume(BODY | {"account": "other"})
    for volume in ("none", theirs):
        answer = await world.client.post("/v2/pods", json=VLLM_BODY | {"mounts": mounts(volume)})
        assert answer.status_code == 404
    assert world.emulator.truth()["pods"] == []


async def test_a_volume_that_a_living_pod_has_stays_and_outlives_it() -> None:
    world = World()
    volume = world.emulator.put_volume(BODY)
    pod = await world.create(mounts=mounts(volume))
    assert (await world.client.delete(f"{PATH}/{volume}")).status_code == 409
    await world.client.delete(f"/v2/pods/{pod}")
    assert (await world.client.get(f"{PATH}/{volume}")).status_code == 200
    assert (await world.client.delete(f"{PATH}/{volume}")).status_code == 204


async def test_a_volume_bills_from_its_creation_to_its_removal_and_is_on_both_bills() -> None:
    world = World()
    volume = world.emulator.put_volume(BODY | {"size": 2000})
    world.now += 30 * 24 * 3600
    await world.client.delete(f"{PATH}/{volume}")
    world.now += 24 * 3600
    query = {"bucketSize": "year", "lastN": "2"}
    for spelling in ("networkvolumes", "network-volumes"):
        bill = (await world.client.get(f"/v2/billing/{spelling}", params=query)).json()
        assert {record["networkVolumeId"] for record in bill["records"]} == {volume}
        assert bill["metadata"]["totals"]["standardAmount"] == pytest.approx(1000 * 0.07 + 1000 * 0.05)
    whole = (await world.client.get("/v2/billing", params=query)).json()["metadata"]["totals"]
    assert whole["storageStandardAmount"] == whole["totalAmount"] == pytest.approx(120)
    assert world.emulator.truth()["balance"] == pytest.approx(1000 - 120)


async def test_a_fast_volume_costs_twice_as_much_and_no_less_beyond_a_terabyte() -> None:
    world = World()
    volume = world.emulator.put_volume(BODY | {"size": 200, "type": "HIGH_PERFORMANCE"})
    world.now += 30 * 24 * 3600
    assert world.emulator.truth()["balance"] == pytest.approx(1000 - 28)
    await world.client.patch(f"{PATH}/{volume}", json={"size": 2000})
    world.now += 30 * 24 * 3600
    assert world.emulator.truth()["balance"] == pytest.approx(1000 - 28 - 280)


async def test_everything_that_bills_adds_up_by_bucket() -> None:
    world = World(prices={"NVIDIA A40": 3.6})
    pod = await world.create(disk=1)
    world.emulator.put_volume(BODY)
    world.now += 5000
    bill = (await world.client.get("/v2/billing", params={"bucketSize": "hour"})).json()
    assert [record["podGpuAmount"] for record in bill["records"]] == pytest.approx([3.6, 1.4])
    spent = 1000 - world.emulator.truth()["balance"]
    assert bill["metadata"]["totals"]["totalAmount"] == pytest.approx(spent)
    assert world.truth_of(pod)["billed_usd"] < spent
