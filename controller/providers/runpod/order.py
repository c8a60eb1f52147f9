"""What exactly do we ask Runpod to make, and did it make that?

One create call names one GPU type; falling back to the next declared one is the caller's loop. Nothing in a body is a
secret: Runpod shows environments and commands to everybody with a key of the account, so a secret is only ever a
reference that Runpod replaces when the pod boots, and a body that breaks this never leaves.

The command replaces the image's own entrypoint: vLLM's image has one that starts the server already, and a command
that was only appended would be read as its arguments. Both halves are sent and neither is empty, because an empty
list has meant "the image's own" before.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final

from controller.core.bad_places import BadPlace
from controller.core.deployment import DeploymentSpec
from controller.core.identity import Tags
from controller.core.offer import offer_of
from controller.providers.errors import BadOrder
from controller.providers.runpod.wire import (
    SERVED_PORT,
    TAG_EPOCH,
    TAG_INSTALLATION,
    TAG_OWNER,
    TAG_REQUEST,
    Pod,
)

BODY_BYTES_MAX: Final = 102_400  # above it: 413 (the API's document, October 2026)
NAME_LENGTH_MAX: Final = 191
VARIABLES_MAX: Final = 50

REFERENCE: Final = re.compile(r"\{\{ RUNPOD_SECRET_[A-Za-z0-9_.\-/]+ \}\}")
SECRET_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-/]{0,190}")
SECRET_VARIABLE: Final = re.compile(r"(?i)(?:^|_)(?:key|token|secret|password|credentials?)$")
# Runpod's own, which it sets over ours, and the marks by which we know a pod.
RESERVED_VARIABLE: Final = re.compile(r"(?i)(?:RUNPOD|GPUWARDEN)_")


class Cloud(StrEnum):
    SECURE = "SECURE"
    COMMUNITY = "COMMUNITY"


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkVolume:
    """A volume that outlives pods; it is in one data centre, and so is every pod beside it (RP-22)."""

    id: str
    data_center: str
    path: str = "/workspace"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What one offer asks for."""

    gpu: str
    disk_gb: int
    data_center_ids: tuple[str, ...] = ()
    """Empty: wherever there is one."""
    volume: NetworkVolume | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunpodModel:
    """What Runpod alone needs to know of a model. Ranges are the settings' business (requirements, App. D)."""

    alias: str
    image: str
    gpus: tuple[str, ...]
    """In this order, never another: the list is the operator's consent."""
    key_secret: str
    """Name of the account's secret that holds the model server's key."""
    disk_gb: int | None
    """Of a pod that fetches the weights onto its own disk. `None`: none has as much, so only volumes will do."""
    gpu_count: int = 1
    cloud: Cloud = Cloud.SECURE
    data_center_ids: tuple[str, ...] = ()
    """Where a pod without a volume may be; empty: anywhere."""
    volumes: tuple[NetworkVolume, ...] = ()
    """Asked for one after the other; a pod without one comes last."""
    volume_disk_gb: int = 30
    """Of a pod beside a volume."""
    registry: str | None = None
    min_cuda: str | None = None
    hub_token_secret: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    """Besides what the model server needs; wins over it."""

    def machines(self) -> dict[str, Machine]:
        """By the name of each offer, in the order to ask for them."""
        beside = {
            offer_of(gpu, volume.data_center): Machine(
                gpu=gpu, disk_gb=self.volume_disk_gb, data_center_ids=(volume.data_center,), volume=volume
            )
            for volume in self.volumes
            for gpu in self.gpus
        }
        if self.disk_gb is None:
            return beside
        return beside | {
            offer_of(gpu): Machine(gpu=gpu, disk_gb=self.disk_gb, data_center_ids=self.data_center_ids)
            for gpu in self.gpus
        }

    def machine(self, offer: str) -> Machine:
        """Raises BadOrder for an offer that the model does not declare."""
        found = self.machines().get(offer)
        if found is None:
            raise BadOrder("the model does not declare this offer")
        return found

    @property
    def key_reference(self) -> str:
        return secret_reference(self.key_secret)

    @property
    def hub_token_reference(self) -> str | None:
        return None if self.hub_token_secret is None else secret_reference(self.hub_token_secret)


def secret_reference(name: str) -> str:
    """What stands in a body for the account's secret of this name. Raises BadOrder for a name that Runpod has not."""
    if SECRET_NAME.fullmatch(name) is None:
        raise BadOrder("a secret's name has characters that the provider refuses")
    return f"{{{{ RUNPOD_SECRET_{name} }}}}"


def resource_name(prefix: str, alias: str, request: str) -> str:
    """Readable by people, and carries the request id for the day when the environment is gone (RP-11)."""
    return f"{prefix}{alias}-{request}"


def create_body(
    model: RunpodModel,
    *,
    name: str,
    offer: str,
    tags: Tags,
    argv: tuple[str, ...],
    environment: Mapping[str, str],
) -> bytes:
    """The body of `POST /pods`. Raises BadOrder; then nothing may be sent."""
    if not 1 <= len(name) <= NAME_LENGTH_MAX:
        raise BadOrder("the resource's name is too long for the provider")
    machine = model.machine(offer)
    if len(argv) < 2 or any(word.startswith("--api-key") for word in argv):
        raise BadOrder("a command is a program with arguments, and none of them is a key")
    body = json.dumps(
        {
            "name": name,
            "image": model.image,
            "cloud": model.cloud.value,
            "gpu": _gpu(model, machine),
            "disk": machine.disk_gb,
            "ports": [f"{SERVED_PORT}/http"],
            "env": _environment(model, environment, tags),
            "entrypoint": list(argv[:1]),
            "cmd": list(argv[1:]),
            **_placement(model, machine),
        }
    ).encode()
    if len(body) > BODY_BYTES_MAX:
        raise BadOrder(f"the order has {len(body)} bytes; the provider takes {BODY_BYTES_MAX}")
    return body


def kept_out(
    model: RunpodModel, offer: str, *, avoid: Iterable[BadPlace], shown: Mapping[str, Collection[str]]
) -> RunpodModel:
    """The model as it is asked for under this offer, so that it does not come to stand in a bad place.

    A create names the data centres that will do and never one that will not, so the others must be known: as the
    operator listed them, else as the catalog has `shown` them by type. Where they are not, where none is left, and for
    a machine beside a volume, which is where it is, the order stays as it was. Raises BadOrder.
    """
    machine = model.machine(offer)
    bad = {each.place for each in avoid if each.card == machine.gpu}
    known = machine.data_center_ids or tuple(shown.get(machine.gpu, ()))
    others = tuple(place for place in known if place not in bad)
    if machine.volume is not None or not bad or not others:
        return model
    return replace(model, data_center_ids=others)


def declared(spec: DeploymentSpec, model: RunpodModel | None) -> RunpodModel:
    """The declared model of this spec. Raises BadOrder if there is none or it names another image (RP-19)."""
    if model is None:
        raise BadOrder("the model is not declared here")
    if spec.image != model.image:
        raise BadOrder("the order names another image than the model declares")
    return model


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordered:
    """What a pod is compared with."""

    offer: str
    argv: tuple[str, ...] | None = None
    """`None`: not known here, and not compared."""
    usd_per_hour_max: Decimal | None = None


def fitting(pod: Pod, model: RunpodModel) -> frozenset[str]:
    """Which of the model's offers could have made this."""
    return frozenset(offer for offer in model.machines() if difference(pod, model, Ordered(offer=offer)) is None)


def difference(pod: Pod, model: RunpodModel, order: Ordered) -> str | None:
    """How what was made differs from what was ordered; what was not said differs in nothing (RP-21)."""
    found = "; ".join(_differences(pod, model, order))
    return found or None


def _differences(pod: Pod, model: RunpodModel, order: Ordered) -> Iterator[str]:
    machine = model.machine(order.offer)
    compared: tuple[tuple[str, Any, Any], ...] = (
        ("image", pod.image, model.image),
        ("GPU type", pod.seen.offer, machine.gpu),
        ("GPU count", pod.gpu_count, model.gpu_count),
        ("disk GB", pod.disk_gb, machine.disk_gb),
        ("cloud", pod.cloud, model.cloud.value),
        ("mounts", _attached(pod.mounts), _attached(_mounts(machine))),
        ("command", pod.command, order.argv),
    )
    for what, got, asked in compared:
        if got is not None and asked is not None and got != asked:
            yield f"{what} is {got!r}, ordered was {asked!r}"
    if machine.data_center_ids and pod.data_center and pod.data_center not in machine.data_center_ids:
        yield f"data centre is {pod.data_center!r}, ordered was one of {machine.data_center_ids!r}"
    cost, ceiling = pod.seen.usd_per_hour, order.usd_per_hour_max
    if cost is not None and ceiling is not None and cost > ceiling:
        yield f"it costs {cost} USD an hour, at most {ceiling} may be paid"


def _attached(mounts: Mapping[str, Any] | None) -> Any:
    """Mounts in one comparable form: kinds that are null or empty are no mounts."""
    if mounts is None:
        return None
    kinds = {kind: mount for kind, mount in mounts.items() if mount}
    network = kinds.get("network")
    if isinstance(network, list) and all(isinstance(mount, dict) for mount in network):
        kinds["network"] = [{"volumeId": mount.get("volumeId"), "path": mount.get("path")} for mount in network]
    return kinds


def _gpu(model: RunpodModel, machine: Machine) -> dict[str, Any]:
    # Without a count the API once answered that there were no instances (seen in the vendor's own tool, 2026).
    asked: dict[str, Any] = {"id": machine.gpu, "count": model.gpu_count}
    if model.min_cuda is not None:
        asked["minCudaVersion"] = model.min_cuda
    return asked


def _mounts(machine: Machine) -> dict[str, Any]:
    if machine.volume is None:
        return {}
    return {"network": [{"volumeId": machine.volume.id, "path": machine.volume.path}]}


def _placement(model: RunpodModel, machine: Machine) -> dict[str, Any]:
    placed: dict[str, Any] = {}
    if machine.volume is not None:
        placed["mounts"] = _mounts(machine)
    if machine.data_center_ids:
        placed["dataCenterIds"] = list(machine.data_center_ids)
    if model.registry is not None:
        placed["registry"] = model.registry
    return placed


def _environment(model: RunpodModel, wanted: Mapping[str, str], tags: Tags) -> dict[str, str]:
    variables = {**wanted, **model.environment}
    for name, value in variables.items():
        if RESERVED_VARIABLE.match(name):
            raise BadOrder("the environment sets a variable that is the provider's or our own mark")
        if SECRET_VARIABLE.search(name) and REFERENCE.fullmatch(value) is None:
            raise BadOrder("the environment holds a secret as it is, not as a reference")
    variables |= _marks(tags)
    if len(variables) > VARIABLES_MAX:
        raise BadOrder(f"the environment has {len(variables)} variables; the provider takes {VARIABLES_MAX}")
    return variables


def _marks(tags: Tags) -> dict[str, str]:
    """Our tags as variables. Raises BadOrder if one is missing: a pod that nobody can name must not be made."""
    if tags.owner is None or tags.installation is None or tags.epoch is None or tags.request is None:
        raise BadOrder("an order without all its tags")
    return {
        TAG_OWNER: tags.owner,
        TAG_INSTALLATION: tags.installation,
        TAG_EPOCH: str(tags.epoch),
        TAG_REQUEST: tags.request,
    }
