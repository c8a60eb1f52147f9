"""What can a test order of the model server behind a pod?

Its state, how often its container crashes or its process alone starts anew, how fast it writes and when it dies. Given
for one pod, or in the settings for every new one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from controller.emulators.runpod import pods
from controller.emulators.runpod.pods import Pod
from controller.emulators.runpod.reading import BadControl, not_negative, positive, table, whole, word_of


def read_orders(key: str, value: object) -> dict[str, Any]:
    """Raises BadControl."""
    read = table(key, value)
    for name in read:
        if name not in _READ:
            raise BadControl(key=f"{key}.{name}", why="there is no such key")
    return {name: _READ[name](f"{key}.{name}", entry) for name, entry in read.items()}


def take_orders(pod: Pod, orders: dict[str, Any], now: float) -> None:
    """Orders as read by `read_orders`."""
    upstream = pod.upstream
    if "state" in orders:
        pods.order_state(pod, orders["state"], now)
    if "crash_every_seconds" in orders:
        pods.order_crashes(pod, orders["crash_every_seconds"], now)
    if "respawn_every_seconds" in orders:
        pods.order_respawns(pod, orders["respawn_every_seconds"], now)
    upstream.token_rate = orders.get("token_rate", upstream.token_rate)
    upstream.first_token_seconds = orders.get("first_token_seconds", upstream.first_token_seconds)
    upstream.die_after_chunks = orders.get("die_after_chunks", upstream.die_after_chunks)
    ordered = (orders.get("crash_every_seconds"), orders.get("respawn_every_seconds"))
    if any(every is not None for every in ordered) or orders.get("state") == "crashing":
        # Open requests do not know of a crash that was ordered after they began: it begins with one.
        upstream.open.cut()


def _optional(read: Callable[[str, object], object]) -> Callable[[str, object], object]:
    return lambda key, value: None if value is None else read(key, value)


_READ: Final[dict[str, Callable[[str, object], object]]] = {
    "state": word_of(pods.UPSTREAM_STATES),
    "crash_every_seconds": _optional(positive),
    "respawn_every_seconds": _optional(positive),
    "token_rate": _optional(positive),
    "first_token_seconds": not_negative,
    "die_after_chunks": _optional(whole),
}
