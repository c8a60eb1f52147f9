"""Which phase may follow which?

The table is the rule (requirements, App. A): 21 edges, every other pair is refused. `advance` is the only way from one
phase to the next; the store's CHECK lists the same eight words. Uncertain and stop-required owe a stop; nothing leads
back from stop-required to service, however healthy the resource looks (HC-16).
"""

from enum import StrEnum
from typing import Final

from controller.core.errors import Refusal, RefusalCode


class Phase(StrEnum):
    DECLARED = "declared"
    REQUESTED = "requested"
    ACTIVE = "active"
    UNCERTAIN = "uncertain"
    STOP_REQUIRED = "stop-required"
    STOPPED = "stopped"
    CANCELLED = "cancelled"
    DISOWNED = "disowned"


P = Phase

TRANSITIONS: Final[dict[Phase, frozenset[Phase]]] = {
    P.DECLARED: frozenset(
        {
            P.REQUESTED,  # the create was accepted
            P.UNCERTAIN,  # its answer was lost
            P.CANCELLED,  # refused for good, or never sent
        }
    ),
    P.REQUESTED: frozenset(
        {
            P.REQUESTED,  # seen again, not ready yet
            P.ACTIVE,  # our own probe says it serves
            P.STOP_REQUIRED,
            P.STOPPED,  # it vanished, and evidence came
            P.DISOWNED,
        }
    ),
    P.ACTIVE: frozenset({P.ACTIVE, P.STOP_REQUIRED, P.STOPPED, P.DISOWNED}),
    P.UNCERTAIN: frozenset(
        {
            P.UNCERTAIN,
            P.REQUESTED,  # a resource with its request id was seen: adopted
            P.ACTIVE,
            P.STOP_REQUIRED,
            P.STOPPED,  # complete listings proved that nothing came of it
            P.DISOWNED,
        }
    ),
    P.STOP_REQUIRED: frozenset(
        {
            P.STOP_REQUIRED,  # asked again: the provider refused or kept silent
            P.STOPPED,  # evidence came
            P.DISOWNED,  # a newer lease took it
        }
    ),
    P.STOPPED: frozenset(),
    P.CANCELLED: frozenset(),
    P.DISOWNED: frozenset(),
}

LIVE: Final = frozenset({P.DECLARED, P.REQUESTED, P.ACTIVE, P.UNCERTAIN, P.STOP_REQUIRED})
"""Phases that occupy a slot: nothing else is started there meanwhile."""

OWING: Final = frozenset({P.UNCERTAIN, P.STOP_REQUIRED})
SERVING: Final = frozenset({P.REQUESTED, P.ACTIVE})
ENDED: Final = frozenset({P.STOPPED, P.CANCELLED, P.DISOWNED})


def advance(phase: Phase, to: Phase) -> Phase:
    """Return `to` if it may follow `phase`; else refuse with `wrong-phase` and change nothing (HC-8)."""
    if to not in TRANSITIONS[phase]:
        raise Refusal(RefusalCode.WRONG_PHASE)
    return to
