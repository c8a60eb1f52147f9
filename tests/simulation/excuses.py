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
        "account-claimed",
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
        "read-spoilt",
        "read-denied",
        "suspend",
        "daemon-stopped",
        "take-over",
        "env-hidden",
    }
)
"""While such a trouble lasts, nobody can ask for a stop in time, or the daemon may not (invariants 9 and 10)."""

UNWRITABLE: Final = frozenset({"disk-full", "store-locked"})
"""While nothing can be written, what is owed is stopped like any other; what nobody owes yet, or what has yet to be
found ready, has to wait (invariant 4)."""

UNTROUBLED: Final = (
    OUT_OF_REACH
    | UNWRITABLE
    | {
        "daemon-crash",
        "daemon-killed",
        "reboot",
        "daemon-restart",
        "store-restored",
        "delete-ignored",
        "delete-late",
        "delete-lost",
        "delete-spoilt",
        "copied-config",
        "young-unseen",
        "outage-hang",
        "proxy-out",
    }
)
"""Without any of these, nothing keeps a stop from being sent in the moment in which it is due."""

BLIND_S: Final = 900.0
"""After an outage: a listing every 300 s at most where nothing is known to be alive, and Retry-After may be long."""

GATEWAY_SILENT: Final = frozenset(
    {"gateway-killed", "gateway-crash", "gateway-stopped", "suspend", "daemon-stopped", "clock-jump", "copied-config"}
)
"""A gateway that could not tell of its streams: a stream lease ends with its time (invariant 6)."""

WORDLESS: Final = frozenset(
    {
        "slowed",
        "server-hung",
        "cards-stall",
        "proxy-out",
        "server-dies",
        "server-refuses-key",
        "server-crashing",
        "server-respawns",
    }
)
"""Requests that reach such a server get no byte."""

UNSURE: Final = frozenset(
    {
        "outage-refused",
        "outage-hang",
        "outage-error",
        "outage-html",
        "network-out",
        "create-lost",
        "create-lost-made",
        "create-error-made",
        "create-late",
        "create-malformed",
        "create-ignored",
        "create-queued",
        "daemon-crash",
        "daemon-killed",
        "reboot",
        "daemon-restart",
        "daemon-stopped",
        "take-over",
        "suspend",
        "store-restored",
        "disk-full",
        "store-locked",
        "rate-limited",
    }
)
"""After such a trouble nobody can say what became of a create."""

QUEUED: Final = frozenset({"create-queued", "pod-queued"})
"""What waits becomes a pod hours after anybody asked for it."""

DEAD: Final = frozenset(
    {
        "server-crashing",
        "server-respawns",
        "starts-crashing",
        "pod-restarted",
        "console-restart",
        "pod-exited",
        "console-stop",
        "no-balance",
        "pod-odd-status",
        "server-dies",
    }
)
"""A container that ends, by itself or by somebody's hand."""

JUSTIFY: Final[dict[str, frozenset[str]]] = {
    "crash-loop": DEAD | {"starts-out-of-memory"},
    "key-refused": frozenset({"server-refuses-key", "secret-unsubstituted"}),
    "unprotected": frozenset({"server-open"}),
    "secret-unsubstituted": frozenset({"secret-unsubstituted"}),
    "served-model-mismatch": frozenset({"server-wrong-model"}),
    "pod-exited": DEAD | {"place-bad"},
    "pod-error": frozenset({"pod-error", "place-bad"}),
    "zero-gpu": frozenset({"pod-zero-gpu"}),
    "stopped-serving": DEAD
    | {"server-hung", "proxy-out", "network-out", "suspend", "starts-unready", "cards-stall", "starts-out-of-memory"},
    "hung": frozenset({"server-hung", "cards-stall"}),
    "multi-card-stall": frozenset({"cards-stall", "log-speaks"}),
    "nccl-stall": frozenset({"cards-stall", "log-speaks"}),
    "wrong-resource": frozenset({"price-jump", "dearer", "pod-zero-gpu", "made-otherwise"}) | QUEUED,
    "spend": frozenset({"price-jump", "dearer", "cost-raised", "made-otherwise", "clock-jump"}),
    "operator-request": frozenset({"operator-stop", "operator-stop-now", "operator-stop-all"}),
    "model-removed": frozenset({"model-removed", "config-broken", "emptying-confirmed"}),
    "replaced": frozenset({"model-changed", "operator-restart"}),
    "prefetched": frozenset({"operator-prefetch"}),
    "ambiguous-mutation": UNSURE,
    "orphan": UNSURE
    | LYING
    | QUEUED
    | {"copied-config", "account-swapped", "env-hidden", "listing-doubled", "young-unseen"},
    "billed-after-stop": frozenset({"bills-on"}),
    "reappeared": UNSURE
    | LYING
    | QUEUED
    | {"account-swapped", "stop-lags", "stop-confirmed", "copied-config", "account-claimed"},
    "lease-expired": frozenset(),
    "ownership-lost": frozenset(),
}
"""Stop reason → the kinds of trouble, at the pod, its model or the whole provider, that justify it. A reason that does
not stand here is judged by the clock."""
