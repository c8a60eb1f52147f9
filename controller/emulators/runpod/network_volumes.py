"""Which storage outlives the pods of the emulated account?

A volume lies in one data center, bills from its creation to its removal whether or not a pod has it, and pods that
name it can be nowhere else. A volume that a living pod has cannot be removed; its size only grows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from controller.emulators.exchange import Answer, in_json
from controller.emulators.runpod import bodies, catalog
from controller.emulators.runpod.api_call import Ask
from controller.emulators.runpod.bodies import Refused
from controller.emulators.runpod.money import NOTHING, Meter, Rate, storage_rate
from controller.emulators.runpod.shapes import one_of, record, text, whole

if TYPE_CHECKING:
    from controller.emulators.runpod.emulator import Emulator

STANDARD: Final = "STANDARD"
FAST: Final = "HIGH_PERFORMANCE"
KINDS: Final = (STANDARD, FAST)
_SMALLEST, _LARGEST = 10, 4096
_SIZE: Final = whole(least=_SMALLEST, most=_LARGEST)
_CREATE: Final = record(
    {"name": text(shortest=1), "size": _SIZE, "dataCenter": text(shortest=1), "type": one_of(*KINDS)},
    required=("name", "size", "dataCenter"),
)
_CHANGE: Final = record({"name": text(shortest=1), "size": _SIZE}, fewest=1)


@dataclass(slots=True, kw_only=True)
class Volume:
    """One network volume; `size` in GB."""

    id: str
    account: str
    name: str
    size: int
    place: str
    kind: str
    meter: Meter
    ended_at: float | None = None

    def shown(self) -> dict[str, Any]:
        return {"id": self.id, "name": self.name, "size": self.size, "dataCenter": self.place, "type": self.kind}


def put_volume(emulator: Emulator, asked: dict[str, Any], account: str, now: float) -> Volume:
    """A volume of a body that was found right."""
    volume = Volume(
        id=asked.get("id") or emulator.new_id(),
        account=account,
        name=asked["name"],
        size=asked["size"],
        place=asked["dataCenter"],
        kind=asked.get("type", STANDARD),
        meter=Meter(since=now),
    )
    emulator.volumes[volume.id] = volume
    _bill(emulator, volume, _rate(volume), now)
    return volume


def mounted(emulator: Emulator, mounts: dict[str, Any], account: str) -> list[Volume]:
    """The volumes that these mounts name. Raises Refused."""
    return [_find(emulator, entry["volumeId"], account) for entry in mounts.get("network", [])]


def list_volumes(ask: Ask, _: str) -> Answer:
    found = [volume.shown() for volume in _living(ask.emulator, ask.account)]
    return in_json(200, {"networkVolumes": found})


def create_volume(ask: Ask, _: str) -> Answer:
    asked = bodies.read_as(ask.request.body, _CREATE)
    wanted = {"networkVolumeTypes": asked.get("type", STANDARD)}
    if asked["dataCenter"] not in [place["id"] for place in catalog.read_places(ask.emulator.settings, wanted)]:
        raise Refused(400, f"data center '{asked['dataCenter']}' does not support such network volumes")
    volume = put_volume(ask.emulator, asked, ask.account, ask.now)
    if ask.ignore:
        _end(ask.emulator, volume, ask.now)
    return in_json(201, volume.shown())


def get_volume(ask: Ask, volume_id: str) -> Answer:
    return in_json(200, _find(ask.emulator, volume_id, ask.account).shown())


def change_volume(ask: Ask, volume_id: str) -> Answer:
    asked = bodies.read_as(ask.request.body, _CHANGE)
    volume = _find(ask.emulator, volume_id, ask.account)
    if asked.get("size", volume.size) < volume.size:
        raise Refused(400, "network volume storage cannot be reduced")
    if not ask.ignore:
        volume.name, volume.size = asked.get("name", volume.name), asked.get("size", volume.size)
        _bill(ask.emulator, volume, _rate(volume), ask.now)
    return in_json(200, volume.shown())


def remove_volume(ask: Ask, volume_id: str) -> Answer:
    volume = _find(ask.emulator, volume_id, ask.account)
    for pod in ask.emulator.pods.values():
        if pod.alive and volume.id in [entry["volumeId"] for entry in pod.mounts.get("network", [])]:
            raise Refused(409, f"network volume is in use by pod {pod.id}")
    if not ask.ignore:
        _end(ask.emulator, volume, ask.now)
    return Answer(status=204)


def _find(emulator: Emulator, volume_id: str, account: str) -> Volume:
    volume = emulator.volumes.get(volume_id)
    if volume is None or volume not in _living(emulator, account):
        raise Refused(404, "network volume not found")
    return volume


def _living(emulator: Emulator, account: str) -> list[Volume]:
    return [volume for volume in emulator.volumes.values() if volume.account == account and volume.ended_at is None]


def _end(emulator: Emulator, volume: Volume, now: float) -> None:
    volume.ended_at = now
    _bill(emulator, volume, NOTHING, now)


def _rate(volume: Volume) -> Rate:
    return storage_rate(size_gb=volume.size, fast=volume.kind == FAST)


def _bill(emulator: Emulator, volume: Volume, rate: Rate, now: float) -> None:
    emulator.spend(rate.usd - volume.meter.rate.usd, now)
    volume.meter.change(rate, now)
