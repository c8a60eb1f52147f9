"""Does a machine bill more than it may, or less than the list says?

What the provider says that it bills now is read in every listing (RP-49). One listing may show anything; said twice in
a row it is believed. What is not said is not known, and ends the series. A machine that is cheaper than the list may be
of a tier that can be taken away (RP-20): nothing is done about it, and nobody may call it anything else.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from controller.core.book import Book
from controller.core.deployment import Record
from controller.core.identity import ResourceKey
from controller.core.inventory import Listing
from controller.core.lifecycle import SERVING
from controller.core.policy import ModelPolicy
from controller.core.spend import ceiling

BELIEVED_AFTER: Final = 2
AS_LISTED: Final = Decimal("0.99")
"""Prices are rounded somewhere: so much of the list's is the list's."""

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


def bills_more(record: Record, said: Costs) -> Decimal | None:
    """At which higher rate than is on record does it bill? Less is not believed: a machine that stands still says
    nothing."""
    if record.phase not in SERVING or len(said) < BELIEVED_AFTER or min(said) <= (record.usd_per_hour or 0):
        return None
    return min(said)


def ceiling_of(
    record: Record, model: ModelPolicy | None, book: Book, usd_per_hour: Mapping[str, Decimal]
) -> Decimal | None:
    """As configured now; else what was reserved for it; else, for what was claimed at no known rate, the price."""
    if model is not None and model.usd_per_hour_max is not None:
        return model.usd_per_hour_max
    reserved = book.ceiling(record.id)
    return ceiling(model, usd_per_hour) if reserved is None and model is not None else reserved


def list_price(
    record: Record, model: ModelPolicy | None, book: Book, usd_per_hour: Mapping[str, Decimal]
) -> Decimal | None:
    """What the catalog says that a machine like this costs; `None`: it does not say."""
    card = usd_per_hour.get(record.offer or book.ordered(record) or "")
    return None if card is None or model is None else card * model.cards


def below_list(said: Decimal | None, listed: Decimal | None) -> bool:
    """Does it bill less than it would on demand? What costs nothing yet says nothing."""
    return said is not None and listed is not None and 0 < said < listed * AS_LISTED


def too_dear(costs: Costs, ceiling: Decimal | None) -> bool:
    """Without a ceiling nothing is."""
    return ceiling is not None and len(costs) == BELIEVED_AFTER and min(costs) > ceiling
