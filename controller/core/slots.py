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
    """The empty slots that are wanted. `live` and `ended` are the model's own; of the latter the last of each slot is
    enough, and it must not be forgotten: a slot that nobody remembers is taken for one that was never filled."""
    taken = {record.slot for record in live}
    empty = [slot for slot in range(slots) if slot not in taken]
    if asked or not empty:
        return empty
    if not any(serves(record) for record in live):
        return []
    let_go = {slot for (_, slot), last in latest_ends(ended).items() if last.reason in LET_GO}
    return [slot for slot in empty if slot not in let_go]


def serves(record: Record) -> bool:
    return record.phase is Phase.ACTIVE and record.unready_since is None


def filled(slots: int, live: Sequence[Record]) -> bool:
    """Does every slot hold something that serves or is coming?"""
    coming = {record.slot for record in live if record.phase is not Phase.STOP_REQUIRED}
    return coming >= set(range(slots))


def latest_ends(records: Iterable[Record]) -> dict[tuple[str, int], Record]:
    """What ended last in each slot of each model; of two that ended at one instant the one whose id is greater."""
    ended = [(record.ended_at, record.id, record) for record in records if record.ended_at is not None]
    return {(record.model, record.slot): record for _, _, record in sorted(ended, key=lambda end: end[:2])}
