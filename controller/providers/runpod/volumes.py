"""What do the network volumes that models name bill?

The document of the API (October 2026) shows size and kind of each volume and no price, so the price is the one that the
vendor publishes for that kind. A kind or a size that is not known has no price. Volumes that no model names are others'
business.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from controller.core.storage import Storage, Stored, fast_usd_per_month, standard_usd_per_month
from controller.providers.errors import ProviderError
from controller.providers.runpod.account import Account
from controller.providers.runpod.document import document
from controller.providers.runpod.order import RunpodModel
from controller.providers.runpod.pace import Kind
from controller.transport import TransportError

VOLUMES_PATH: Final = "/network-volumes"
SIZE_GB_MAX: Final = 1_000_000
PRICES: Final = {"STANDARD": standard_usd_per_month, "HIGH_PERFORMANCE": fast_usd_per_month}


async def read_storage(account: Account, models: Iterable[RunpodModel]) -> Storage:
    """`problem` where the account told nothing; then nothing is known of any volume."""
    declared, problem = _declared(models), None
    try:
        answer = await account.call(Kind.READ, "GET", VOLUMES_PATH)
        if answer.code != 200:
            problem = account.words(answer)
        elif (found := volumes_in(answer.body)) is None:
            problem = "the answer has no list of volumes"
        else:
            declared = tuple(_priced(volume, found.get(volume.id)) for volume in declared)
    except (ProviderError, TransportError) as error:
        problem = str(error)
    return Storage(volumes=declared, asked_at=account.clock.now(), problem=problem)


def volumes_in(body: bytes) -> dict[str, Mapping[str, Any]] | None:
    """By id; `None`: the answer makes no sense."""
    shown = document(body)
    entries = shown.get("networkVolumes") if isinstance(shown, dict) else None
    if not isinstance(entries, list):
        return None
    return {entry["id"]: entry for entry in entries if isinstance(entry, dict) and isinstance(entry.get("id"), str)}


def _declared(models: Iterable[RunpodModel]) -> tuple[Stored, ...]:
    """Each volume once, in the order in which models name them."""
    found: dict[str, Stored] = {}
    for model in models:
        for volume in model.volumes:
            named = found.get(volume.id)
            aliases = (model.alias,) if named is None else (*named.models, model.alias)
            found[volume.id] = Stored(id=volume.id, place=volume.data_center, models=tuple(dict.fromkeys(aliases)))
    return tuple(found.values())


def _priced(volume: Stored, shown: Mapping[str, Any] | None) -> Stored:
    if shown is None:
        return Stored(id=volume.id, place=volume.place, models=volume.models, found=False)
    size, price = _size(shown.get("size")), PRICES.get(str(shown.get("type")))
    return Stored(
        id=volume.id,
        place=volume.place,
        models=volume.models,
        found=True,
        size_gb=size,
        usd_per_month=None if size is None or price is None else price(size),
    )


def _size(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= SIZE_GB_MAX else None
