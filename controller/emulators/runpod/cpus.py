"""Which CPU flavors does the emulated Runpod offer, and for how much?

Names are Runpod's own; prices per vCPU are of the right order and nothing more. There is always stock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from controller.emulators.runpod import catalog


@dataclass(frozen=True, slots=True)
class CpuFlavor:
    """`memory` in GB and `usd` an hour, both per vCPU."""

    id: str
    name: str
    group: str
    memory: int
    usd: float


_FLAVORS: Final = (
    CpuFlavor("cpu3c", "Compute-Optimized", "cpu3", 2, 0.03),
    CpuFlavor("cpu3g", "General Purpose", "cpu3", 4, 0.04),
    CpuFlavor("cpu3m", "Memory-Optimized", "cpu3", 8, 0.05),
    CpuFlavor("cpu5c", "Compute-Optimized", "cpu5", 2, 0.04),
    CpuFlavor("cpu5g", "General Purpose", "cpu5", 4, 0.05),
    CpuFlavor("cpu5m", "Memory-Optimized", "cpu5", 8, 0.06),
)
BY_ID: Final = {flavor.id: flavor for flavor in _FLAVORS}
_FILTERS: Final = frozenset({"product", "vcpuCount"})


def hourly(asked: dict[str, Any]) -> float:
    """USD an hour of a pod of such `cpu`."""
    flavor = BY_ID.get(asked["id"], _FLAVORS[0])
    return round(flavor.usd * int(asked["vcpuCount"]), 6)


def shown(cpu: dict[str, Any]) -> dict[str, Any]:
    """As a pod shows it: with the memory that follows from its flavor."""
    return cpu | {"memory": BY_ID.get(cpu["id"], _FLAVORS[0]).memory * int(cpu["vcpuCount"])}


def read_cpus(query: dict[str, str]) -> list[dict[str, Any]]:
    """The answer's `cpus`. Raises BadQuery."""
    with_stock = catalog.wants_availability(query, filters=_FILTERS)
    return [_cpu(flavor, with_stock=with_stock) for flavor in _FLAVORS]


def read_cpu(flavor: str, query: dict[str, str]) -> dict[str, Any] | None:
    with_stock = catalog.wants_availability(query, filters=_FILTERS)
    return _cpu(BY_ID[flavor], with_stock=with_stock) if flavor in BY_ID else None


def _cpu(flavor: CpuFlavor, *, with_stock: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": flavor.id,
        "name": flavor.name,
        "group": flavor.group,
        "vcpu": {"min": 2, "max": 32},
        "ramGbPerVcpu": float(flavor.memory),
        "price": {"securePerVcpu": flavor.usd, "serverlessPerVcpu": flavor.usd * 1.5},
    }
    if with_stock:
        shown["availability"] = "HIGH"
        shown["dataCenters"] = [
            {"id": place["id"], "name": place["name"], "availability": "HIGH"} for place in catalog.every_place()
        ]
    return shown
