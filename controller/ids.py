"""Where do names come from that nothing else may have?

The one seam for randomness. A request id is carried by the resource that it may become, so it must be unique without
our store: a readable part and 64 random bits (RP-13).
"""

import random
import secrets
from typing import Protocol


class Randomness(Protocol):
    def token_hex(self, nbytes: int) -> str: ...

    def uniform(self, low: float, high: float) -> float: ...


class SystemRandomness:
    """The machine's own."""

    def token_hex(self, nbytes: int) -> str:
        return secrets.token_hex(nbytes)

    def uniform(self, low: float, high: float) -> float:
        return secrets.SystemRandom().uniform(low, high)


class SeededRandomness:
    """The same names for the same seed: for tests and simulation only."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)

    def token_hex(self, nbytes: int) -> str:
        return self._draw.randbytes(nbytes).hex()

    def uniform(self, low: float, high: float) -> float:
        return self._draw.uniform(low, high)
