"""Of which deployments is one token to be asked for, and did it come?

Held in memory, between the task that doubts an engine and the gateways that can ask it with its key. Who doubts says so
here and rings; what a gateway tells of its question is kept until the doubt is over. Lost at a restart, like all that a
probe says.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from controller.core.hang import Asked
from controller.core.identity import DeploymentId


@dataclass(slots=True)
class Doubts:
    """All that is doubted at present."""

    _asked: dict[DeploymentId, Asked | None] = field(default_factory=dict)
    _rings: list[Callable[[], None]] = field(default_factory=list)

    def on_change(self, ring: Callable[[], None]) -> None:
        """Call `ring` when something comes to be doubted, or no more; it must not wait or fail."""
        self._rings.append(ring)

    def begin(self, deployment: DeploymentId) -> None:
        if deployment not in self._asked:
            self._asked[deployment] = None
            self._ring()

    def end(self, deployment: DeploymentId) -> None:
        if deployment in self._asked:
            del self._asked[deployment]
            self._ring()

    def keep_only(self, deployments: frozenset[DeploymentId]) -> None:
        for deployment in [doubted for doubted in self._asked if doubted not in deployments]:
            self.end(deployment)

    def holds(self, deployment: DeploymentId) -> bool:
        return deployment in self._asked

    def tell(self, deployment: DeploymentId, *, came: bool, at: datetime) -> bool:
        """What a gateway's question came to; says whether anybody had doubted. A token that came stands against every
        one that did not."""
        if deployment not in self._asked:
            return False
        former = self._asked[deployment]
        if former is None or not former.came:
            self._asked[deployment] = Asked(came=came, at=at)
        return True

    def answer(self, deployment: DeploymentId) -> Asked | None:
        return self._asked.get(deployment)

    def _ring(self) -> None:
        for ring in self._rings:
            ring()
