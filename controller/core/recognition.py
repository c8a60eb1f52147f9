"""As what do we know a resource that a listing shows?

One that was renamed at the provider has its recorded key back: the incarnation is what tells it (HC-2). And one that
serves keeps the address under which it does while the provider says a word of it that nobody knows. Readiness is our
own probe and never the provider's word (design, section 5), so that a new word of theirs takes no machine from those
who use it; where its server does not answer, the probe says so. What does not serve yet has no address before the
provider says that it runs (RP-26).
"""

from collections.abc import Iterable
from dataclasses import replace

from controller.core.book import Book
from controller.core.deployment import Record, SeenResource
from controller.core.identity import ResourceKey, Scope
from controller.core.inventory import Listing
from controller.core.lifecycle import Phase


def recognised(listing: Listing, book: Book) -> Listing:
    known = {(key.scope, key.incarnation): key for key in book.held_keys()}
    serving = {record.key: record for record in book.live() if record.key is not None and record.phase is Phase.ACTIVE}
    found = tuple(_recognised(resource, serving) for resource in _rekeyed(listing.resources, known))
    return listing if found == listing.resources else replace(listing, resources=found)


def _rekeyed(resources: Iterable[SeenResource], known: dict[tuple[Scope, str], ResourceKey]) -> Iterable[SeenResource]:
    for resource in resources:
        key = known.get((resource.key.scope, resource.key.incarnation), resource.key)
        yield resource if key == resource.key else replace(resource, key=key)


def _recognised(seen: SeenResource, serving: dict[ResourceKey, Record]) -> SeenResource:
    if seen.state is not None or seen.fault is not None or seen.key not in serving:
        return seen
    before = serving[seen.key].observed
    return seen if before is None else replace(seen, endpoint=before.endpoint)
