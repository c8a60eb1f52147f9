"""Which types of card that a model names does the provider not have at all?

A wrong letter in a type's name is found out at a start, by a refusal of everything. So what the catalog does not list
is told before, with what it may have been meant for, and is not asked for while the model names a type that is listed
(`core.shortage`): it blocks no other (RP-17).
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

ALARM: Final = "gpu-unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unlisted:
    """A type that one model names and the catalog does not."""

    named: str
    offers: frozenset[str]
    """All that would ask for it."""
    nearest: tuple[str, ...]
    """Types that the catalog has and that are called much like it, the nearest first."""


def in_words(model: str, found: Collection[Unlisted]) -> str:
    """For people: which key to look at, what is wrong there, and how it is mended."""
    return f"models.{model}.gpus: the provider's catalog has no {'; no '.join(_of_one(each) for each in found)}"


def _of_one(found: Unlisted) -> str:
    if not found.nearest:
        return f'"{found.named}", nor anything that is called like it'
    meant = " or ".join(f'"{each}"' for each in found.nearest)
    return f'"{found.named}" (did you mean {meant}?)'
