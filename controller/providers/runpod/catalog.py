"""What does a card of each type cost now, of what is none left, and which types are there at all?

From the public catalog, for one card an hour. A price that is missing, zero or odd is left out: without a known price
nothing is created. Where models that want different clouds share a type, the dearer price stands, since ceilings
follow from it.
"""

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final
from urllib.parse import urlencode

from controller.core.unlisted import Unlisted
from controller.providers.errors import ProviderError
from controller.providers.runpod.account import Account
from controller.providers.runpod.document import Unreadable, document
from controller.providers.runpod.order import Cloud, Machine, RunpodModel
from controller.providers.runpod.pace import Kind
from controller.providers.runpod.wire import usd
from controller.transport import TransportError

CATALOG_PATH: Final = "/catalog/gpus"
NONE: Final = "NONE"
TYPE_LENGTH_MAX: Final = 64
"""So long may the name of a type be that a model declares; what is longer, or cannot be printed, is no type."""
NEAREST_MOST: Final = 3
NEAREST_LEAST: Final = 0.6
"""So much alike are two names of which one may be meant for the other; every type's begins with its maker's name."""


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


def types_in(body: bytes) -> frozenset[str]:
    """Every type that the catalog has, with a price or without one. Empty: it says nothing that can be relied on."""
    catalog = document(body)
    entries = catalog.get("gpus") if isinstance(catalog, dict) else None
    named = _by_id(entries) if isinstance(entries, list) else {}
    return frozenset(gpu for gpu in named if len(gpu) <= TYPE_LENGTH_MAX and gpu.isprintable())


def unlisted_in(types: frozenset[str], models: Iterable[RunpodModel]) -> dict[str, tuple[Unlisted, ...]]:
    """By model, what it names and the catalog does not have."""
    found = {model.alias: tuple(_unlisted(model, types)) for model in models}
    return {alias: missing for alias, missing in found.items() if missing}


def _unlisted(model: RunpodModel, types: frozenset[str]) -> Iterator[Unlisted]:
    machines = model.machines()
    for gpu in model.gpus:
        if gpu not in types:
            offers = frozenset(offer for offer, machine in machines.items() if machine.gpu == gpu)
            yield Unlisted(named=gpu, offers=offers, nearest=nearest(gpu, types))


def nearest(gpu: str, types: frozenset[str]) -> tuple[str, ...]:
    """What may have been meant: whatever the case of their letters; first what has all of that name in its own, as
    people leave out the maker."""
    folded, meant = {known.casefold(): known for known in sorted(types)}, gpu.casefold()
    longer = sorted((name for name in folded if meant in name), key=len)
    alike = difflib.get_close_matches(meant, folded, n=NEAREST_MOST, cutoff=NEAREST_LEAST)
    return tuple(folded[name] for name in dict.fromkeys(longer + alike))[:NEAREST_MOST]


def stock_path(*, cloud: Cloud, cards: int) -> str:
    """Stock differs by the number of cards that a machine must have (PF-7)."""
    return f"{CATALOG_PATH}?{urlencode({'include': 'AVAILABILITY', 'product': 'POD', 'cloud': cloud, 'count': cards})}"


async def read_none_left(account: Account, model: RunpodModel) -> frozenset[str] | Unreadable:
    """Of which of the model's offers none is left. Where its types are to be had is noted beside."""
    try:
        answer = await account.call(Kind.READ, "GET", stock_path(cloud=model.cloud, cards=model.gpu_count))
    except (ProviderError, TransportError) as error:
        return Unreadable(what=str(error))
    if answer.code != 200:
        return Unreadable(what=f"the catalog was answered with {answer.code}")
    if found := places_in(answer.body, model.gpus):
        account.places[model.alias] = found
    return none_left_in(answer.body, model.machines())


def places_in(body: bytes, gpus: Collection[str]) -> dict[str, tuple[str, ...]]:
    """By type, the data centres that the catalog shows it in, whatever is left there at this moment."""
    catalog = document(body)
    entries = catalog.get("gpus") if isinstance(catalog, dict) else None
    shown = _by_id(entries) if isinstance(entries, list) else {}
    found = {gpu: shown[gpu].get("dataCenters") for gpu in gpus if gpu in shown}
    return {gpu: tuple(_by_id(places)) for gpu, places in found.items() if isinstance(places, list)}


def none_left_in(body: bytes, machines: Mapping[str, Machine]) -> frozenset[str] | Unreadable:
    """Of which of these offers the catalog says that there are none; what it does not say is not none."""
    catalog = document(body)
    if not isinstance(catalog, dict) or not isinstance(catalog.get("gpus"), list):
        return Unreadable(what="the answer has no list of GPU types")
    shown = _by_id(catalog["gpus"])
    return frozenset(
        offer
        for offer, machine in machines.items()
        if machine.gpu in shown and all(word == NONE for word in levels(shown[machine.gpu], machine.data_center_ids))
    )


def levels(entry: Mapping[str, Any], places: Collection[str]) -> list[Any]:
    """The catalog's words for its stock of one type: everywhere, or in each of these data centres. One that is not
    shown has none."""
    if not places:
        return [entry.get("availability")]
    shown = entry.get("dataCenters")
    if not isinstance(shown, list):
        return [None]
    found = _by_id(shown)
    return [found[place].get("availability") if place in found else NONE for place in places]


def _by_id(entries: Iterable[Any]) -> dict[str, Mapping[str, Any]]:
    return {entry["id"]: entry for entry in entries if isinstance(entry, dict) and isinstance(entry.get("id"), str)}


def _dearest(entry: Mapping[str, Any], clouds: frozenset[Cloud]) -> Decimal | None:
    """None unless the price is known in every one of these clouds."""
    price = entry.get("price")
    if not isinstance(price, dict):
        return None
    found = [usd(price.get(cloud.value.lower())) for cloud in sorted(clouds)]
    known = [amount for amount in found if amount]
    return max(known) if len(known) == len(found) else None
