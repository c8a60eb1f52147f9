"""How long do we wait before money is tried again?

After failed starts a model is held; after a round of refusals the next round waits. Both grow and both are bounded, so
that a client that asks for ever cannot buy machines for ever (RP-32).
"""

from datetime import timedelta
from typing import Final

ROUND_GAP_MAX: Final = timedelta(minutes=5)


def hold_span(failures: int, *, first: timedelta, most: timedelta) -> timedelta | None:
    """How long a model is held after its `failures`-th failed start in a row; one fresh start is free."""
    if failures < 2:
        return None
    return min(first * (1 << min(failures - 2, 16)), most)


def round_gap(rounds: int, *, first: timedelta) -> timedelta:
    """How long after the `rounds`-th round of refusals in a row the next may begin."""
    return min(first * (1 << min(max(rounds - 1, 0), 8)), max(ROUND_GAP_MAX, first))
