"""Which bodies does Runpod's pod API take?

The v2 document of 2026-08-18, with an overlay of what was added later, each with the date it was seen: `cmd`,
`entrypoint`, `gpu.minRamPerGpu`, `gpu.minVcpuCountPerGpu` (2026-09-21), `startSsh`, `startJupyter`, `templateId`.
Shape faults are 422 with a list; rules between fields are 400; both as Runpod's own front does it.
"""

from __future__ import annotations

import json
from typing import Any, Final

from controller.emulators.runpod import shapes
from controller.emulators.runpod.shapes import Shape, flag, list_of, map_of, one_of, or_null, record, text, whole

LARGEST_BODY: Final = 102_400
_MOST_VARIABLES: Final = 50


class Refused(Exception):
    """Runpod refuses: the status, its detail, and the list of faults that validation adds."""

    def __init__(self, status: int, detail: str, errors: list[str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.errors = errors


_MOUNTS: Final = record(
    {
        "persistent": record({"size": whole(least=10), "path": text()}, required=("size", "path")),
        "network": list_of(record({"volumeId": text(), "path": text()}, required=("volumeId", "path")), most=1),
    }
)
_GPU: Final = record(
    {
        "id": text(),
        "count": whole(least=1),
        "allowedCudaVersions": list_of(text()),
        "minCudaVersion": text(),
        "minRamPerGpu": whole(least=1),
        "minVcpuCountPerGpu": whole(least=1),
    },
    required=("id",),
)
_CONTAINER: Final[dict[str, Shape]] = {
    "image": text(),
    "args": text(),
    "disk": whole(least=1),
    "ports": list_of(text()),
    "env": map_of(text(), most=_MOST_VARIABLES),
    "registry": or_null(text()),
    "cmd": list_of(text()),
    "entrypoint": list_of(text()),
    "name": text(shortest=1),
    "mounts": _MOUNTS,
    "globalNetworking": flag,
}
_CREATE: Final = _CONTAINER | {
    "gpu": _GPU,
    "cpu": record({"id": text(), "vcpuCount": whole(least=2)}, required=("id", "vcpuCount")),
    "cloud": one_of("SECURE", "COMMUNITY"),
    "dataCenterIds": list_of(text()),
    "templateId": text(),
    "startSsh": flag,
    "startJupyter": flag,
}
_ACTION: Final = record({"action": one_of("start", "stop", "restart", "terminate")}, required=("action",))


def read_create(body: bytes) -> dict[str, Any]:
    """The body of a create. Raises Refused."""
    asked = _read(body)
    required = ("name",) if "templateId" in asked else ("name", "image")
    _refuse_faults(asked, record(_CREATE, required=required))
    if ("gpu" in asked) == ("cpu" in asked):
        raise Refused(400, "exactly one of gpu or cpu must be set")
    gpu = asked.get("gpu", {})
    if "allowedCudaVersions" in gpu and "minCudaVersion" in gpu:
        raise Refused(400, "gpu.allowedCudaVersions and gpu.minCudaVersion are mutually exclusive")
    _refuse_mounts(asked)
    if "templateId" in asked:
        raise Refused(404, "template not found")
    return asked


def read_update(body: bytes) -> dict[str, Any]:
    """The body of a PATCH of a pod. Raises Refused."""
    asked = _read(body)
    _refuse_faults(asked, record(_CONTAINER | {"locked": flag}))
    _refuse_mounts(asked)
    if asked.get("mounts", {}).get("network") == []:
        raise Refused(400, "clearing mounts is not supported")
    return asked


def read_action(body: bytes) -> str:
    """The action's word. Raises Refused."""
    asked = _read(body)
    _refuse_faults(asked, _ACTION)
    return str(asked["action"])


def read_as(body: bytes, shape: Shape) -> dict[str, Any]:
    """A body of any other kind. Raises Refused."""
    asked = _read(body)
    _refuse_faults(asked, shape)
    return asked


def read_list_query(query: dict[str, str]) -> int:
    """How many pods a page may hold, as the client asks. Unknown parameters are ignored, as Runpod ignores them."""
    limit = query.get("limit", "1000")
    if not limit.isdigit() or not 1 <= int(limit) <= 1000:
        raise Refused(422, "Request validation failed.", ["limit: value must be from 1 to 1000"])
    return int(limit)


def _read(body: bytes) -> dict[str, Any]:
    if len(body) > LARGEST_BODY:
        raise Refused(413, "request body too large")
    try:
        asked = json.loads(body)
    except ValueError:
        raise Refused(400, "request could not be processed") from None
    _refuse_faults(asked, lambda value, at: shapes.record({})(value, at) if not isinstance(value, dict) else [])
    return dict(asked)


def _refuse_faults(asked: object, shape: Shape) -> None:
    if faults := shape(asked, "$"):
        raise Refused(422, "Request validation failed.", faults)


def _refuse_mounts(asked: dict[str, Any]) -> None:
    mounts = asked.get("mounts", {})
    if "persistent" in mounts and mounts.get("network"):
        raise Refused(400, "mounts.persistent and mounts.network are mutually exclusive")
    if "cpu" in asked and "persistent" in mounts:
        raise Refused(400, "mounts.persistent is not supported on CPU pods")
