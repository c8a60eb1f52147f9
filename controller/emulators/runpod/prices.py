"""What does a pod cost an hour, by what was asked for?"""

from __future__ import annotations

from typing import Any

from controller.emulators.runpod import catalog, cpus
from controller.emulators.runpod.settings import Settings

_UNLISTED_USD = 0.1


def hourly(settings: Settings, asked: dict[str, Any]) -> float:
    """USD for the whole pod, before any jump of the price; a type that only a test knows costs something, too."""
    gpu = asked.get("gpu")
    if gpu is None:
        return cpus.hourly(asked["cpu"]) if asked.get("cpu") else _UNLISTED_USD
    each = catalog.price(settings, gpu["id"], asked.get("cloud", "SECURE")) if gpu["id"] in catalog.BY_ID else None
    return (_UNLISTED_USD if each is None else each) * max(int(gpu.get("count", 1)), 1)
