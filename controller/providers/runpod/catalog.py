"""What does a card of each type cost now?

From the public catalog, for one card an hour. A price that is missing, zero or odd is left out: without a known price
nothing is created. Where models that want different clouds share a type, the dearer price stands, since ceilings
follow from it.
"""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Final

from controller.providers.runpod.document import Unreadable, document
from controller.providers.runpod.order import Cloud, RunpodModel
from controller.providers.runpod.wire import usd

CATALOG_PATH: Final = "/catalog/gpus"


def clouds_wanted(models: Iterable[RunpodModel]) -> dict[str, frozenset[Cloud]]:
    """By GPU type, the clouds in which any model would rent it."""
    wanted: dict[str, frozenset[Cloud]] = {}
    for model in models:
        for gpu in model.gpus:
            wanted[gpu] = wanted.get(gpu, frozenset()) | {model.cloud}
    return wanted


def prices_in(body: bytes, *, wanted: Mapping[str, frozenset[Cloud]]) -> dict[str, Decimal] | Unreadable:
    """USD an hour for one card, by type; for a type that no model declares, in the secure cloud."""
    catalog = document(body)
    if not isinstance(catalog, dict) or not isinstance(catalog.get("gpus"), list):
        return Unreadable(what="the answer has no list of GPU types")
    prices: dict[str, Decimal] = {}
    for entry in catalog["gpus"]:
        gpu = entry.get("id") if isinstance(entry, dict) else None
        if isinstance(gpu, str) and (price := _dearest(entry, wanted.get(gpu, frozenset({Cloud.SECURE})))):
            prices[gpu] = price
    return prices


def _dearest(entry: Mapping[str, Any], clouds: frozenset[Cloud]) -> Decimal | None:
    """None unless the price is known in every one of these clouds."""
    price = entry.get("price")
    if not isinstance(price, dict):
        return None
    found = [usd(price.get(cloud.value.lower())) for cloud in sorted(clouds)]
    known = [amount for amount in found if amount]
    return max(known) if len(known) == len(found) else None
