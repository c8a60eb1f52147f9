"""What can be refused, and what may a caller be told?

Two closed tables. A refusal is the hosting contract saying no before anything happened: a fixed code with a fixed text,
free of provider words (HC-40). An outward code is what clients and operators read (design, section 7). The third
family, `Defect`, means that we are wrong; nothing but supervision catches it.
"""

from enum import StrEnum
from typing import Final


class RefusalCode(StrEnum):
    INVALID_POLICY = "invalid-policy"
    INVALID_SPEC = "invalid-spec"
    UNAUTHORIZED = "unauthorized"
    DUPLICATE = "duplicate"
    MISSING = "missing"
    WRONG_PHASE = "wrong-phase"
    CLOCK_REVERSED = "clock-reversed"
    CAPACITY_EXCEEDED = "capacity-exceeded"
    LEASE_HELD = "lease-held"
    LEASE_LOST = "lease-lost"
    STALE_EPOCH = "stale-epoch"
    FOREIGN_RESOURCE = "foreign-resource"
    AMBIGUOUS_MUTATION = "ambiguous-mutation"
    IDEMPOTENCY_UNSUPPORTED = "idempotency-unsupported"


REFUSAL_TEXTS: Final = {
    RefusalCode.INVALID_POLICY: "the hosting policy is outside its bounds",
    RefusalCode.INVALID_SPEC: "the deployment is not what this controller may run",
    RefusalCode.UNAUTHORIZED: "the spending authorization is missing or names another ledger",
    RefusalCode.DUPLICATE: "a deployment of this id, or a live one of this slot, exists",
    RefusalCode.MISSING: "no such deployment",
    RefusalCode.WRONG_PHASE: "the deployment's phase does not allow this",
    RefusalCode.CLOCK_REVERSED: "the clock is earlier than what was already witnessed: nothing is created",
    RefusalCode.CAPACITY_EXCEEDED: "as many deployments as the policy allows are alive",
    RefusalCode.LEASE_HELD: "another controller holds the lease",
    RefusalCode.LEASE_LOST: "there is no live lease on the deployment",
    RefusalCode.STALE_EPOCH: "a newer lease was granted since",
    RefusalCode.FOREIGN_RESOURCE: "the resource carries another owner",
    RefusalCode.AMBIGUOUS_MUTATION: "no exact key of a resource is known",
    RefusalCode.IDEMPOTENCY_UNSUPPORTED: "the provider cannot tell a repeated create from a second one",
}


class Refusal(Exception):
    """The contract said no; nothing was called and nothing changed."""

    def __init__(self, code: RefusalCode) -> None:
        super().__init__(REFUSAL_TEXTS[code])
        self.code = code


class InvalidIdentifier(ValueError):
    """A name that no provider may be given. The text never repeats it."""

    def __init__(self) -> None:
        super().__init__("an identifier is 1 to 256 bytes of printable ASCII without spaces")


class Defect(Exception):
    """We are wrong. Nothing catches this but supervision."""


class ImpossibleMove(Defect):
    """A phase was to follow another that it cannot follow."""


class Code(StrEnum):
    """What clients and operators are told; the only words that cross our outer border."""

    UNKNOWN_MODEL = "unknown_model"
    MODEL_STARTING = "model_starting"
    MODEL_STOPPING = "model_stopping"
    MODEL_BLOCKED = "model_blocked"
    QUEUE_FULL = "queue_full"
    NO_CAPACITY = "no_capacity"
    NO_FUNDS = "no_funds"
    BUDGET_EXHAUSTED = "budget_exhausted"
    PROVIDER_UNAVAILABLE = "provider_unavailable"
    CONTROLLER_DOWN = "controller_down"
    STORE_UNAVAILABLE = "store_unavailable"
    START_FAILED = "start_failed"
    UPSTREAM_DISCONNECTED = "upstream_disconnected"
    UPSTREAM_TIMEOUT = "upstream_timeout"
    WRONG_KEY = "wrong_key"
    MODEL_NOT_ALLOWED = "model_not_allowed"
    """To this client's key: the model is there, for others."""
    RATE_LIMITED = "rate_limit_exceeded"
    """By this client's key: too many requests in a minute, or at once."""
    BODY_TOO_LARGE = "body_too_large"
    NOT_SERVED = "not_served"
    BAD_REQUEST = "bad_request"
    NOT_FOUND = "not_found"
    REFUSED = "refused"
