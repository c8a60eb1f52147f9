"""How is a model asked for?

The same for gateways and operators: the wish is remembered for a minute, the tasks are woken, and the answer is the
model as it is now. Whether anything is started is the reconciler's decision.
"""

from typing import Any

from controller.api.panel import Panel
from controller.api.problems import unknown_model
from controller.api.views import look


def ask_for(panel: Panel, alias: str) -> dict[str, Any]:
    """Raises Problem(unknown_model)."""
    if alias not in panel.models:
        raise unknown_model(alias)
    panel.wants.ask(alias, now=panel.clock.now())
    panel.ring("observer", "reconciler")  # nobody else looks at wishes
    panel.board.ring()
    return {"schema": 1, "model": look(panel).models[alias]}
