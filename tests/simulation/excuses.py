"""Which of the staged troubles explain what would otherwise be a fault of ours?

Tables over the kinds that `plan` stages. Who adds a kind says here what it may explain; a kind that stands nowhere
explains nothing.
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
        "pod-odd-status",
        "pod-cloned",
        "pod-migrated",
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
        "provider-clock-off",
        "listing-spoilt",
        "listing-error",
        "listing-empty",
        "listing-partial",
        "listing-doubled",
        "delete-conflict",
        "delete-refused",
        "delete-error",
        "delete-ignored",
        "delete-late",
        "delete-lost",
        "read-spoilt",
        "read-denied",
        "suspend",
        "daemon-stopped",
        "take-over",
        "env-hidden",
    }
)
"""While such a trouble lasts, nobody can ask for a stop in time, or the daemon may not (invariants 9 and 10)."""

BLIND_S: Final = 900.0
"""After an outage: a listing every 300 s at most where nothing is known to be alive, and Retry-After may be long."""

GATEWAY_SILENT: Final = frozenset(
    {"gateway-killed", "gateway-crash", "gateway-stopped", "suspend", "daemon-stopped", "clock-jump", "copied-config"}
)
"""A gateway that could not tell of its streams: a stream lease ends with its time (invariant 6)."""
