"""What does an old copy of the store not know, and what is done about it?

A copy that is put back remembers the past: epochs and evidence numbers were given since, machines were started and
stopped. So both counters are raised above everything that anybody may have seen, and each resource that bears our marks
without our having sent for it is taken for what the lost records held: adopted where its model has room, waited with
while a recorded occupant may turn out to be gone, else owed a stop. Nothing is created meanwhile (RP-52).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, TypeGuard

from controller.core.book import Book
from controller.core.deployment import Create, Record, SeenResource
from controller.core.identity import Owner, RequestId, ResourceKey
from controller.core.inventory import Listing
from controller.core.lifecycle import SERVING
from controller.core.orphans import ended
from controller.core.policy import ModelPolicy

RAISED_BY: Final = 1_000_000
"""More grants and lines than a store can have lost without anything left to tell of them."""
HIGHEST: Final = 1 << 53
"""No number of ours comes near it: what is beyond was written by somebody's hand, and raises nothing."""


def believable(number: Any) -> TypeGuard[int]:
    """May this number, told from outside, have been given by a run of ours?"""
    return isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= HIGHEST


def raised(ours: int, *told: int | None) -> int:
    """Above every number that may have been given: our own latest, and what is told from outside."""
    return max([ours, *(number for number in told if believable(number))]) + RAISED_BY


def newer(epoch: int | None, granted: int) -> TypeGuard[int]:
    """Does an epoch told from outside say that somebody granted more than `granted`?"""
    return believable(epoch) and epoch > granted


def strangers(
    resources: Iterable[SeenResource], book: Book, *, vouched: Collection[RequestId] = ()
) -> list[SeenResource]:
    """What exists, bears our marks, and was sent for by nobody that this store remembers; the newest first.

    `vouched`: request ids that are known to be ours whatever marks their resource shows.
    """
    held = book.held_keys()
    found = [
        seen
        for seen in resources
        if seen.key not in held and seen.key not in book.settled and lost(seen, book, vouched=vouched)
    ]
    return sorted(found, key=_newest_first)


def _newest_first(seen: SeenResource) -> tuple[int, float, str]:
    made = seen.created_at.timestamp() if seen.created_at is not None else 0.0
    return -(seen.tags.epoch or 0), -made, seen.key.incarnation


def lost(seen: SeenResource, book: Book, *, vouched: Collection[RequestId] = ()) -> bool:
    """Can only a lost record have made it: ours, and of a request that we never sent, as far as the book goes back?"""
    request = seen.tags.request
    if request is None or ended(seen) or seen.cluster or not _ours(seen, book.owner, vouched):
        return False
    create = book.creates.get(request)
    return create is None or not sent(create)


def _ours(seen: SeenResource, owner: Owner, vouched: Collection[RequestId]) -> bool:
    return owner.holds(seen.tags) or (seen.tags.request in vouched and not owner.disputed(seen.tags))


def sent(create: Create) -> bool:
    """Did this create's call leave, as far as the store knows?"""
    return create.submitting_at is not None


def betrays(seen: SeenResource, book: Book, *, granted: int) -> bool:
    """Does a stranger prove that the store is old, though nobody said so? It carries an epoch above all that former
    runs granted, or the id of a create that we planned and never sent."""
    return newer(seen.tags.epoch, granted) or seen.tags.request in book.creates


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopt:
    """Take it over as a deployment in this slot."""

    slot: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Owe:
    """Nobody wants it: its stop is owed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """What is recorded in its place may turn out to be gone."""


def decide(
    model: ModelPolicy | None,
    occupants: Sequence[Record | None],
    shown: Mapping[ResourceKey, SeenResource],
    *,
    settled: bool,
) -> Adopt | Owe | Wait:
    """What becomes of one stranger. `occupants` are its model's slots, in order; `settled`: listings had their time."""
    if model is None:
        return Owe()
    for slot, occupant in enumerate(occupants):
        if occupant is None:
            return Adopt(slot=slot)
    standing = [record.phase in SERVING and record.key in shown for record in occupants if record is not None]
    return Owe() if settled and all(standing) else Wait()


def settled(listing: Listing, *, since: datetime, settle: timedelta) -> bool:
    """Would this listing show whatever was made before `since`, however late the provider's listings are?"""
    return listing.complete and listing.began_at >= since + settle
