"""Whose is a resource that no record of ours holds?

Ours is only what carries our owner, our installation and a readable request id. Such a thing without a record is an
orphan: once seen twice and older, by our own first sighting, than the grace, it is stopped on the books. Our owner with
another installation means that somebody copied the config or lost a store: reported, never stopped until it is claimed.
Everything else is foreign or unmarked, counted and left alone (design, section 5).
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from controller.core.deployment import ProviderState, SeenResource
from controller.core.identity import Owner, ResourceKey


class Whose(StrEnum):
    OURS = "ours"
    COPIED = "copied"
    FOREIGN = "foreign"
    UNMARKED = "unmarked"
    """Bears our prefix, not our tags: reported, never touched."""
    ELSE = "else"
    """Somebody's, of no concern to us."""


def whose(resource: SeenResource, owner: Owner) -> Whose:
    """Tell by its tags alone, never by its name."""
    tags = resource.tags
    if owner.holds(tags):
        return Whose.OURS if tags.request is not None and not resource.cluster else Whose.UNMARKED
    if tags.owner == owner.name:
        return Whose.COPIED if tags.installation is not None else Whose.UNMARKED
    if tags.owner is not None:
        return Whose.FOREIGN
    return Whose.UNMARKED if resource.namespaced else Whose.ELSE


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """An unrecorded resource: since when, and in how many listings, we have seen it. Kept across restarts."""

    key: ResourceKey
    whose: Whose
    installation: str | None
    first_at: datetime
    last_at: datetime
    times: int
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    """Not now; look again at `until`, or never (`None`)."""

    until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StopOrphan:
    """Open an obligation for it and stop it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimable:
    """Another installation's, and older than anything may live: it may be claimed."""


def decide_orphan(sighting: Sighting, *, grace: timedelta, now: datetime) -> Leave | StopOrphan:
    """For what is ours: stopped once seen twice and seen for as long as the grace."""
    due_at = sighting.first_at + grace
    if now < due_at:
        return Leave(until=due_at)
    return StopOrphan() if sighting.times >= 2 else Leave(until=None)


def decide_copied(
    sighting: Sighting, *, claim_age: timedelta, claim_silence: timedelta, now: datetime
) -> Leave | Claimable:
    """For another installation's: never, unless the provider says that it outlived every lifetime, and we saw it long
    enough."""
    if sighting.created_at is None:
        return Leave(until=None)
    due_at = max(sighting.created_at + claim_age, sighting.first_at + claim_silence)
    return Claimable() if now >= due_at else Leave(until=due_at)


def ended(resource: SeenResource) -> bool:
    """The provider says that it is over: nothing is left to stop."""
    return resource.state is ProviderState.TERMINATED
