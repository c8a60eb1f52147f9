"""Does a machine bill more than it may?

What the provider says that it bills now is read in every listing (RP-49). One listing may show anything; said twice in
a row it is believed. What is not said is not known, and ends the series.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from controller.core.book import Book
from controller.core.deployment import Record, SeenResource
from controller.core.identity import ResourceKey
from controller.core.inventory import Listing
from controller.core.lifecycle import SERVING
from controller.core.policy import ModelPolicy
from controller.core.spend import ceiling

BELIEVED_AFTER: Final = 2

Costs = tuple[Decimal, ...]
"""The latest amounts that listings said in a row, USD an hour, the newest last."""


def follow_costs(
    known: Mapping[ResourceKey, Costs], listing: Listing, *, keys: frozenset[ResourceKey]
) -> dict[ResourceKey, Costs]:
    """Carry the series on by one listing, for the resources that are asked about. What it does not show stays."""
    followed = {key: costs for key, costs in known.items() if key in keys and key not in listing.by_key}
    for key in keys & listing.by_key.keys():
        said = listing.by_key[key].usd_per_hour
        if said is not None:
            followed[key] = (*known.get(key, ()), said)[-BELIEVED_AFTER:]
    return followed


def bills_more(record: Record, seen: SeenResource) -> bool:
    """Does it bill more than is on record? Less is not believed: a machine that stands still says nothing."""
    said = seen.usd_per_hour
    return record.phase in SERVING and said is not None and said > (record.usd_per_hour or 0)


def ceiling_of(
    record: Record, model: ModelPolicy | None, book: Book, usd_per_hour: Mapping[str, Decimal]
) -> Decimal | None:
    """As configured now; else what was reserved for it; else, for what was claimed at no known rate, the price."""
    if model is not None and model.usd_per_hour_max is not None:
        return model.usd_per_hour_max
    reserved = book.ceiling(record.id)
    return ceiling(model, usd_per_hour) if reserved is None and model is not None else reserved


def too_dear(costs: Costs, ceiling: Decimal | None) -> bool:
    """Without a ceiling nothing is."""
    return ceiling is not None and len(costs) == BELIEVED_AFTER and min(costs) > ceiling
