"""Does Runpod's own MCP server, which knows nothing of us, take the emulator for Runpod?

It is generated from the vendor's document, and so a witness of what the document means that we did not write.
"""

from typing import Any

import pytest

from tests.outside.programs import mcp_server
from tests.processes.box import Box, box

pytestmark = pytest.mark.process

BODY: dict[str, Any] = {
    "name": "from-outside",
    "image": "vllm/vllm-openai:v0.31.0",
    "gpu": {"id": "NVIDIA A40", "count": 1},
    "ports": ["8000/http"],
    "env": {"VLLM_API_KEY": "{{ RUNPOD_SECRET_vllm_m1 }}"},
}


async def effects(world: Box) -> list[str]:
    return [call["effect"] for call in (await world.truth())["calls"] if call["effect"] != "none"]


async def test_it_creates_reads_lists_changes_acts_on_and_deletes_a_pod() -> None:
    async with (
        box(limit=240, configure=False) as world,
        mcp_server(provider=world.provider, folder=world.folder) as server,
    ):
        made = await server.call("create-pod", body=BODY)
        assert (made["name"], made["gpu"]["count"], made["cost"]) == ("from-outside", 1, 0.4)
        pod = made["id"]
        assert [entry["id"] for entry in (await server.call("list-pods", includeClusterPods=True))["pods"]] == [pod]
        assert (await server.call("update-pod", id=pod, body={"name": "renamed"}))["name"] == "renamed"
        assert (await server.call("get-pod", id=pod))["name"] == "renamed"
        for action, status in (("stop", "EXITED"), ("start", "STARTING")):
            assert (await server.call("pod-action", id=pod, body={"action": action}))["status"] == status
        await server.call("delete-pod", id=pod)
        assert (await server.call("list-pods"))["pods"] == []
        assert "pod not found" in await server.refusal("get-pod", id=pod)
        assert await effects(world) == ["created", "changed", "stopped", "started", "deleted"]


async def test_terminating_by_action_ends_a_pod_and_an_illegal_action_is_a_409() -> None:
    async with (
        box(limit=240, configure=False) as world,
        mcp_server(provider=world.provider, folder=world.folder) as server,
    ):
        pod = (await server.call("create-pod", body=BODY))["id"]
        await server.call("pod-action", id=pod, body={"action": "stop"})
        assert "409" in await server.refusal("pod-action", id=pod, body={"action": "stop"})
        await server.call("pod-action", id=pod, body={"action": "terminate"})
        assert await world.alive() == []


async def test_it_reads_the_catalog_with_stock_and_the_capacity_of_the_old_door() -> None:
    async with (
        box(limit=240, configure=False, stock={"NVIDIA A40": "LOW"}) as world,
        mcp_server(provider=world.provider, folder=world.folder) as server,
    ):
        asked = {"include": ["AVAILABILITY"], "product": ["POD"], "count": 1, "cloud": "SECURE"}
        listed = {gpu["id"]: gpu for gpu in (await server.call("list-gpu-types", **asked))["gpus"]}
        assert listed["NVIDIA A40"]["availability"] == "LOW"
        one = await server.call("get-gpu-type", id="NVIDIA A40", include=["AVAILABILITY"], product=["POD"])
        assert one["price"] == listed["NVIDIA A40"]["price"]
        both = ["GPU_AVAILABILITY", "CPU_AVAILABILITY"]
        places = (await server.call("list-data-centers", include=both, regions=["EUROPE", "ASIA"]))["dataCenters"]
        assert {place["region"] for place in places} == {"EUROPE"}
        assert (await server.call("get-data-center", id=places[0]["id"]))["id"] == places[0]["id"]
        assert (await server.call("list-cpu-types"))["cpus"][0]["id"]
        capacity = await server.call("get-capacity", gpuTypeIds=["NVIDIA A40"])
        assert [row["stockStatus"] for row in capacity["items"]] == ["Low"]


async def test_it_reads_what_pods_and_volumes_and_everything_cost() -> None:
    async with (
        box(limit=240, configure=False) as world,
        mcp_server(provider=world.provider, folder=world.folder) as server,
    ):
        pod = (await server.call("create-pod", body=BODY))["id"]
        await server.call("delete-pod", id=pod)
        pods = await server.call("list-pod-billing", lastN=1, bucketSize="hour", podId=pod)
        whole = await server.call("list-billing", lastN=1, bucketSize="hour")
        assert [record["podId"] for record in pods["records"]] == [pod]
        assert whole["metadata"]["totals"]["podGpuAmount"] == pods["metadata"]["totals"]["gpuAmount"] > 0
        assert (await server.call("list-network-volume-billing", lastN=1))["records"] == []


async def test_it_keeps_network_volumes_and_reads_a_pods_log() -> None:
    async with (
        box(limit=240, configure=False) as world,
        mcp_server(provider=world.provider, folder=world.folder) as server,
    ):
        volume = await server.call("create-network-volume", body={"name": "w", "size": 20, "dataCenter": "EU-SE-1"})
        await server.call("update-network-volume", id=volume["id"], body={"size": 30})
        assert (await server.call("list-network-volumes"))["networkVolumes"] == [volume | {"size": 30}]
        mounts = {"network": [{"volumeId": volume["id"], "path": "/models"}]}
        pod = (await server.call("create-pod", body=BODY | {"mounts": mounts}))["id"]
        await world.change(pod, {"log": ["first", "second"]})
        log = await server.call("stream-pod-logs", podId=pod, tail=1, maxWaitMs=1500)
        assert [entry["line"] for entry in log["items"]] == ["second"]
        await server.call("delete-pod", id=pod)
        await server.call("delete-network-volume", id=volume["id"])
        assert (await server.call("list-network-volumes"))["networkVolumes"] == []


async def test_a_rate_limit_and_a_wrong_body_are_told_as_runpod_tells_them() -> None:
    async with (
        box(limit=240, configure=False) as world,
        mcp_server(provider=world.provider, folder=world.folder) as server,
    ):
        assert "additional properties 'surprise'" in await server.refusal("create-pod", body=BODY | {"surprise": 1})
        await world.fault({"answer": 429, "headers": {"retry-after": "0"}}, method="POST", path="/v2/pods", times=1)
        assert (await server.call("create-pod", body=BODY))["name"] == "from-outside"
        assert len(await world.creates()) == 3
