"""Will each model fit, and what will its start cost, before any money is spent?

Tables with a model a row, and an object a model for scripts. What is not known says so: a dash never stands for no.
"""

from collections.abc import Callable, Iterator, Sequence
from decimal import ROUND_FLOOR
from typing import Any

from controller.cli.output import show_table
from controller.core.sizing import Room
from controller.settings.estimates import Estimate, gigabytes
from controller.settings.values import write_span


def show_sizing(estimates: Sequence[Estimate]) -> None:
    """The cache is that of one request of the full context; so many of them fit at once."""
    show_table(
        ("model", "weights", "cache a request", "cards", "fits", "room left a card", "requests at once"),
        [_memory(found) for found in estimates],
    )
    print()
    show_table(
        ("model", "disk", "volume", "$/h at most", "start within", "a start costs at most"),
        [_money(found) for found in estimates],
    )


def sizing(found: Estimate) -> dict[str, Any]:
    """For scripts: bytes and USD, null where unknown."""
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
            }
            for one in found.fits
        ],
        "disk_gb": found.disk_gb,
        "volume_gb": found.volume_gb,
        "usd_per_hour_max": None if found.usd_per_hour is None else str(found.usd_per_hour),
        "startup_longest": write_span(found.startup_longest),
        "cold_start_usd_max": None if found.cold_start_usd is None else str(found.cold_start_usd),
        "notes": list(found.notes),
    }


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


def _money(found: Estimate) -> tuple[object, ...]:
    """Without a ceiling of its own, a model may cost what the day allows."""
    return (
        found.alias,
        f"{found.disk_gb} GB",
        None if found.volume_gb is None else f"{found.volume_gb} GB or more",
        "the catalog's" if found.usd_per_hour is None else f"${found.usd_per_hour}",
        f"{write_span(found.startup_deadline)}, at most {write_span(found.startup_longest)}",
        "the day's limit" if found.cold_start_usd is None else f"${found.cold_start_usd}",
    )


def _offers(found: Estimate) -> Iterator[str]:
    for one in found.fits:
        yield one.offer if one.card_gb is None else f"{one.offer} ({one.card_gb} GB)"


def _each(found: Estimate, word: Callable[[Room], str]) -> str:
    """One word where all GPU types agree, else a word for each, in their order."""
    words = ["unknown" if one.room is None else word(one.room) for one in found.fits]
    return words[0] if len(set(words)) == 1 else ", ".join(words)
