"""How long do we wait before money is tried again?

After failed starts a model is held; after a round of refusals the next round waits. Both grow and both are bounded, so
that a client that asks for ever cannot buy machines for ever (RP-32).
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

ROUND_GAP_MAX: Final = timedelta(minutes=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """How a model is held after failed starts: from which one in a row on, how long at first, how long at most."""

    after: int = 2
    first: timedelta = timedelta(minutes=10)
    most: timedelta = timedelta(hours=6)


def hold_span(failures: int, holding: Holding) -> timedelta | None:
    """How long a model is held after its `failures`-th failed start in a row; `None`: it may start again at once."""
    if failures < holding.after:
        return None
    return min(holding.first * (1 << min(failures - holding.after, 16)), holding.most)


def round_gap(rounds: int, *, first: timedelta) -> timedelta:
    """How long after the `rounds`-th round of refusals in a row the next may begin."""
    return min(first * (1 << min(max(rounds - 1, 0), 8)), max(ROUND_GAP_MAX, first))
