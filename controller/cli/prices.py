"""What does an hour of each model's machines cost, and who said so?

The provider's catalog, where it may be asked; else the prices that the daemon last read from it; else nobody: what is
not known is said to be so, with the way to see it. No price is a promise, and none of them is kept here.
"""

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from functools import partial
from typing import Any, Final

import anyio

from controller.cli.exits import Exit, Failure
from controller.cli.link import Link
from controller.settings import Settings
from controller.settings.estimates import Estimate, cost_of

DAEMON_LIMIT: Final = timedelta(seconds=5)
USD_MAX: Final = Decimal(1_000_000)
"""No machine costs as much an hour."""


class Source(StrEnum):
    CATALOG = "catalog"
    """Asked by this very command."""
    DAEMON = "daemon"
    """As the daemon last read it there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """What is known of one model's prices."""

    source: Source | None = None
    """None: nobody told."""
    priced_at: datetime | None = None
    usd_per_hour: Mapping[str, Decimal] = field(default_factory=dict)
    """Of a whole machine, by the declared type of card; what nobody told is absent."""
    usd_per_hour_beside: Decimal = Decimal(0)
    """What a machine bills besides its cards."""

    def cold_start_usd(self, found: Estimate) -> Decimal | None:
        """What a start costs at worst if the dearest is got that may stay, rounded up to a cent."""
        most = found.usd_per_hour
        stay = [usd for usd in self.usd_per_hour.values() if most is None or usd <= most]
        return cost_of(max(stay) + self.usd_per_hour_beside, found.startup_longest) if stay else None


Quotes = Mapping[str, Quote]
"""By alias."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Priced:
    """What came of asking for prices."""

    quotes: Quotes
    notes: tuple[str, ...] = ()
    online: bool = False
    """Whether the provider was to be asked."""


def ask_prices(settings: Settings, *, online: bool) -> Priced:
    """Ask whoever may be asked; what goes wrong is a note. Reads only."""
    asked = _of_catalog(settings) if online else Priced(quotes={})
    missing = [alias for alias in settings.models if alias not in asked.quotes]
    kept = _of_daemon(settings, missing) if missing else Priced(quotes={})
    quotes = {alias: Quote() for alias in settings.models} | dict(kept.quotes) | dict(asked.quotes)
    policies = settings.model_policies()
    return Priced(
        quotes={
            alias: replace(quote, usd_per_hour_beside=policies[alias].usd_per_hour_beside)
            for alias, quote in quotes.items()
        },
        notes=asked.notes + kept.notes,
        online=online,
    )


def _of_catalog(settings: Settings) -> Priced:
    from controller.cli.doctor.catalog import ask_catalog  # the adapter, for those who ask it

    found = anyio.run(partial(ask_catalog, settings))
    quotes = {
        alias: Quote(source=Source.CATALOG, priced_at=found.asked_at, usd_per_hour=prices)
        for alias, prices in found.usd_per_hour.items()
    }
    return Priced(quotes=quotes, notes=found.notes)


def _of_daemon(settings: Settings, aliases: list[str]) -> Priced:
    """The daemon's prices are those of one card, whatever its own config says."""
    try:
        answer = anyio.run(partial(_prices_of_daemon, settings))
    except Failure as failure:
        # One that does not run, and one before it told prices, are nothing to be told about.
        quiet = failure.code in {Exit.UNREACHABLE, Exit.NOT_FOUND}
        return Priced(quotes={}, notes=() if quiet else (f"the daemon does not tell its prices: {failure.words}",))
    priced_at, cards = _instant(answer.get("priced_at")), answer.get("card_usd_per_hour")
    if priced_at is None or not isinstance(cards, dict):
        return Priced(quotes={})
    quotes: dict[str, Quote] = {}
    for alias in aliases:
        section = settings.models[alias]
        known = {gpu: usd * section.gpu_count for gpu in section.gpus if (usd := _usd(cards.get(gpu))) is not None}
        if known:
            quotes[alias] = Quote(source=Source.DAEMON, priced_at=priced_at, usd_per_hour=known)
    return Priced(quotes=quotes)


async def _prices_of_daemon(settings: Settings) -> dict[str, Any]:
    with closing(Link(settings.places.api_socket)) as link:
        return await link.get("/v1/prices", limit=DAEMON_LIMIT)


def _instant(word: object) -> datetime | None:
    try:
        found = datetime.fromisoformat(word) if isinstance(word, str) else None
    except ValueError:
        return None
    return None if found is None or found.tzinfo is None else found.astimezone(UTC)


def _usd(word: object) -> Decimal | None:
    try:
        found = Decimal(word) if isinstance(word, str) else None
    except InvalidOperation:
        return None
    return found if found is not None and found.is_finite() and 0 < found <= USD_MAX else None


def price_notes(found: Estimate, quote: Quote) -> Iterator[str]:
    """What is to be said of one model's prices."""
    known, most = quote.usd_per_hour, found.usd_per_hour
    if known:
        for gpu in (one.offer for one in found.fits if one.offer not in known):
            yield f"no price of {gpu} is known"
    if known and most is not None and min(known.values()) > most:
        yield (
            f"every declared type costs more than max_usd_per_hour = {most} ({in_words(known)}): what was rented would"
            " be stopped again, and nothing could serve; raise it, or name a cheaper type"
        )


def sources(priced: Priced) -> Iterator[tuple[str, str]]:
    """For people: who told the prices, and when; by model where that differs."""
    words = {alias: _source(quote, online=priced.online) for alias, quote in priced.quotes.items()}
    for told in dict.fromkeys(words.values()):
        aliases = [alias for alias, word in words.items() if word == told]
        yield "prices", told if len(aliases) == len(words) else f"{', '.join(aliases)}: {told}"


def _source(quote: Quote, *, online: bool) -> str:
    at = "" if quote.priced_at is None else f"{quote.priced_at:%Y-%m-%d %H:%M} UTC"
    if quote.source is Source.CATALOG:
        return f"the provider's catalog, asked {at}"
    if quote.source is Source.DAEMON:
        return f"as the daemon last read them from the provider's catalog, {at}"
    return "not known here" if online else "not known here: `gpuwarden config check --online` asks the provider"


def in_words(usd_per_hour: Mapping[str, Decimal]) -> str:
    return ", ".join(f"{gpu} ${amount:.2f}" for gpu, amount in usd_per_hour.items())
