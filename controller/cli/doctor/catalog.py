"""What does the provider's catalog say now that each model's machines cost?

Two kinds of questions of the examination, asked for themselves: which types there are, and for each model what they
cost in its cloud, with as many cards as it takes. Both only read. What goes wrong is a note, and holds no word of the
provider's.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Final

import anyio

from controller.cli.doctor import here
from controller.cli.doctor.asking import CALL_LIMIT, NOTHING, QUESTION_LIMIT, needs_of
from controller.clock import SystemClock
from controller.core.unlisted import Unlisted, in_words
from controller.providers.inspecting import Failed, Inspecting, Offers, Trouble
from controller.providers.runpod.account import Account, open_api
from controller.providers.runpod.catalog import nearest
from controller.providers.runpod.inspection import RunpodInspection
from controller.settings import Settings

_WORDS: Final = {
    Trouble.CREDENTIAL: "the key is not accepted",
    Trouble.PERMISSION: "the key may not read it",
    Trouble.SILENT: "no answer came",
    Trouble.HELD_BACK: "it asks us to wait",
    Trouble.ODD: "the answer makes no sense",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    asked_at: datetime
    usd_per_hour: Mapping[str, Mapping[str, Decimal]] = field(default_factory=dict)
    """By alias, of a whole machine by declared type. A model of which nothing was told is absent."""
    notes: tuple[str, ...] = ()


async def ask_catalog(settings: Settings) -> Catalog:
    """Ends within its limit, whatever the provider does."""
    clock = SystemClock()
    asked_at = clock.now().replace(microsecond=0)
    key, findings = here.account_key(settings)
    if key is None:
        why = "; ".join(finding.text for finding in findings)
        return Catalog(asked_at=asked_at, notes=(f"the provider was not asked for prices, as there is no key: {why}",))
    offers: dict[str, Offers | Failed] = dict.fromkeys(settings.models, NOTHING)
    types: list[frozenset[str]] = []
    limit = min(CALL_LIMIT, settings.hosting_policy().call_limit)
    async with open_api(api_url=settings.written.runpod.api_url, key=key.get_secret_value(), limit=limit) as http:
        account = Account(http, clock=clock)
        inspection = RunpodInspection(account, old_door=account, needs=needs_of(settings))  # whose funds nobody asks
        with anyio.move_on_after(QUESTION_LIMIT.total_seconds()):
            async with anyio.create_task_group() as group:
                group.start_soon(partial(_put_types, inspection, types))
                for alias in settings.models:
                    group.start_soon(partial(_put_offers, inspection, offers, alias))
    told = {alias: found for alias, found in offers.items() if not isinstance(found, Failed)}
    prices = {alias: _prices(found, settings.models[alias].gpus) for alias, found in told.items()}
    return Catalog(
        asked_at=asked_at,
        usd_per_hour={alias: known for alias, known in prices.items() if known},
        notes=(*_failures(offers), *_unpriced(prices), *_unlisted(settings, types)),
    )


async def _put_types(inspection: Inspecting, types: list[frozenset[str]]) -> None:
    found = await inspection.read_types()
    if not isinstance(found, Failed):
        types.append(found)


async def _put_offers(inspection: Inspecting, offers: dict[str, Offers | Failed], alias: str) -> None:
    offers[alias] = await inspection.read_offers(alias)


def _prices(found: Offers, declared: tuple[str, ...]) -> dict[str, Decimal]:
    told = {gpu: found[gpu].usd_per_hour for gpu in declared if gpu in found}
    return {gpu: usd for gpu, usd in told.items() if usd is not None}


def _failures(offers: Mapping[str, Offers | Failed]) -> Iterator[str]:
    """Once for all models that it is true of."""
    failed = {alias: found for alias, found in offers.items() if isinstance(found, Failed)}
    for failure in dict.fromkeys(failed.values()):
        aliases = ", ".join(alias for alias, found in failed.items() if found == failure)
        why = f"{_WORDS[failure.trouble]} ({failure.text})"
        yield f"the provider's catalog told no prices for {aliases}: {why}; `gpuwarden doctor` says more"


def _unpriced(prices: Mapping[str, Mapping[str, Decimal]]) -> Iterator[str]:
    for alias in (alias for alias, known in prices.items() if not known):
        yield f"the provider's catalog has no price of any type that {alias} names"


def _unlisted(settings: Settings, types: list[frozenset[str]]) -> Iterator[str]:
    """A catalog without any type is no word about one."""
    for known in filter(None, types):
        for alias, section in settings.models.items():
            missing = [gpu for gpu in section.gpus if gpu not in known]
            found = [Unlisted(named=gpu, offers=frozenset(), nearest=nearest(gpu, known)) for gpu in missing]
            if found:
                yield in_words(alias, found)
