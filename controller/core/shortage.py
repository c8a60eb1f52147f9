"""Which declared offers are not worth asking for now?

What the provider says is in stock is a hint of a moment: it only ever leaves out an offer of which it says that none is
left, for a minute at most, and it changes no order. Where none is said to be left of anything, everything is asked for
all the same, as the word of a catalog is no refusal (RP-17, PF-1). A refusal after it said yes is normal.

A type that the catalog does not have at all is left out while the model has another: whoever asks for it is told that
the order is wrong, and that ends the start of every type. So is an offer that can stand only where starts failed
(`core.bad_places`), while the model has another.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from controller.core.unlisted import Unlisted

BELIEVED_FOR: Final = timedelta(seconds=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """Of one model's offers, those of which none was left when that was asked."""

    offers: frozenset[str]
    at: datetime

    def believed(self, *, now: datetime) -> bool:
        return now <= self.at + BELIEVED_FOR


def left_out(
    offer: str,
    among: tuple[str, ...],
    shortage: Shortage | None,
    *,
    unlisted: Collection[Unlisted] = (),
    bad: Collection[str] = (),
    now: datetime,
) -> bool:
    """Is it passed over, since of another one of those there may be some?"""
    unknown = {each for found in unlisted for each in found.offers}
    listed = tuple(each for each in among if each not in unknown) or among
    sound = tuple(each for each in listed if each not in bad) or listed
    if offer not in sound:
        return True
    return bool(worth_asking(sound, shortage, now=now)) and none_left(offer, shortage, now=now)


def none_left(offer: str, shortage: Shortage | None, *, now: datetime) -> bool:
    return shortage is not None and offer in shortage.offers and shortage.believed(now=now)


def worth_asking(offers: tuple[str, ...], shortage: Shortage | None, *, now: datetime) -> tuple[str, ...]:
    """In their order; empty where none is said to be left of any."""
    return tuple(offer for offer in offers if not none_left(offer, shortage, now=now))
