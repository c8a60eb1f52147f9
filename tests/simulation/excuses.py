"""Which of the staged troubles explain what would otherwise be a fault of ours?

Three tables over the kinds that `plan` stages. Who adds a kind says here what it may explain; a kind that stands
nowhere explains nothing.
"""

from typing import Final

LYING: Final = frozenset(
    {
        "listing-empty",
        "listing-partial",
        "listing-lags",
        "read-lags",
        "read-denied",
        "account-swapped",
        "store-restored",
    }
)
"""While such a trouble lasts, or shortly after, the provider may show a pod as gone that bills (invariant 11)."""

OUT_OF_REACH: Final = frozenset(
    {
        "outage-refused",
        "outage-hang",
        "outage-error",
        "outage-html",
        "rate-limited",
        "network-out",
        "account-swapped",
        "disk-full",
        "store-locked",
        "config-broken",
        "config-emptied",
        "clock-jump",
    }
)
"""While such a trouble lasts, nobody can ask for a stop in time, or the daemon may not (invariants 9 and 10)."""

GATEWAY_SILENT: Final = frozenset({"gateway-killed", "gateway-crash", "gateway-stopped", "suspend", "daemon-stopped"})
"""A gateway that could not tell of its streams: a stream lease ends with its time (invariant 6)."""

JUSTIFY: Final[dict[str, frozenset[str]]] = {}
"""Stop reason → the kinds of trouble, at the pod, its model or the whole provider, that justify it."""
