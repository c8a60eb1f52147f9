"""How is a resource asked for, and how is its stop?

The two calls that cost or end something. Their answers say what is certain and no more: a create whose answer was lost
is `CreateUnknown`, a stop that was accepted is only accepted. Nobody but the executor (and a few commands that work
without a daemon) imports this.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Protocol

from controller.core.bad_places import BadPlace
from controller.core.deployment import DeploymentSpec, SeenResource
from controller.core.identity import ResourceKey, Tags


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What runs on the resource: exec form, and an environment in which a secret is only ever a reference."""

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    beside_volume: Mapping[str, str] = field(default_factory=dict)
    """More of it, for an offer that has a volume: what is fetched is kept there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One create call: the deployment, the tags to carry, the one offer to ask for, and what to run there."""

    spec: DeploymentSpec
    tags: Tags
    offer: str
    launch: Launch
    usd_per_hour_max: Decimal | None = None
    """What was reserved for it: a machine that bills more was not ordered."""
    avoid: tuple[BadPlace, ...] = ()
    """Rather not there, if the provider can be told so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateAccepted:
    """The provider made it and described it. `mismatch` says how what was got differs from what was ordered."""

    resource: SeenResource
    mismatch: str | None = None


class RejectedFor(StrEnum):
    """What a definite refusal ends (design, section 5)."""

    OFFER = "offer"
    """This offer only: the next one may be tried (400, 403)."""
    FUNDS = "funds"
    """402: no create until an operator acts."""
    ORDER = "order"
    """404, 409, 413, 422: the order itself is wrong, on every offer."""
    CREDENTIAL = "credential"
    """401: our key is refused."""
    RATE = "rate"
    """429: asked too often; nothing was made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateRejected:
    """Nothing was made, for certain: a well-formed refusal."""

    what: RejectedFor
    detail: str
    """The provider's own words, bounded and redacted; for operators only (CX-5)."""
    retry_after: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateNotSent:
    """Nothing was made, for certain: no byte of the request left."""

    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateUnknown:
    """It may or may not exist: 5xx, timeout, reset after sending, an answer that makes no sense, a foreign
    description."""

    detail: str


CreateOutcome = CreateAccepted | CreateRejected | CreateNotSent | CreateUnknown


@dataclass(frozen=True, slots=True, kw_only=True)
class StopAccepted:
    """The provider said yes. Weak evidence."""

    reference: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StopNotFound:
    """It said that there is no such resource here; proves nothing by itself (CX-6)."""

    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRefused:
    """It said no: a key without the right, a cluster member, a rate limit (then `retry_after`)."""

    detail: str
    retry_after: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StopUnknown:
    """No answer, or one that makes no sense. Submitted again later."""

    detail: str


StopOutcome = StopAccepted | StopNotFound | StopRefused | StopUnknown


class Writing(Protocol):
    """The one hand's way to a provider. No method raises for what the provider does; each ends within its call
    limit."""

    idempotent: bool
    """The provider tells a repeated create from a second one (HC-12); Runpod does not."""

    async def create(self, order: Order) -> CreateOutcome: ...

    async def stop(self, key: ResourceKey) -> StopOutcome: ...
