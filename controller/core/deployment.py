"""What was asked for, what do we hold on record, and what did somebody see?

Three types that never stand in for one another: `DeploymentSpec` is the request, `Record` is our own, `SeenResource`
and `ProvisionedDeployment` are observations. An observation is only ever built from a provider's or a probe's answer,
and what was not reported is `None` (HC-4, HC-5).
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Self

from controller.core.evidence import Evidence, StopReason
from controller.core.identity import DeploymentId, RequestId, ResourceKey, Scope, Tags, identifier
from controller.core.lifecycle import Phase


class ProviderState(StrEnum):
    """The provider's word, reduced. It is not readiness (HC-6)."""

    PENDING = "pending"
    RUNNING = "running"
    TERMINATED = "terminated"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentSpec:
    """One requested resource for one slot of one model. Raises InvalidIdentifier on a part that is none."""

    id: DeploymentId
    provider: str
    account: str
    model: str
    image: str
    resource_name: str
    requested_lifetime: timedelta

    def __post_init__(self) -> None:
        for part in (self.id, self.provider, self.account, self.model, self.image, self.resource_name):
            identifier(part)

    @property
    def scope(self) -> Scope:
        return Scope(provider=self.provider, account=self.account)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenResource:
    """One resource as the provider described it. Every optional field is `None` when it was not said."""

    key: ResourceKey
    tags: Tags
    namespaced: bool
    """Its name begins with our prefix."""
    state: ProviderState | None
    word: str
    """The provider's own status word, bounded and printable; for people, never for rules."""
    fault: StopReason | None = None
    """The provider says that it cannot serve any more: pod-exited, pod-error or zero-gpu."""
    endpoint: str | None = None
    created_at: datetime | None = None
    started_at: datetime | None = None
    """Start of its container as the provider or the uptime tells it; moves forward when the container restarts."""
    usd_per_hour: Decimal | None = None
    offer: str | None = None
    """The type of machine that was really obtained."""
    place: str | None = None
    """Where it stands, in the provider's word; the finest that it tells."""
    alias: str | None = None
    """The model's alias as its name tells it; a hint for claiming, never a proof of ownership."""
    fits: frozenset[str] | None = None
    """Of its model's offers as they are configured now, those that could have made it; `None`: nobody compared."""
    cluster: bool = False
    """Belongs to a group that must not be stopped one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisionedDeployment:
    """A deployment as last observed by the listing and our probe together."""

    key: ResourceKey
    state: ProviderState | None
    ready: bool | None
    endpoint: str | None
    served_model: str | None
    observed_at: datetime

    @classmethod
    def observed(
        cls, seen: SeenResource, *, ready: bool | None, served_model: str | None, observed_at: datetime
    ) -> Self:
        """The one constructor: from an observation, never from a request."""
        return cls(
            key=seen.key,
            state=seen.state,
            ready=ready if seen.endpoint is not None else None,
            endpoint=seen.endpoint,
            served_model=served_model,
            observed_at=observed_at,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What our store holds of one deployment. Times are UTC; `version` guards each write."""

    spec: DeploymentSpec
    slot: int
    fingerprint: str
    """Digest of the model's configuration that this deployment was made from."""
    phase: Phase
    declared_at: datetime
    started_at: datetime | None = None
    """When its first accepted or unanswered create was submitted: lifetime and startup deadline count from here."""
    key: ResourceKey | None = None
    epoch: int = 0
    reason: StopReason | None = None
    stop_required_at: datetime | None = None
    drain_until: datetime | None = None
    """Open requests may end until then; the stop itself is submitted not before it or the last of them."""
    ready_at: datetime | None = None
    """First moment our own probe said that it serves."""
    replaces: DeploymentId | None = None
    """The deployment of the same slot that it was made to succeed."""
    restart_asked_at: datetime | None = None
    """Since then an operator wants another in its place."""
    fills: str | None = None
    """It is there to put the weights onto the volume in this place: it never serves, and is stopped when it could."""
    proven_at: datetime | None = None
    """When a gateway first got an answer from it, of one that replaces another."""
    unready_since: datetime | None = None
    last_byte_at: datetime | None = None
    ended_at: datetime | None = None
    evidence: Evidence | None = None
    usd_per_hour: Decimal | None = None
    offer: str | None = None
    place: str | None = None
    """Where it stands, as far as the provider ever told."""
    observed: ProvisionedDeployment | None = None
    """Liveness; dropped at a restart (HC-31)."""
    version: int = 0

    @property
    def id(self) -> DeploymentId:
        return self.spec.id

    @property
    def model(self) -> str:
        return self.spec.model


class CreateAnswer(StrEnum):
    """What a create call's answer means for sure (HC-10)."""

    NOT_SENT = "not-sent"
    REJECTED = "rejected"
    UNKNOWN = "unknown"
    ACCEPTED = "accepted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """One create call. The row is committed before the call."""

    request: RequestId
    deployment: DeploymentId
    offer: str
    submitting_at: datetime | None = None
    """The mark, committed last before the call: without it nothing was sent; with it and no answer, nobody knows."""
    ended_at: datetime | None = None
    """When the call was over for us: from then on absence may begin to count."""
    answer: CreateAnswer | None = None
    key: ResourceKey | None = None
    detail: str | None = None
