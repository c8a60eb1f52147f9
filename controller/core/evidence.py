"""What counts as proof that something ended?

A dated statement from outside. Unknown is not absent, and an accepted stop is not a stop: which statement suffices for
which duty is decided in `core.obligation`; this file only names them.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class EvidenceKind(StrEnum):
    INVENTORY_COMPLETE_ABSENT = "inventory-complete-absent"
    PROVIDER_TERMINATED = "provider-terminated"
    STOP_ACCEPTED = "stop-accepted"
    EXTERNAL_CONFIRMATION = "external-confirmation"
    BILLING_QUIET = "billing-quiet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One statement: what kind, where it can be looked up, and when it was made."""

    kind: EvidenceKind
    reference: str
    observed_at: datetime


class StopReason(StrEnum):
    """Why a stop is owed: the closed list of the design's section 7."""

    IDLE = "idle"
    LIFETIME_EXCEEDED = "lifetime-exceeded"
    STARTUP_DEADLINE = "startup-deadline"
    CRASH_LOOP = "crash-loop"
    KEY_REFUSED = "key-refused"
    UNPROTECTED = "unprotected"
    SECRET_UNSUBSTITUTED = "secret-unsubstituted"
    SERVED_MODEL_MISMATCH = "served-model-mismatch"
    POD_EXITED = "pod-exited"
    POD_ERROR = "pod-error"
    ZERO_GPU = "zero-gpu"
    STOPPED_SERVING = "stopped-serving"
    HUNG = "hung"
    NCCL_STALL = "nccl-stall"
    MULTI_CARD_STALL = "multi-card-stall"
    WRONG_RESOURCE = "wrong-resource"
    SPEND = "spend"
    OPERATOR_REQUEST = "operator-request"
    MODEL_REMOVED = "model-removed"
    REPLACED = "replaced"
    PREFETCHED = "prefetched"
    AMBIGUOUS_MUTATION = "ambiguous-mutation"
    LEASE_EXPIRED = "lease-expired"
    OWNERSHIP_LOST = "ownership-lost"
    ORPHAN = "orphan"
    REAPPEARED = "reappeared"
    BILLED_AFTER_STOP = "billed-after-stop"
    ABANDONED = "abandoned"
