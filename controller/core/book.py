"""What do we hold on record, all of it, at one moment?

An immutable value renewed after each commit; passes read it instead of the store. It holds what is open: live
deployments and those of recent memory, open obligations, leases, and what is remembered of each model.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cached_property
from typing import Any, TypeVar

from controller.core.crash_loop import Starts
from controller.core.deployment import Create, Record
from controller.core.diagnosis import told
from controller.core.evidence import StopReason
from controller.core.evidence_chain import BEFORE_THE_FIRST
from controller.core.identity import DeploymentId, ObligationId, Owner, RequestId, ResourceKey, Scope
from controller.core.lease import Lease
from controller.core.lifecycle import ENDED, LIVE, Phase
from controller.core.obligation import Ending, Obligation
from controller.core.orphans import Sighting, Whose
from controller.core.removal import Confirmed
from controller.core.spend import Reservation, to_usd

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The last start that failed: told to everyone who waited for it. `seq` is its evidence line's."""

    deployment: DeploymentId
    reason: str
    at: datetime
    seq: int
    cause: str | None = None
    """What its log said that it died of, a word of `core.diagnosis`."""

    @property
    def told(self) -> str:
        """Why, as those who waited are told it."""
        return told(self.reason, self.cause)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMemory:
    """What is remembered of one model across its deployments and our restarts."""

    model: str
    failures: int = 0
    """Failed starts in a row."""
    hold_reason: str | None = None
    hold_until: datetime | None = None
    """`None` with a reason: held until an operator or a changed config ends it."""
    hold_fingerprint: str | None = None
    rounds: int = 0
    """Rounds in a row in which every offer was refused."""
    next_round_at: datetime | None = None
    round_detail: str | None = None
    """What the provider said when it refused last, for operators."""
    cold_start: timedelta | None = None
    failure: Failure | None = None
    starts: tuple[datetime, ...] = ()
    """Creates that were accepted or unanswered, of the last day."""
    expected_until: datetime | None = None
    """Somebody who was told to come back for it may until then; an operator who started it may all the while."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountTrust:
    """Is the account that we look at still the one that holds what we made (RP-43)?"""

    digest: str | None = None
    trusted: bool = True
    why: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    name: str
    subject: str
    since: datetime
    detail: str


@dataclass(frozen=True, kw_only=True)
class Book:
    """One moment of the store. Mappings are not to be written to. What is asked of it again and again is kept in it."""

    owner: Owner
    scope: Scope
    records: Mapping[DeploymentId, Record] = field(default_factory=dict)
    creates: Mapping[RequestId, Create] = field(default_factory=dict)
    obligations: Mapping[ObligationId, Obligation] = field(default_factory=dict)
    leases: Mapping[DeploymentId, Lease] = field(default_factory=dict)
    memories: Mapping[str, ModelMemory] = field(default_factory=dict)
    starts: Mapping[DeploymentId, Starts] = field(default_factory=dict)
    sightings: Mapping[ResourceKey, Sighting] = field(default_factory=dict)
    reservations: Mapping[str, Reservation] = field(default_factory=dict)
    """Those of open deployments and of the current UTC day."""
    settled: Mapping[ResourceKey, datetime] = field(default_factory=dict)
    """Keys whose obligation was discharged lately, and when: seen again, they are owed again."""
    corroborated: Mapping[ResourceKey, datetime] = field(default_factory=dict)
    """Of those, the ends that the bill bore out since, by when they were."""
    ended: Mapping[Ending, int] = field(default_factory=dict)
    """How many obligations ever ended, by how."""
    alarms: Mapping[tuple[str, str], Alarm] = field(default_factory=dict)
    account: AccountTrust = field(default_factory=AccountTrust)
    epoch_latest: int = 0
    seq_latest: int = 0
    hash_latest: str = BEFORE_THE_FIRST
    restored_at: datetime | None = None
    """A copy was put back as this store then, and no run has taken it up yet."""
    matching_since: datetime | None = None
    """This store is an old copy: since then it is being found out what it forgot, and nothing is created."""
    confirmed: Confirmed | None = None
    """An operator's word for one config that would stop everything."""
    mark: datetime | None = None
    """The latest instant ever witnessed; the clock may not read less for a create."""

    def once(self, work: Callable[["Book"], T]) -> T:
        """What this function makes of this moment, worked out the first time that it is asked for."""
        kept: dict[Callable[[Book], Any], Any] = self.__dict__.setdefault("_worked_out", {})
        if work not in kept:
            kept[work] = work(self)
        found: T = kept[work]
        return found

    @cached_property
    def at_rest(self) -> bool:
        """Nothing on record could bill: no deployment holds a slot, no duty is open, and nothing of ours is out there
        without a record."""
        return not (self.matching_since is not None or self._live or self.owing or _any_ours(self.sightings))

    @cached_property
    def unrecorded(self) -> bool:
        """Is something there that we made and that no record holds? What another installation made, with our owner in a
        copied config, is told and left alone: it makes nothing urgent."""
        return _any_ours(self.sightings)

    def memory(self, model: str) -> ModelMemory:
        return self.memories.get(model) or ModelMemory(model=model)

    def earlier_deaths(self, record: Record) -> tuple[datetime, ...]:
        """Restarts of the machines that were there before this one, for the same configuration of its model. Those that
        made a start fail are paid for: a fresh start is allowed after them."""
        before = (
            other
            for other in self.records.values()
            if (other.model, other.fingerprint) == (record.model, record.fingerprint)
            and (other.phase is Phase.STOP_REQUIRED or other.phase in ENDED)
            and other.reason not in reasons_that_fail_a_start()
        )
        return tuple(at for other in before if other.id in self.starts for at in self.starts[other.id].restarts)

    def live(self, model: str | None = None) -> tuple[Record, ...]:
        """Deployments that occupy a slot, in order of declaration."""
        return self._live if model is None else tuple(record for record in self._live if record.model == model)

    @cached_property
    def _live(self) -> tuple[Record, ...]:
        found = (record for record in self.records.values() if record.phase in LIVE)
        return tuple(sorted(found, key=lambda record: (record.declared_at, record.id)))

    def occupant(self, model: str, slot: int) -> Record | None:
        return next((record for record in self._live if record.model == model and record.slot == slot), None)

    def duties(self, deployment: DeploymentId) -> tuple[Obligation, ...]:
        """Its open obligations."""
        return tuple(duty for duty in self.obligations.values() if duty.deployment == deployment and duty.open)

    @property
    def owing(self) -> bool:
        """Is there anything that has to be stopped one day?"""
        return any(duty.open for duty in self.obligations.values())

    def owed(self) -> tuple[Obligation, ...]:
        """Obligations whose stop is wanted and unproven, oldest first."""
        return self.once(_owed)

    def ceiling(self, deployment: DeploymentId) -> Decimal | None:
        """What an hour of it may cost at most, as was reserved for it; `None` where nobody knew a rate."""
        held = [hold.ceiling_micros_per_hour for hold in self.reservations.values() if hold.deployment == deployment]
        most = max(held, default=0)
        return to_usd(most) if most else None

    def ordered(self, record: Record) -> str | None:
        """The offer that its machine came of: type of card, and place where one was asked for."""
        made = (create for create in self.creates.values() if create.deployment == record.id)
        return next((create.offer for create in made if create.key is not None and create.key == record.key), None)

    def held_keys(self) -> frozenset[ResourceKey]:
        """Exact keys that a record or an open obligation of ours holds."""
        return self.once(_held_keys)


def _owed(book: Book) -> tuple[Obligation, ...]:
    return tuple(sorted((d for d in book.obligations.values() if d.due), key=lambda d: (d.due_at, d.id)))


def _held_keys(book: Book) -> frozenset[ResourceKey]:
    keys = [record.key for record in book.records.values() if record.phase in LIVE]
    keys += [duty.key for duty in book.obligations.values() if duty.open]
    return frozenset(key for key in keys if key is not None)


def _any_ours(sightings: Mapping[ResourceKey, Sighting]) -> bool:
    return any(sighting.whose is Whose.OURS for sighting in sightings.values())


def reasons_that_fail_a_start() -> frozenset[StopReason]:
    """Stop reasons that say: this start came to nothing (RP-32)."""
    return frozenset(
        {
            StopReason.CRASH_LOOP,
            StopReason.STARTUP_DEADLINE,
            StopReason.KEY_REFUSED,
            StopReason.UNPROTECTED,
            StopReason.SECRET_UNSUBSTITUTED,
            StopReason.SERVED_MODEL_MISMATCH,
            StopReason.POD_EXITED,
            StopReason.POD_ERROR,
            StopReason.ZERO_GPU,
            StopReason.WRONG_RESOURCE,
            StopReason.NCCL_STALL,
            StopReason.MULTI_CARD_STALL,
        }
    )
