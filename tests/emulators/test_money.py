"""Does the emulator bill what a pod costs, and end pods when nothing is left?"""

import pytest

from controller.emulators.runpod.money import Meter, Purse, Rate
from tests.emulators.world import START, VLLM_BODY, World

L40S = {"id": "NVIDIA L40S", "count": 2}


async def test_a_pod_bills_by_the_second_from_creation_to_its_end() -> None:
    world = World(prices={"NVIDIA L40S": 1.8})
    pod = await world.create(gpu=L40S, disk=1)
    world.now += 1000
    await world.client.delete(f"/v2/pods/{pod}")
    world.now += 1000
    truth = world.truth_of(pod)
    assert truth["billed_seconds"] == 1000
    assert truth["billed_usd"] == pytest.approx(1.0, abs=0.001)
    assert world.emulator.truth()["balance"] == pytest.approx(1000 - truth["billed_usd"])


async def test_the_shown_cost_is_the_price_of_all_gpus_after_a_jump() -> None:
    world = World(prices={"NVIDIA L40S": {"secure": 1.5}}, price_jump=2.0)
    pod = await world.read(await world.create(gpu=L40S))
    gpus = (await world.client.get("/v2/catalog/gpus")).json()["gpus"]
    catalog = next(gpu for gpu in gpus if gpu["id"] == "NVIDIA L40S")
    assert (pod["cost"], catalog["price"]["secure"]) == (6.0, 1.5)


async def test_a_stopped_pod_bills_its_volume_only_at_twice_the_rate() -> None:
    world = World()
    pod = await world.create(mounts={"persistent": {"size": 100, "path": "/w"}})
    await world.client.post(f"/v2/pods/{pod}/action", json={"action": "stop"})
    world.now += 30 * 24 * 3600
    truth = world.truth_of(pod)
    assert (truth["billed_seconds"], truth["billed_usd"]) == (0, pytest.approx(20.0))


async def test_a_deleted_pod_bills_on_where_deletion_does_not_stop_billing() -> None:
    world = World(delete_stops_billing=False)
    pod = await world.create()
    await world.client.delete(f"/v2/pods/{pod}")
    world.now += 100
    assert world.truth_of(pod)["billed_seconds"] == 100


async def test_one_deleted_pod_bills_on_for_as_long_as_it_is_ordered_to() -> None:
    world = World()
    pod, other = await world.create(), await world.create()
    world.emulator.change_pod(pod, {"bills_on": True})
    for each in (pod, other):
        await world.client.delete(f"/v2/pods/{each}")
    world.now += 100
    assert (world.truth_of(pod)["billed_seconds"], world.truth_of(other)["billed_seconds"]) == (100, 0)
    world.emulator.change_pod(pod, {"bills_on": False})
    world.now += 100
    assert world.truth_of(pod)["billed_seconds"] == 100


async def test_an_empty_account_ends_pods_at_the_moment_it_is_empty() -> None:
    world = World(prices={"NVIDIA A40": 3.6}, balance=5.0)
    volume = world.emulator.put_volume({"name": "weights", "size": 10, "dataCenter": "EU-SE-1"})
    kept = await world.create(disk=1, mounts={"network": [{"volumeId": volume, "path": "/w"}]})
    gone = world.emulator.put_pod({"disk": 1})
    world.now += 10_000
    assert world.truth_of(gone)["deleted_at"] == pytest.approx(START + 2500, abs=5)
    assert (await world.read(kept))["status"] == "EXITED"
    assert world.emulator.truth()["balance"] == pytest.approx(0, abs=0.01)


async def test_a_filled_account_lets_pods_live_again() -> None:
    world = World(balance=0.0)
    assert (await world.client.post("/v2/pods", json=VLLM_BODY)).status_code == 402
    world.emulator.change_settings({"balance": 100})
    pod = await world.create()
    world.now += 60
    assert (await world.read(pod))["status"] == "RUNNING"


async def test_an_account_without_an_hours_money_is_402() -> None:
    world = World(prices={"NVIDIA A40": 2.0}, balance=1.99)
    answer = await world.client.post("/v2/pods", json=VLLM_BODY)
    assert (answer.status_code, answer.json()["detail"]) == (402, "Insufficient balance.")


async def test_seconds_are_billed_in_whole_quanta() -> None:
    world = World(billing_quantum_seconds=60)
    pod = await world.create()
    world.now += 61
    assert world.truth_of(pod)["billed_seconds"] == 120


async def test_an_ordered_cost_is_shown_even_for_a_stopped_pod() -> None:
    world = World()
    pod = world.emulator.put_pod({"status": "EXITED", "cost": 0.5})
    shown = await world.read(pod)
    assert (shown["status"], shown["cost"]) == ("EXITED", 0.5)


async def test_the_balance_is_read_by_graphql() -> None:
    world = World(balance=12.5)
    answer = await world.client.post("/graphql", json={"query": "{ myself { clientBalance currentSpendPerHr } }"})
    assert answer.json() == {"data": {"myself": {"clientBalance": 12.5, "currentSpendPerHr": 0.0}}}


def test_a_meter_keeps_what_it_counted_when_its_rate_changes() -> None:
    meter = Meter(since=0.0)
    meter.change(Rate(gpu=2.0, counts=True), 0.0)
    meter.change(Rate(disk=1.0), 10.0)
    assert meter.read(15.0, quantum=0.0) == (10.0, 25.0)


def test_a_purse_knows_when_it_will_be_empty() -> None:
    purse = Purse(usd=10.0, since=0.0)
    assert purse.empty_at() is None
    purse.change(2.0, 5.0)
    assert (purse.empty_at(), purse.at(7.0)) == (10.0, 6.0)


async def test_billing_records_split_a_pods_cost_by_bucket_and_add_up_to_the_truth() -> None:
    world = World(prices={"NVIDIA A40": 3.6})
    pod = await world.create(disk=100)
    world.now += 5000
    await world.client.post(f"/v2/pods/{pod}/action", json={"action": "stop"})
    world.now += 5000
    answer = (await world.client.get("/v2/billing/pods", params={"bucketSize": "hour", "podId": pod})).json()
    amounts = [record["gpuAmount"] for record in answer["records"]]
    assert amounts == pytest.approx([3.6, 1.4])
    assert answer["metadata"]["totals"]["totalAmount"] == pytest.approx(world.truth_of(pod)["billed_usd"])


async def test_billing_records_lag_and_are_rounded_up_as_set() -> None:
    world = World(prices={"NVIDIA A40": 3.6}, billing_delay_seconds=600, billing_quantum_seconds=100)
    pod = await world.create(disk=1)
    world.now += 150
    await world.client.delete(f"/v2/pods/{pod}")
    assert (await world.client.get("/v2/billing/pods")).json()["records"] == []
    world.now += 700
    (record,) = (await world.client.get("/v2/billing/pods?lastN=1")).json()["records"]
    assert (record["gpuAmount"], record["podId"]) == (pytest.approx(0.2), pod)


@pytest.mark.parametrize("size", ["hour", "day", "week", "month", "year"])
async def test_a_billing_window_is_snapped_outward_to_its_buckets(size: str) -> None:
    world = World()
    query = {"bucketSize": size, "startTime": "2026-12-30T10:30:00Z", "endTime": "2026-12-30T10:40:00Z"}
    shown = (await world.client.get("/v2/billing/pods", params=query)).json()["metadata"]["query"]
    assert (shown["startTime"], shown["endTime"]) == {
        "hour": ("2026-12-30T10:00:00.000Z", "2026-12-30T11:00:00.000Z"),
        "day": ("2026-12-30T00:00:00.000Z", "2026-12-31T00:00:00.000Z"),
        "week": ("2026-12-28T00:00:00.000Z", "2027-01-04T00:00:00.000Z"),
        "month": ("2026-12-01T00:00:00.000Z", "2027-01-01T00:00:00.000Z"),
        "year": ("2026-01-01T00:00:00.000Z", "2027-01-01T00:00:00.000Z"),
    }[size]


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("bucketSize=minute", 422),
        ("lastN=0", 422),
        ("lastN=2&startTime=2026-12-30T10:30:00Z", 400),
        ("startTime=yesterday", 422),
    ],
)
async def test_a_billing_query_that_makes_no_sense_is_refused(query: str, status: int) -> None:
    assert (await World().client.get(f"/v2/billing/pods?{query}")).status_code == status
