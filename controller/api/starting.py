"""How is a model asked for?

The same for gateways and operators: the wish is remembered for a minute, the tasks are woken, and the answer is the
model as it is now. Whether anything is started is the reconciler's decision. Who waits for it, or may come back for
it, is remembered beside the wish: a start that nobody waits for may be given up.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import structlog

from controller.api.panel import Panel
from controller.api.problems import unknown_model
from controller.api.views import look
from controller.core import slots
from controller.core.policy import STARTUP_DEADLINE_MOST
from controller.store.errors import StoreUnwritable
from controller.store.waits import MOVED_BY, note_expected

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Callers:
    """What one gateway says of those who want a model."""

    gateway: str
    waiting: int
    returning: timedelta
    """For so long may somebody come back who was told to."""


async def ask_for_callers(panel: Panel, alias: str, callers: Callers) -> dict[str, Any]:
    """Raises Problem(unknown_model)."""
    _require_known(panel, alias)
    _tell(panel, alias, callers)
    view = _ask(panel, alias)
    await _keep_expected(panel, alias)
    return view


async def callers_left(panel: Panel, alias: str, callers: Callers) -> dict[str, Any]:
    """The last of them left without an answer: no wish, only word of it. Raises Problem(unknown_model)."""
    _require_known(panel, alias)
    _tell(panel, alias, callers)
    panel.ring("abandonment_watcher")
    await _keep_expected(panel, alias)
    return _view(panel, alias)


async def ask_as_operator(panel: Panel, alias: str) -> dict[str, Any]:
    """It is theirs however long it takes. Raises Problem(unknown_model)."""
    _require_known(panel, alias)
    panel.waits.expect(alias, until=panel.now + STARTUP_DEADLINE_MOST)
    view = _ask(panel, alias)
    await _keep_expected(panel, alias)
    return view


def _require_known(panel: Panel, alias: str) -> None:
    if alias not in panel.models:
        raise unknown_model(alias)


def _tell(panel: Panel, alias: str, callers: Callers) -> None:
    panel.waits.tell(callers.gateway, alias, waiting=callers.waiting, returning=callers.returning, now=panel.now)


def _ask(panel: Panel, alias: str) -> dict[str, Any]:
    """Gateways ask every ten seconds for as long as anybody waits, most of the time for what is on its way: a wish for
    that the reconciler would forget at once."""
    if not slots.filled(panel.models[alias].slots, panel.live(alias)):
        panel.wants.ask(alias, now=panel.clock.now())
        panel.ring("observer", "reconciler")  # nobody else looks at wishes
        panel.board.ring()
    return _view(panel, alias)


def _view(panel: Panel, alias: str) -> dict[str, Any]:
    return {"schema": 1, "model": look(panel).models[alias]}


async def _keep_expected(panel: Panel, alias: str) -> None:
    """Across a restart: who was told to come back says nothing meanwhile. Of use only where a start may be given up."""
    until, known = panel.waits.expected_until(alias), panel.book.memory(alias).expected_until
    if panel.models[alias].abandon_after is None or until is None:
        return
    if known is not None and until < known + MOVED_BY:
        return
    try:
        await panel.store.write(lambda tx: note_expected(tx, alias, until=until))
    except StoreUnwritable:
        log.warning("expected_not_kept", alias=alias)
