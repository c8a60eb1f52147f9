"""Which GPUs does the emulated Runpod offer, where, and for how much?

Names are Runpod's own (documentation of 2026-02-12); prices are of the right order and nothing more. Stock is a hint
there, as it is at Runpod: a level of HIGH is no promise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from controller.emulators.runpod.settings import LEVELS, Settings


@dataclass(frozen=True, slots=True)
class GpuType:
    """`memory` in GB; prices in USD per GPU-hour; a count of 0 means that this cloud has none."""

    id: str
    name: str
    pool: str | None
    memory: int
    secure: float
    community: float
    secure_count: int
    community_count: int
    places: tuple[str, ...]


GPUS: Final = (
    GpuType("NVIDIA GeForce RTX 4090", "RTX 4090", "ADA_24", 24, 0.69, 0.34, 8, 4, ("EU-RO-1", "US-KS-2", "US-IL-1")),
    GpuType("NVIDIA GeForce RTX 5090", "RTX 5090", "ADA_32_PRO", 32, 0.94, 0.69, 8, 4, ("EU-CZ-1", "US-IL-1")),
    GpuType("NVIDIA A40", "A40", "AMPERE_48", 48, 0.40, 0.35, 10, 4, ("EU-SE-1", "CA-MTL-1", "US-KS-2")),
    GpuType("NVIDIA RTX A6000", "RTX A6000", "AMPERE_48", 48, 0.49, 0.33, 8, 4, ("EU-SE-1", "EUR-IS-1", "US-KS-2")),
    GpuType("NVIDIA L40", "L40", "ADA_48_PRO", 48, 0.99, 0.69, 8, 4, ("EUR-IS-1", "US-TX-3")),
    GpuType("NVIDIA L40S", "L40S", "ADA_48_PRO", 48, 0.86, 0.79, 8, 4, ("EU-NL-1", "US-TX-3", "US-KS-2")),
    GpuType(
        "NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada", "ADA_48_PRO", 48, 0.77, 0.74, 8, 4, ("EU-RO-1", "US-IL-1")
    ),
    GpuType(
        "NVIDIA A100 80GB PCIe", "A100 PCIe", "AMPERE_80", 80, 1.39, 1.19, 8, 8, ("EU-RO-1", "US-KS-2", "CA-MTL-3")
    ),
    GpuType("NVIDIA A100-SXM4-80GB", "A100 SXM", "AMPERE_80", 80, 1.49, 1.39, 8, 8, ("US-MO-1", "US-KS-2", "EUR-IS-1")),
    GpuType("NVIDIA H100 80GB HBM3", "H100 SXM", "ADA_80_PRO", 80, 2.99, 2.69, 8, 8, ("US-KS-2", "EU-FR-1", "US-CA-2")),
    GpuType("NVIDIA H100 NVL", "H100 NVL", "ADA_80_PRO", 94, 3.07, 2.59, 8, 4, ("US-KS-2", "US-GA-2")),
    GpuType("NVIDIA H200", "H200 SXM", "HOPPER_141", 141, 3.99, 0.0, 8, 0, ("US-CA-2", "EU-FR-1", "US-NC-1")),
    GpuType("NVIDIA B200", "B200", "BLACKWELL_180", 180, 5.98, 0.0, 8, 0, ("US-CA-2", "EU-RO-1")),
)
BY_ID: Final = {gpu.id: gpu for gpu in GPUS}

_REGIONS: Final = {"US": "NORTH_AMERICA", "CA": "NORTH_AMERICA", "EU": "EUROPE", "EUR": "EUROPE"}
_PLACES: Final = tuple(sorted({place for gpu in GPUS for place in gpu.places}))
_LOW, _MEDIUM = 2, 8
_FILTERS: Final = frozenset({"product", "count", "cloud", "countryCodes", "cudaVersions", "minCudaVersion"})


class BadQuery(Exception):
    """The catalog's query breaks a rule between its parameters: 400."""


def price(settings: Settings, gpu: str, cloud: str) -> float:
    """USD per GPU-hour that the catalog says. Raises KeyError for a type it does not have."""
    known = BY_ID[gpu]
    own = settings.prices.get(gpu, {})
    if isinstance(own, float):
        return own
    return ({"secure": known.secure, "community": known.community} | own)[cloud.lower()]


def places_for(settings: Settings, gpu: str | None, wanted: list[str]) -> list[str]:
    """Data centers that can take this pod, in the caller's order; a wish that none fulfils is refused, not relaxed."""
    offered = _PLACES if gpu is None else [place for place in BY_ID[gpu].places if not _sold_out(settings, place, gpu)]
    return [place for place in wanted if place in offered] if wanted else list(offered)


def has_stock(settings: Settings, gpu: str, cloud: str, count: int) -> bool:
    known = BY_ID[gpu]
    if count > (known.secure_count if cloud == "SECURE" else known.community_count):
        return False
    left = settings.stock.get(gpu)
    return left != "NONE" if not isinstance(left, int) else left >= count


def _sold_out(settings: Settings, place: str, gpu: str) -> bool:
    return not {gpu, "*"}.isdisjoint(settings.sold_out.get(place, ()))


def move_stock(settings: Settings, gpu: str | None, count: int) -> None:
    """Give back (positive) or take (negative) GPUs where the stock is counted."""
    left = settings.stock.get(gpu or "")
    if gpu is not None and isinstance(left, int):
        settings.stock = settings.stock | {gpu: max(0, left + count)}


def level(settings: Settings, gpu: str) -> str:
    left = settings.stock.get(gpu, "HIGH")
    if isinstance(left, str):
        return left
    if left == 0:
        return LEVELS[0]
    return LEVELS[1] if left <= _LOW else LEVELS[2] if left <= _MEDIUM else LEVELS[3]


def read_gpus(settings: Settings, query: dict[str, str]) -> list[dict[str, Any]]:
    """The answer's `gpus`. Raises BadQuery."""
    with_stock = wants_availability(query)
    return [_gpu(settings, gpu, with_stock=with_stock, query=query) for gpu in GPUS]


def read_gpu(settings: Settings, gpu: str, query: dict[str, str]) -> dict[str, Any] | None:
    with_stock = wants_availability(query)
    return _gpu(settings, BY_ID[gpu], with_stock=with_stock, query=query) if gpu in BY_ID else None


def wants_availability(query: dict[str, str], *, filters: frozenset[str] = _FILTERS) -> bool:
    """Whether stock is asked for. Raises BadQuery."""
    wanted = [word for word in query.get("include", "").split(",") if word]
    if any(word != "AVAILABILITY" for word in wanted):
        raise BadQuery("include: value must be one of 'AVAILABILITY'")
    given = filters & set(query)
    if wanted and "product" not in query:
        raise BadQuery("product is required with include=AVAILABILITY")
    if given and not wanted:
        raise BadQuery(f"{sorted(given)[0]} is valid only with include=AVAILABILITY")
    if not query.get("count", "1").isdigit():
        raise BadQuery("count: must be a whole number")
    return bool(wanted)


def _gpu(settings: Settings, gpu: GpuType, *, with_stock: bool, query: dict[str, str]) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": gpu.id,
        "name": gpu.name,
        "pool": gpu.pool,
        "manufacturer": "NVIDIA",
        "memory": gpu.memory,
        "secure": gpu.secure_count > 0,
        "community": gpu.community_count > 0,
        "price": {cloud: price(settings, gpu.id, cloud) for cloud in ("secure", "community")},
        "maxCount": {"secure": gpu.secure_count, "community": gpu.community_count},
    }
    if with_stock:
        count, cloud = int(query.get("count", "1")), query.get("cloud", "SECURE")
        left = places_for(settings, gpu.id, [])
        found = level(settings, gpu.id) if left and has_stock(settings, gpu.id, cloud, count) else LEVELS[0]
        shown["availability"] = found
        shown["dataCenters"] = [
            {"id": place, "name": _place_name(place), "availability": found if place in left else LEVELS[0]}
            for place in gpu.places
        ]
        shown["cudaVersions"] = [{"version": "12.8", "available": found != LEVELS[0]}]
    return shown


def read_places(settings: Settings, query: dict[str, str]) -> list[dict[str, Any]]:
    """The answer's `dataCenters`; filters of different kinds must all hold. Raises BadQuery."""
    include = _words(query, "include")
    if any(word not in ("GPU_AVAILABILITY", "CPU_AVAILABILITY") for word in include):
        raise BadQuery("include: value must be one of 'GPU_AVAILABILITY', 'CPU_AVAILABILITY'")
    regions, kinds, rules = (_words(query, name) for name in ("regions", "networkVolumeTypes", "compliance"))
    network = query.get("globalNetwork")
    return [
        place
        for place in (_place(settings, name, include) for name in _PLACES)
        if (not regions or place["region"] in regions)
        and set(kinds) <= set(place["networkVolumeTypes"])
        and set(rules) <= set(place["compliance"])
        and network in (None, str(place["globalNetwork"]).lower())
    ]


def every_place() -> list[dict[str, Any]]:
    """Id and name of each data center."""
    return [{"id": place, "name": _place_name(place)} for place in _PLACES]


def _words(query: dict[str, str], name: str) -> list[str]:
    return [word for word in query.get(name, "").split(",") if word]


def _place(settings: Settings, place: str, include: list[str]) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": place,
        "name": _place_name(place),
        "region": _REGIONS[place.split("-")[0]],
        "globalNetwork": place in ("US-KS-2", "EU-RO-1"),
        "networkVolumeTypes": ["STANDARD"],
        "compliance": ["SOC_2_TYPE_2"],
    }
    if "GPU_AVAILABILITY" in include:
        held = [gpu for gpu in GPUS if place in gpu.places]
        shown["gpuAvailability"] = [{"id": g.id, "name": g.name, "availability": level(settings, g.id)} for g in held]
    if "CPU_AVAILABILITY" in include:
        shown["cpuAvailability"] = [{"id": "cpu3c", "name": "Compute-Optimized", "availability": "HIGH"}]
    return shown


def _place_name(place: str) -> str:
    return place.replace("-", " ")
