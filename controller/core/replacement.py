"""Is what serves to make way for a successor, and when may it?

An operator asked for it, the model's configuration changed, or its lifetime ends: then another is started in the same
slot while the old one serves, one at a time of a model. The old one goes only once its successor is known to serve: a
gateway got an answer from it, or no gateway is there to try. A successor that gateways try in vain for as long as a
start may take has failed. Whatever becomes of the successor, the old one serves on; only its own end stops it.

Whether a start is allowed at all is `core.start`'s matter, as for any other.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from controller.core.deployment import Record
from controller.core.evidence import StopReason
from controller.core.lifecycle import Phase
from controller.core.policy import ModelPolicy
from controller.core.schedule import Warm

UNTRIED_FOR: Final = timedelta(seconds=60)
"""So long after it became ready a successor is taken for good if no gateway tries it: a gateway that is there begins
its proof within seconds, and with none there nobody is cut off."""
LEAD_MARGIN: Final = timedelta(minutes=2)
"""A start is seen, proven and shifted to some time after it is ready."""


class Why(StrEnum):
    """What obliges a replacement, in the words that people read."""

    ASKED = "an operator asked for it"
    CHANGED = "its configuration changed"
    AGE = "its lifetime ends"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One slot's deployment, and what the decision rests on."""

    record: Record
    successor: Record | None
    """The live one that was made to replace it."""
    tried: bool
    """A gateway holds the successor open: it tries to get an answer from it."""
    elsewhere: bool
    """Another of the model's slots is being replaced, or what it was replaced by has not got rid of the old one."""
    model: ModelPolicy
    lifetime: timedelta
    cold_start: timedelta | None
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """Nothing is to be done; the next instant at which time alone changes that."""

    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """A successor is to be started."""

    why: Why


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A successor is due, and another slot of the model comes first."""

    why: Why


@dataclass(frozen=True, slots=True, kw_only=True)
class Retire:
    """The successor serves: the old one drains and is stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveUp:
    """The successor never served anybody: it is stopped, and the old one serves on."""

    reason: StopReason


Decision = Keep | Begin | Queue | Retire | GiveUp


def decide(case: Case) -> Decision:
    """Only what serves is replaced: what still starts is not in anybody's way, and what is stopped goes anyhow."""
    if case.record.phase is not Phase.ACTIVE:
        return Keep()
    if case.successor is not None and case.successor.phase is not Phase.STOP_REQUIRED:
        return _shift(case, case.successor)
    ages_at = age_at(case) if _in_use(case) else None
    why = wanted(case.record, case.model, age_at=ages_at, now=case.now)
    if why is None:
        return Keep(until=ages_at)
    return Queue(why=why) if case.elsewhere else Begin(why=why)


def _in_use(case: Case) -> bool:
    """What nobody used since gateways tried it ends with its lifetime, unless it is to be kept warm: else a model
    whose lifetime is shorter than its idle time would be replaced for ever, for nobody."""
    return used(case.record) or isinstance(case.model.stance(case.cold_start, now=case.now), Warm)


def used(record: Record) -> bool:
    """Did a byte pass since gateways tried it?"""
    tried_at = max((at for at in (record.ready_at, record.proven_at) if at is not None), default=None)
    return record.last_byte_at is not None and (tried_at is None or record.last_byte_at > tried_at)


def _shift(case: Case, successor: Record) -> Decision:
    if successor.phase is not Phase.ACTIVE or successor.ready_at is None or successor.unready_since is not None:
        return Keep()
    if successor.proven_at is not None:
        return Retire()
    span = case.model.startup_deadline if case.tried else UNTRIED_FOR
    if case.now < successor.ready_at + span:
        return Keep(until=successor.ready_at + span)
    return GiveUp(reason=StopReason.STARTUP_DEADLINE) if case.tried else Retire()


def wanted(record: Record, model: ModelPolicy, *, age_at: datetime | None, now: datetime) -> Why | None:
    """Why is a successor wanted, if one is? What an operator asked for is told first."""
    if record.restart_asked_at is not None:
        return Why.ASKED
    if record.fingerprint != model.fingerprint:
        return Why.CHANGED
    return Why.AGE if age_at is not None and now >= age_at else None


def age_at(case: Case) -> datetime | None:
    """When its successor has to be started to serve before its lifetime ends: earlier by the measured cold start, else
    by the longest that a start may take, and never before half of its life is over."""
    if case.record.started_at is None:
        return None
    lead = (case.cold_start or case.model.startup_deadline) + LEAD_MARGIN
    return case.record.started_at + case.lifetime - min(lead, case.lifetime / 2)


def successor_of(record: Record, live: Iterable[Record]) -> Record | None:
    """The live deployment that was made to replace it; one that is stopped counts last."""
    found = [other for other in live if other.replaces == record.id]
    return min(found, key=lambda other: other.phase is Phase.STOP_REQUIRED, default=None)


def pairs(live: Sequence[Record]) -> list[tuple[Record, Record]]:
    """Each live deployment that has a live successor, with it: the replacements that are under way."""
    by_id = {record.id: record for record in live}
    return [(by_id[new.replaces], new) for new in live if new.replaces is not None and new.replaces in by_id]
