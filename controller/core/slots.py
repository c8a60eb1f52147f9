"""Which of a model's slots is to be filled now?

Somebody asks for the model: every empty slot. Nobody asks, and another slot serves: those that were lost, for it was
wanted as a whole when it was asked for; not those that were let go because nobody used them, an operator said so or
the money was short. They come back with the next who asks. With nothing that serves, nobody's wish is outlived.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from controller.core.deployment import Record
from controller.core.evidence import StopReason
from controller.core.lifecycle import Phase

LET_GO: Final = frozenset({StopReason.IDLE, StopReason.OPERATOR_REQUEST, StopReason.SPEND})
"""Stops after which a slot is meant to be empty."""


def to_fill(slots: int, live: Sequence[Record], ended: Iterable[Record], *, asked: bool) -> list[int]:
    """The empty slots that are wanted. `live` and `ended` are the model's own, the latter as far as remembered."""
    taken = {record.slot for record in live}
    empty = [slot for slot in range(slots) if slot not in taken]
    if asked or not empty:
        return empty
    if not any(serves(record) for record in live):
        return []
    latest = _latest(ended)
    return [slot for slot in empty if slot not in latest or latest[slot].reason not in LET_GO]


def serves(record: Record) -> bool:
    return record.phase is Phase.ACTIVE and record.unready_since is None


def filled(slots: int, live: Sequence[Record]) -> bool:
    """Does every slot hold something that serves or is coming?"""
    coming = {record.slot for record in live if record.phase is not Phase.STOP_REQUIRED}
    return coming >= set(range(slots))


def _latest(ended: Iterable[Record]) -> dict[int, Record]:
    found: dict[int, Record] = {}
    for record in ended:
        known = found.get(record.slot)
        if record.ended_at is not None and (
            known is None or known.ended_at is None or known.ended_at < record.ended_at
        ):
            found[record.slot] = record
    return found
