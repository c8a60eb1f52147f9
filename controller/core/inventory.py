"""What did one look at the provider's account show, and what does a series of looks prove?

A listing is complete only if every page was read and every entry in our namespace could be described; a failed, partial
or odd one proves no absence, yet what it shows is seen (RP-3). Absence is a series of complete listings that lack a
thing, broken by any sighting.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import TypeVar

from controller.core.deployment import SeenResource
from controller.core.identity import RequestId, ResourceKey


@dataclass(frozen=True, kw_only=True)
class Listing:
    """One look at all resources of our account; indexed at most once, however often it is asked."""

    began_at: datetime
    ended_at: datetime
    complete: bool
    resources: tuple[SeenResource, ...] = ()
    """Everything that could be described, foreign ones included."""
    requests_readable: bool = False
    """Everything under our prefix or owner carries a readable request id: absence by request id may count (HC-19)."""
    problem: str | None = None
    """Why it is not complete, bounded and redacted; for people."""
    provider_time: datetime | None = None

    @cached_property
    def by_key(self) -> Mapping[ResourceKey, SeenResource]:
        return {resource.key: resource for resource in self.resources}

    @cached_property
    def by_request(self) -> Mapping[RequestId, tuple[SeenResource, ...]]:
        """What carries each request id, oldest first where that is known."""
        found: dict[RequestId, list[SeenResource]] = {}
        for resource in self.resources:
            if resource.tags.request is not None:
                found.setdefault(resource.tags.request, []).append(resource)
        return {request: tuple(sorted(carrying, key=_age)) for request, carrying in found.items()}


def _age(resource: SeenResource) -> tuple[bool, datetime, str]:
    created_at = resource.created_at
    return created_at is None, created_at or datetime.min.replace(tzinfo=UTC), resource.key.incarnation


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """A read of one resource showed it."""

    resource: SeenResource
    observed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class NotFound:
    """An authenticated read said that there is no such resource. Alone it proves nothing."""

    reference: str
    began_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """The read failed, or its answer made no sense."""

    problem: str
    at: datetime


Read = Present | NotFound | Unreadable


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """An unbroken series of complete listings without one thing; each instant is when such a listing began."""

    first: datetime
    previous: datetime | None
    last: datetime

    def continued(self, began_at: datetime) -> "Absence":
        return Absence(first=self.first, previous=self.last, last=began_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Absences:
    """What recent complete listings lacked, by key and by request id."""

    keys: Mapping[ResourceKey, Absence] = field(default_factory=dict)
    requests: Mapping[RequestId, Absence] = field(default_factory=dict)


def follow(
    absences: Absences,
    listing: Listing,
    *,
    keys: frozenset[ResourceKey],
    requests: frozenset[RequestId],
) -> Absences:
    """Carry the series on by one listing, for the things that are asked about."""
    return Absences(
        keys=_carried(
            absences.keys, wanted=keys - listing.by_key.keys(), counts=listing.complete, began_at=listing.began_at
        ),
        requests=_carried(
            absences.requests,
            wanted=frozenset(requests - listing.by_request.keys()),
            counts=listing.complete and listing.requests_readable,
            began_at=listing.began_at,
        ),
    )


K = TypeVar("K")


def _carried(
    series: Mapping[K, Absence], *, wanted: frozenset[K], counts: bool, began_at: datetime
) -> dict[K, Absence]:
    if not counts:
        return {thing: absence for thing, absence in series.items() if thing in wanted}
    return {
        thing: series[thing].continued(began_at)
        if thing in series
        else Absence(first=began_at, previous=None, last=began_at)
        for thing in wanted
    }
