"""What did the one eye see last?

An immutable value, published by the observer after each look and read by every other task. Absences are followed from
listing to listing; sightings and reads carry their instants, so that each rule can ask whether they are recent enough
for it.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal

from controller.core.billing import Bill
from controller.core.costs import Costs
from controller.core.deployment import SeenResource
from controller.core.identity import DeploymentId, RequestId, ResourceKey
from controller.core.inventory import Absences, Listing, Read
from controller.core.machine_log import Logged
from controller.core.policy import HostingPolicy
from controller.core.readiness import Verdict
from controller.core.runtime import Runtime
from controller.core.shortage import Shortage, left_out
from controller.core.storage import Storage
from controller.core.timekeeping import AGREED
from controller.core.unlisted import Unlisted


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """What one probe of a deployment's model server came to."""

    verdict: Verdict
    served: tuple[str, ...] | None
    detail: str
    at: datetime
    awaited_at: datetime | None = None
    """When an answer last said that it does not serve yet."""
    runtime: Runtime | None = None
    """What its server then counted about itself."""
    version: str | None = None
    """Of the server, where the image does not say it."""
    proven_at: datetime | None = None
    """When it last showed all that readiness asks for, and not only that it serves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The latest of everything observed."""

    listing: Listing | None = None
    """The latest listing, complete or not."""
    completed: Listing | None = None
    """The latest complete one."""
    judged: datetime | None = None
    """When the latest complete listing that the account guard judged began: its verdict holds up to there."""
    failing_since: datetime | None = None
    absences: Absences = field(default_factory=Absences)
    sighted: Mapping[ResourceKey, datetime] = field(default_factory=dict)
    """When each resource was last seen, in any listing or read."""
    reads: Mapping[ResourceKey, Read] = field(default_factory=dict)
    probes: Mapping[DeploymentId, Probed] = field(default_factory=dict)
    logs: Mapping[DeploymentId, Logged] = field(default_factory=dict)
    """What the looks at each machine's log came to."""
    usd_per_hour: Mapping[str, Decimal] = field(default_factory=dict)
    """Price of one card by offer, as far as known."""
    priced_at: datetime | None = None
    """When the provider told those prices; `None`: not yet."""
    unlisted: Mapping[str, tuple[Unlisted, ...]] | None = None
    """By model, the types that it names and the catalog did not have when it was read last; `None`: not read yet."""
    costs: Mapping[ResourceKey, Costs] = field(default_factory=dict)
    """What each of our resources was lately said to bill."""
    shortages: Mapping[str, Shortage] = field(default_factory=dict)
    """By model, of which offers there was none left, and when."""
    bill: Bill | None = None
    """The latest look at what was billed, read or not."""
    storage: Storage | None = None
    """The volumes that models name; `None`: not asked for yet, or there are none."""
    interval: timedelta = timedelta(seconds=15)
    """The present rhythm of listings."""

    def fresh(self, policy: HostingPolicy, *, now: datetime) -> bool:
        """Is there a complete listing that is recent enough for a create (RP-44)?"""
        return self.completed is not None and now - self.completed.ended_at <= policy.listing_fresh(self.interval)

    def vouched(self, began_at: datetime | None) -> bool:
        """Was a listing begun then judged, so that trust in the account says something about it (RP-43)? Without one
        there is nothing to vouch for."""
        return began_at is None or (self.judged is not None and began_at <= self.judged)

    def left_out(
        self, offer: str, among: tuple[str, ...], *, model: str, now: datetime, bad: Collection[str] = ()
    ) -> bool:
        """Is it passed over at a start of this model, as another one of those is more worth asking for?"""
        shortage, unlisted = self.shortages.get(model), (self.unlisted or {}).get(model, ())
        return left_out(offer, among, shortage, unlisted=unlisted, bad=bad, now=now)

    @property
    def resources(self) -> tuple[SeenResource, ...]:
        """What the latest listing showed, complete or not."""
        return () if self.listing is None else self.listing.resources

    @property
    def complete_resources(self) -> tuple[SeenResource, ...] | None:
        """What the latest complete listing showed; `None`: there was none yet."""
        return None if self.completed is None else self.completed.resources

    @property
    def date_apart(self) -> timedelta | None:
        """By how much the provider's date is not ours, by the latest complete listing; `None`: they agree, or it told
        none."""
        return date_apart(self.completed)

    def resource(self, key: ResourceKey) -> SeenResource | None:
        """How the latest listing showed it, complete or not."""
        return None if self.listing is None else self.listing.by_key.get(key)

    def carrying(self, request: RequestId) -> tuple[SeenResource, ...]:
        """What the latest listing showed under this request id, oldest first where that is known."""
        return () if self.listing is None else self.listing.by_request.get(request, ())


def date_apart(listing: Listing | None) -> timedelta | None:
    if listing is None or listing.provider_time is None:
        return None
    apart = listing.provider_time - listing.ended_at
    return apart if abs(apart) > AGREED else None
