"""Where do names come from that nothing else may have?

The one seam for randomness. A request id is carried by the resource that it may become, so it must be unique without
our store: a readable part and 64 random bits (RP-13).
"""

import random
import secrets
from typing import Protocol

from controller.core.identity import DeploymentId, ObligationId, RequestId


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


def installation_id(randomness: Randomness) -> str:
    return randomness.token_hex(8)


def deployment_id(randomness: Randomness, alias: str) -> DeploymentId:
    return DeploymentId(f"{alias}-{randomness.token_hex(5)}")


def request_id(randomness: Randomness) -> RequestId:
    """`r` and 16 hex digits: fits a resource name whole, and is readable there."""
    return RequestId(f"r{randomness.token_hex(8)}")


def obligation_id(randomness: Randomness) -> ObligationId:
    return ObligationId(f"o{randomness.token_hex(6)}")
