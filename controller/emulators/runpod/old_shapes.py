"""How does the old GraphQL door show pods and GPU types, and how does it take an order?

In words of its own: a desired state instead of an observed one, variables as `NAME=value`, ports in one text. What is
asked for and does not exist is an error, as in any GraphQL.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from controller.emulators.runpod import catalog, pods, shown
from controller.emulators.runpod.bodies import Refused
from controller.emulators.runpod.catalog import GpuType
from controller.emulators.runpod.graphql_reading import Unreadable, Wanted
from controller.emulators.runpod.pods import Pod
from controller.emulators.runpod.settings import Settings

if TYPE_CHECKING:
    from controller.emulators.runpod.emulator import Emulator

Shown = Mapping[str, Any]
"""Field to value, or to what makes it of the fields that are wanted of it."""

_SMALLEST_DISK: Final = 10


def pick(shape: Shown, fields: tuple[Wanted, ...]) -> dict[str, Any]:
    """Only what is wanted. Raises Unreadable."""
    found: dict[str, Any] = {}
    for wanted in fields:
        if wanted.name not in shape:
            raise Unreadable(f'Cannot query field "{wanted.name}".')
        value = shape[wanted.name]
        if callable(value):
            found[wanted.name] = value(wanted.fields)
        elif isinstance(value, dict):
            found[wanted.name] = pick(value, wanted.fields)
        else:
            found[wanted.name] = value
    return found


def pod_shape(emulator: Emulator, pod: Pod, now: float) -> Shown:
    seen = shown.pod(emulator, pod, now)
    runtime = seen["runtime"]
    size = seen.get("gpu") or seen.get("cpu") or {}
    kind = catalog.BY_ID.get(pod.gpu_id or "")
    return {
        "id": pod.id,
        "name": pod.name,
        "imageName": pod.image,
        "desiredStatus": _desired(seen["status"]),
        "lastStatusChange": f"Rented by User: {seen['createdAt']}",
        "containerDiskInGb": pod.disk,
        "volumeInGb": pod.volume_gb(),
        "volumeMountPath": pod.mounts.get("persistent", {}).get("path", ""),
        "costPerHr": seen["cost"],
        "dockerArgs": pod.args,
        "dockerId": None,
        "env": [f"{name}={value}" for name, value in seen["env"].items()],
        "gpuCount": pod.gpu_count,
        "vcpuCount": size.get("vcpuCount", 0),
        "memoryInGb": size.get("memory", 0),
        "machineId": f"machine{pod.number}",
        "machine": {
            "podHostId": f"{pod.id}-host",
            "dataCenterId": pod.place,
            "gpuDisplayName": None if kind is None else kind.name,
        },
        "podType": "RESERVED",
        "port": None,
        "ports": ",".join(pod.ports),
        "uptimeSeconds": 0 if runtime is None else runtime["uptime"],
        "runtime": None if runtime is None else _runtime(runtime),
    }


def _desired(status: str) -> str:
    """What was asked for last, whatever became of it."""
    return status if status in (pods.EXITED, pods.TERMINATED) else pods.RUNNING


def _runtime(runtime: dict[str, Any]) -> Shown:
    ports = [
        {
            "ip": port["ip"],
            "isIpPublic": port["type"] == "tcp",
            "privatePort": port["private"],
            "publicPort": port["public"],
            "type": port["type"],
        }
        for port in runtime["ports"]
    ]
    return {
        "uptimeInSeconds": runtime["uptime"],
        "ports": lambda fields: [pick(port, fields) for port in ports],
        "gpus": lambda fields: [
            pick({"id": "", "gpuUtilPercent": gpu["util"], "memoryUtilPercent": gpu["memoryUtil"]}, fields)
            for gpu in runtime["gpus"]
        ],
    }


def gpu_type(settings: Settings, gpu: GpuType) -> Shown:
    prices = {cloud: catalog.price(settings, gpu.id, cloud) for cloud in ("secure", "community")}
    level = catalog.level(settings, gpu.id)
    in_stock = level != "NONE"
    return {
        "id": gpu.id,
        "displayName": gpu.name,
        "manufacturer": "Nvidia",
        "memoryInGb": gpu.memory,
        "cudaCores": 0,
        "maxGpuCount": max(gpu.secure_count, gpu.community_count),
        "secureCloud": gpu.secure_count > 0,
        "communityCloud": gpu.community_count > 0,
        "securePrice": prices["secure"],
        "communityPrice": prices["community"],
        **dict.fromkeys(("oneWeekPrice", "oneMonthPrice", "threeMonthPrice", "communitySpotPrice", "secureSpotPrice")),
        "lowestPrice": {
            "stockStatus": level.capitalize() if in_stock else None,
            "uninterruptablePrice": prices["secure"] if in_stock else None,
            "minimumBidPrice": None,
            "gpuTypeCudaVersions": lambda fields: [
                pick({"cudaVersion": "12.8", "availability": "AVAILABLE" if in_stock else "UNAVAILABLE"}, fields)
            ],
        },
    }


def pod_wanted(asked: dict[str, Any]) -> dict[str, Any]:
    """The body of v2 that says the same. Raises Refused."""
    if asked.get("templateId") and not asked.get("imageName"):
        raise Refused(404, "template not found")
    body: dict[str, Any] = {
        "name": asked["name"],
        "image": asked["imageName"],
        "cloud": "COMMUNITY" if asked.get("cloudType") == "COMMUNITY" else "SECURE",
        "args": asked.get("dockerArgs", ""),
        "disk": asked.get("containerDiskInGb") or _SMALLEST_DISK,
        "ports": [port for port in asked.get("ports", "").split(",") if port],
        "env": {entry["key"]: entry["value"] for entry in asked.get("env", [])},
        "mounts": _mounts(asked),
    }
    if asked.get("dataCenterId"):
        body["dataCenterIds"] = [asked["dataCenterId"]]
    return body | _compute(asked)


def _mounts(asked: dict[str, Any]) -> dict[str, Any]:
    path = asked.get("volumeMountPath", "/workspace")
    if asked.get("networkVolumeId"):
        return {"network": [{"volumeId": asked["networkVolumeId"], "path": path}]}
    size = asked.get("volumeInGb", 0)
    return {"persistent": {"size": size, "path": path}} if size else {}


def _compute(asked: dict[str, Any]) -> dict[str, Any]:
    """A GPU type, or a CPU flavor as in `cpu3c-2-4`: with its vCPUs and memory."""
    if asked.get("gpuTypeId"):
        return {"gpu": {"id": asked["gpuTypeId"], "count": asked.get("gpuCount", 1)}}
    flavor, _, rest = asked.get("instanceId", "cpu3c-2-4").partition("-")
    return {"cpu": {"id": flavor, "vcpuCount": int(rest.partition("-")[0] or 2)}}
