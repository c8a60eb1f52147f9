"""What do Runpod's answers look like when nothing is wrong?"""

import json
from datetime import timedelta
from typing import Any, Final

from controller.core.deployment import DeploymentSpec
from controller.core.identity import DeploymentId, Owner, RequestId, ResourceKey, Scope, Tags
from controller.providers.runpod.order import RunpodModel
from controller.providers.runpod.wire import Namespace
from controller.providers.writing import Launch, Order

SCOPE: Final = Scope(provider="runpod", account="main")
OWNER: Final = Owner(name="acme-prod-7f3a", installation="0011223344556677")
NAMESPACE: Final = Namespace(scope=SCOPE, owner=OWNER)
REQUEST: Final = RequestId("r0123456789abcdef")
TAGS: Final = Tags(owner=OWNER.name, installation=OWNER.installation, epoch=3, request=REQUEST)
NAME: Final = f"gpuwarden-qwen-{REQUEST}"
POD_ID: Final = "5xpma5eg46tqjq"
KEY: Final = ResourceKey(provider="runpod", account="main", name=NAME, incarnation=POD_ID)
API_KEY: Final = "rpa_KEY_CANARY_1"
GPU: Final = "NVIDIA L40S"

ENV: Final = {
    "GPUWARDEN_OWNER": OWNER.name,
    "GPUWARDEN_INSTALLATION": OWNER.installation,
    "GPUWARDEN_EPOCH": "3",
    "GPUWARDEN_REQUEST": REQUEST,
    "VLLM_API_KEY": "{{ RUNPOD_SECRET_vllm_qwen }}",
}
MODEL: Final = RunpodModel(
    alias="qwen",
    image="vllm/vllm-openai:v0.31.0",
    gpus=(GPU, "NVIDIA A40"),
    key_secret="vllm_qwen",
    disk_gb=80,
)
ARGV: Final = ("vllm", "serve", "Qwen/Qwen3-8B", "--port", "8000")
ORDER: Final = Order(
    spec=DeploymentSpec(
        id=DeploymentId("qwen-0011223344"),
        provider="runpod",
        account="main",
        model="qwen",
        image=MODEL.image,
        resource_name="gpuwarden-qwen",
        requested_lifetime=timedelta(days=7),
    ),
    tags=TAGS,
    offer=GPU,
    launch=Launch(argv=ARGV, environment={"VLLM_API_KEY": MODEL.key_reference}),
)


def pod(**changes: Any) -> dict[str, Any]:
    """A pod of ours as the API shows it; `...` leaves a field out."""
    shown: dict[str, Any] = {
        "id": POD_ID,
        "name": NAME,
        "image": MODEL.image,
        "status": "RUNNING",
        "actions": ["stop", "restart", "terminate"],
        "disk": 80,
        "ports": ["8000/http"],
        "env": ENV,
        "registry": None,
        "entrypoint": list(ARGV[:1]),
        "cmd": list(ARGV[1:]),
        "mounts": {},
        "gpu": {"id": GPU, "count": 1, "vcpuCount": 16, "memory": 62},
        "cloud": "SECURE",
        "dataCenterId": "EU-RO-1",
        "cost": 0.79,
        "locked": False,
        "runtime": {"uptime": 100, "gpus": [{"util": 0, "memoryUtil": 3}], "ports": []},
        "createdAt": "2026-11-29T11:50:00.123Z",
        "startedAt": "2026-11-29T11:58:20Z",
    } | changes
    return {name: value for name, value in shown.items() if value is not ...}


def page(*pods: Any, cursor: str | None = None) -> dict[str, Any]:
    return {"pods": list(pods), "pagination": {"nextCursor": cursor, "hasNextPage": cursor is not None}}


def raw(content: Any) -> bytes:
    return json.dumps(content).encode()
