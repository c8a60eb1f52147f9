"""How is what we make called?

A request id is carried by the resource that it may become, so it must be unique without our store: a readable letter
and 64 random bits (RP-13).
"""

from controller.core.identity import DeploymentId, ObligationId, RequestId
from controller.ids import Randomness


def installation_id(randomness: Randomness) -> str:
    return randomness.token_hex(8)


def deployment_id(randomness: Randomness, alias: str) -> DeploymentId:
    return DeploymentId(f"{alias}-{randomness.token_hex(5)}")


def request_id(randomness: Randomness) -> RequestId:
    """`r` and 16 hex digits: fits a resource name whole, and is readable there."""
    return RequestId(f"r{randomness.token_hex(8)}")


def obligation_id(randomness: Randomness) -> ObligationId:
    return ObligationId(f"o{randomness.token_hex(6)}")
