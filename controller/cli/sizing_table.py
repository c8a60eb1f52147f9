"""Will each model fit, and what will its start cost, before any money is spent?

Tables with a model a row, and an object a model for scripts. What is not known says so: a dash never stands for no.
"""

from collections.abc import Callable, Iterator, Sequence
from decimal import ROUND_FLOOR, Decimal
from typing import Any

from controller.cli.output import instant, show_table
from controller.cli.prices import Quote, Quotes, in_words
from controller.core.sizing import Room
from controller.settings.estimates import Estimate, gigabytes
from controller.settings.values import write_span


def show_sizing(estimates: Sequence[Estimate], quotes: Quotes) -> None:
    """The cache is that of one request of the full context; so many of them fit at once."""
    show_table(
        ("model", "weights", "cache a request", "cards", "fits", "room left a card", "requests at once"),
        [_memory(found) for found in estimates],
    )
    print()
    show_table(
        ("model", "disk", "volume", "$/h in the catalog", "$/h at most", "start within", "a start costs at most"),
        [_money(found, quotes[found.alias]) for found in estimates],
    )


def sizing(found: Estimate, quote: Quote) -> dict[str, Any]:
    """For scripts: bytes and USD, null where unknown. What ends in `_max` follows from the config's own ceiling, the
    rest of the money from what `price_source` told."""
    dearest = max(quote.usd_per_hour.values(), default=None)
    return {
        "weights_bytes": found.weights_bytes,
        "context": found.context,
        "cache_bytes": found.cache_bytes,
        "cannot_size": found.cannot_size,
        "fits": found.fit,
        "cards": [
            {
                "gpu": one.offer,
                "card_gb": one.card_gb,
                "fits": None if one.room is None else one.room.fits,
                "left_bytes": None if one.room is None else one.room.left_bytes,
                "requests_at_once": None if one.room is None else one.room.contexts,
                "usd_per_hour": _usd(quote.usd_per_hour.get(one.offer)),
            }
            for one in found.fits
        ],
        "disk_gb": found.disk_gb,
        "volume_gb": found.volume_gb,
        "usd_per_hour": _usd(dearest),
        "usd_per_hour_max": None if found.usd_per_hour is None else str(found.usd_per_hour),
        "price_source": None if quote.source is None else quote.source.value,
        "priced_at": None if quote.priced_at is None else instant(quote.priced_at),
        "startup_longest": write_span(found.startup_longest),
        "cold_start_usd": _usd(quote.cold_start_usd(found)),
        "cold_start_usd_max": None if found.cold_start_usd is None else str(found.cold_start_usd),
        "notes": list(found.notes),
    }


def _usd(amount: Decimal | None) -> str | None:
    return None if amount is None else f"{amount.normalize():f}"


def _memory(found: Estimate) -> tuple[object, ...]:
    return (
        found.alias,
        "unknown" if found.weights_bytes is None else f"{gigabytes(found.weights_bytes)} GB",
        "cannot size" if found.cache_bytes is None else f"{gigabytes(found.cache_bytes)} GB",
        f"{found.cards} × {', '.join(_offers(found))}",
        _each(found, lambda room: "yes" if room.fits else "no"),
        _each(found, lambda room: f"{gigabytes(room.left_bytes, ROUND_FLOOR)} GB"),
        _each(found, lambda room: str(room.contexts)),
    )


def _money(found: Estimate, quote: Quote) -> tuple[object, ...]:
    """Without a ceiling of its own, and without a price, a model may cost what the day allows."""
    return (
        found.alias,
        f"{found.disk_gb} GB",
        None if found.volume_gb is None else f"{found.volume_gb} GB or more",
        in_words(quote.usd_per_hour) or "unknown",
        "the catalog's" if found.usd_per_hour is None else f"${found.usd_per_hour}",
        f"{write_span(found.startup_deadline)}, at most {write_span(found.startup_longest)}",
        _cold_start(found, quote),
    )


def _cold_start(found: Estimate, quote: Quote) -> str:
    most, priced = found.cold_start_usd, quote.cold_start_usd(found)
    if most is None:
        return "the day's limit" if priced is None else f"${priced}"
    return f"${most}" if priced is None else f"${most}, and ${priced} at the catalog's price"


def _offers(found: Estimate) -> Iterator[str]:
    for one in found.fits:
        yield one.offer if one.card_gb is None else f"{one.offer} ({one.card_gb} GB)"


def _each(found: Estimate, word: Callable[[Room], str]) -> str:
    """One word where all GPU types agree, else a word for each, in their order."""
    words = ["unknown" if one.room is None else word(one.room) for one in found.fits]
    return words[0] if len(set(words)) == 1 else ", ".join(words)
