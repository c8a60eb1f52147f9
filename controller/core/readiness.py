"""May clients be sent to this resource?

The provider's word is never readiness; our own probe is. Ready means: it answers, refuses a caller without a key,
refuses the literal secret reference as a key, and does not serve another name than the one declared (design, section
2). An unknown name does not block, and an unknown answer changes nothing: neither ready nor unready.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from controller.core.evidence import StopReason

WATCHED: Final = timedelta(seconds=60)
"""A start was measured if its last answer of "not yet" came so shortly before the first good one."""
PROOF_STANDS: Final = timedelta(minutes=10)
"""So long a server that goes on serving need not show again whom it turns away, and by which names it serves."""


class Verdict(StrEnum):
    """What one probe of a model server came to."""

    READY = "ready"
    NOT_READY = "not-ready"
    REFUSED = "refused"
    UNPROTECTED = "unprotected"
    SECRET_UNSUBSTITUTED = "secret-unsubstituted"
    PROXY_REFUSED = "proxy-refused"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """`ready` is `None` where nothing is known; `stop` says that it must not serve at all."""

    ready: bool | None
    stop: StopReason | None = None


UNFIT = {
    Verdict.REFUSED: StopReason.KEY_REFUSED,
    Verdict.UNPROTECTED: StopReason.UNPROTECTED,
    Verdict.SECRET_UNSUBSTITUTED: StopReason.SECRET_UNSUBSTITUTED,
}


def assess(verdict: Verdict, served: tuple[str, ...] | None, *, expected: str) -> Assessment:
    """Judge one probe. `served` is `None` where the server told no names."""
    if (stop := UNFIT.get(verdict)) is not None:
        return Assessment(ready=False, stop=stop)
    if verdict in {Verdict.UNREACHABLE, Verdict.PROXY_REFUSED}:
        return Assessment(ready=None)
    if verdict is Verdict.NOT_READY:
        return Assessment(ready=False)
    if served is not None and expected not in served:
        return Assessment(ready=False, stop=StopReason.SERVED_MODEL_MISMATCH)
    return Assessment(ready=True)


def proof_stands(proven_at: datetime | None, *, container_at: datetime | None, now: datetime) -> bool:
    """Was the whole of it shown lately, by the container that runs now?"""
    if proven_at is None or (container_at is not None and container_at > proven_at):
        return False
    return proven_at <= now < proven_at + PROOF_STANDS


def cold_start(*, started_at: datetime, awaited_at: datetime | None, ready_at: datetime) -> timedelta | None:
    """How long did it take from the create to the first good answer? `None` where nobody watched it become ready: a
    daemon that was down, a provider out of reach, a machine that was claimed. What is kept of it is the least idle
    time of the model (RP-34), so that a wrong measure is paid for by every machine that follows."""
    unseen = ready_at - max(awaited_at or started_at, started_at)
    return ready_at - started_at if unseen <= WATCHED else None
