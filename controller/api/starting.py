"""How is a model asked for?

The same for gateways and operators: the wish is remembered for a minute, the tasks are woken, and the answer is the
model as it is now. Whether anything is started is the reconciler's decision.
"""

from collections.abc import Callable
from typing import Any, Final

import anyio

from controller.api.panel import Panel
from controller.api.problems import unknown_model
from controller.api.views import look

LOOKS_AFTER_ASKING: Final = (0.05, 0.5, 2.0)
"""Seconds. A refusal is the reconciler's memory and no commit, so nothing rings for it: who waits looks again then."""


def ask_for(panel: Panel, alias: str) -> dict[str, Any]:
    """Raises Problem(unknown_model)."""
    if alias not in panel.models:
        raise unknown_model(alias)
    panel.wants.ask(alias, now=panel.clock.now())
    panel.board.asked_at = anyio.current_time()
    panel.ring()
    panel.board.ring()
    return {"schema": 1, "model": look(panel).models[alias]}


def next_look(panel: Panel) -> Callable[[], float]:
    """The next instant, on the loop's clock, at which an answer to the latest wish may be there."""

    def again() -> float:
        now = anyio.current_time()
        looks = (panel.board.asked_at + seconds for seconds in LOOKS_AFTER_ASKING)
        return min((at for at in looks if at > now), default=float("inf"))

    return again
