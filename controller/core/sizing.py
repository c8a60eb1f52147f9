"""How much of the cards' memory does a model need, and is there room?

Weights lie on the cards once, shared out evenly; beside them each request keeps what its layers keep
(`core.architecture`), in the heads that a card serves. Bytes are exact; the rest is an estimate that leans to the large
side, because a model that does not fit is found out only after a start was paid.

vLLM takes a share of each card and refuses to start unless one request of the full context fits; more of them share
the room that is left. llama.cpp takes all slots' contexts at once.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Final

from controller.core.architecture import Architecture, Attention

GB: Final = 10**9
CARD_OVERHEAD_BYTES: Final = 2 * 2**30
"""On each card beside weights and cache: CUDA's context, captured graphs, intermediate results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What is left on each card; negative: so much is missing."""

    left_bytes: int
    contexts: int
    """Requests of the full context that fit at once."""

    @property
    def fits(self) -> bool:
        return self.left_bytes >= 0


def cache_bytes(
    architecture: Architecture, *, context: int, element: Fraction, cards: int = 1, step_tokens: int = 0
) -> int:
    """What one request of `context` tokens keeps on one of the cards that share a model by its heads (MS-13).

    `element` is bytes for one number. A layer with a window keeps `step_tokens` beside it while a long prompt is read.
    """
    attention = sum(
        one.layers * _tokens(one, context, step_tokens) * _heads_a_card(one, cards) * one.elements
        for one in architecture.attention
    )
    states = sum(one.layers * one.state_bytes for one in architecture.recurrent)
    return _whole(attention * element) + _whole(Fraction(states, cards))


def split_faults(architecture: Architecture, cards: int) -> Iterator[str]:
    """Why these cards cannot share the model by its heads (MC-5)."""
    if architecture.attention_heads % cards:
        yield f"the model's {architecture.attention_heads} attention heads cannot be shared equally by {cards} cards"
    for one in architecture.attention:
        if one.heads % cards and cards % one.heads:
            yield f"the model's {one.heads} key-value heads cannot be shared equally by {cards} cards"
            return


def room(*, card_gb: int, share: Decimal, weights_bytes: int, cards: int, cache: int) -> Room:
    """For one request's `cache` on each of `cards` cards, when the model server takes `share` of their memory.

    A card is sold with a rounded number of GB; at 10^9 bytes it has at least that.
    """
    budget = int(card_gb * GB * share) - -(-weights_bytes // cards) - CARD_OVERHEAD_BYTES
    if cache == 0:
        return Room(left_bytes=budget, contexts=0)
    return Room(left_bytes=budget - cache, contexts=max(budget // cache, 0))


def _tokens(one: Attention, context: int, step_tokens: int) -> int:
    return context if one.window is None else min(context, one.window + step_tokens)


def _heads_a_card(one: Attention, cards: int) -> int:
    """Of more cards than heads, several keep the same one."""
    return max(-(-one.heads // cards), 1)


def _whole(amount: Fraction) -> int:
    return -(-amount.numerator // amount.denominator)
