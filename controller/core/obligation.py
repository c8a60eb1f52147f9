"""When is the duty to stop a resource fulfilled, and when is the stop asked for (again)?

An obligation is committed before the call that may make its resource, and ends only with stored evidence: an accepted
stop, a silence, a failed read or a partial listing end nothing (HC-18). Absence proves something only after the
create's answer has had time to show (RP-45), and never while it is doubtful whose account we are looking at (RP-43).
Nothing here gives up.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from controller.core.deployment import ProviderState
from controller.core.evidence import Evidence, EvidenceKind, StopReason
from controller.core.identity import DeploymentId, ObligationId, RequestId, ResourceKey
from controller.core.inventory import Absence, NotFound, Present, Read

STOP_BACKOFF_FIRST: Final = timedelta(seconds=5)


class Ending(StrEnum):
    DISCHARGED = "discharged"
    TRANSFERRED = "transferred"
    VOID = "void"


class StopAnswer(StrEnum):
    """What the last stop call's answer was worth."""

    ACCEPTED = "accepted"
    NOT_FOUND = "not-found"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Obligation:
    """The duty to stop one resource. `key` is `None` until the resource was seen or described."""

    id: ObligationId
    opened_at: datetime
    deployment: DeploymentId | None = None
    model: str | None = None
    slot: int | None = None
    request: RequestId | None = None
    key: ResourceKey | None = None
    create_ended_at: datetime | None = None
    """When the create call was over; `None` while it is in flight, and for resources that we did not make."""
    seen_at: datetime | None = None
    """First sighting of its key after that."""
    due_at: datetime | None = None
    reason: StopReason | None = None
    epoch: int = 0
    stop_attempts: int = 0
    stop_submitted_at: datetime | None = None
    stop_ended_at: datetime | None = None
    """When the last stop call was over; `None` while one is in flight."""
    stop_answer: StopAnswer | None = None
    stop_reference: str | None = None
    stop_not_before: datetime | None = None
    """The provider asked us to wait until then."""
    ended_at: datetime | None = None
    ending: Ending | None = None
    evidence: Evidence | None = None
    version: int = 0

    @property
    def open(self) -> bool:
        return self.ended_at is None

    @property
    def due(self) -> bool:
        return self.open and self.due_at is not None

    @property
    def stop_in_flight(self) -> bool:
        return self.stop_submitted_at is not None and self.stop_ended_at is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What is known from outside about one obligation's resource."""

    read: Read | None = None
    absence: Absence | None = None
    """By key where one is known, else by request id."""
    seen_at: datetime | None = None
    """Latest sighting, in any listing or read."""
    account_trusted: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Discharge:
    evidence: Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepOpen:
    """What is still missing, in words for an operator."""

    waiting_for: str


def settle(duty: Obligation, sight: Sight, *, settle_after: timedelta, accepted_suffices: bool) -> Discharge | KeepOpen:
    """Decide whether what was seen ends the obligation. `settle_after` is how long a provider's listing may lag."""
    if duty.key is None:
        return _settle_unknown(duty, sight, settle_after)
    if duty.reason is StopReason.BILLED_AFTER_STOP:
        # Whoever is billed though no listing shows it is not proven gone by a listing, nor by a call that was accepted.
        return KeepOpen(waiting_for="a bill that is quiet about it, or a confirmation from outside")
    if isinstance(sight.read, Present) and sight.read.resource.state is ProviderState.TERMINATED:
        return Discharge(
            evidence=Evidence(
                kind=EvidenceKind.PROVIDER_TERMINATED,
                reference=f"read of {duty.key.incarnation} says terminated",
                observed_at=sight.read.observed_at,
            )
        )
    if accepted_suffices and duty.stop_answer is StopAnswer.ACCEPTED and duty.stop_reference and duty.stop_ended_at:
        return Discharge(
            evidence=Evidence(
                kind=EvidenceKind.STOP_ACCEPTED, reference=duty.stop_reference, observed_at=duty.stop_ended_at
            )
        )
    return _settle_absent(duty, sight, settle_after)


def _settle_absent(duty: Obligation, sight: Sight, settle_after: timedelta) -> Discharge | KeepOpen:
    read, absence = sight.read, sight.absence
    if not sight.account_trusted:
        return KeepOpen(waiting_for="proof that the provider's account is still the same one")
    if absence is None:
        return KeepOpen(waiting_for="a complete listing without it")
    if sight.seen_at is not None and sight.seen_at >= absence.last:
        return KeepOpen(waiting_for="a complete listing without it, begun after it was last seen")
    if duty.seen_at is None and duty.create_ended_at and absence.last < duty.create_ended_at + settle_after:
        return KeepOpen(waiting_for="its first sighting, or the settle time after its create")
    if not isinstance(read, NotFound):
        return KeepOpen(waiting_for="a read that says it is gone")
    if duty.stop_ended_at is not None:
        proven = absence.last > duty.stop_ended_at and read.began_at > duty.stop_ended_at
        missing = "a complete listing and a read, both begun after the stop's answer"
    else:
        proven = absence.last - absence.first >= settle_after and read.began_at >= absence.first
        missing = "complete listings without it, the settle time apart"
    return _absent(absence, read.reference) if proven else KeepOpen(waiting_for=missing)


def _settle_unknown(duty: Obligation, sight: Sight, settle_after: timedelta) -> Discharge | KeepOpen:
    if duty.create_ended_at is None:
        return KeepOpen(waiting_for="the create call to end")
    if not sight.account_trusted:
        return KeepOpen(waiting_for="proof that the provider's account is still the same one")
    absence = sight.absence
    if absence is None or absence.previous is None:
        return KeepOpen(waiting_for="two complete listings without its request id")
    if absence.previous <= duty.create_ended_at or absence.last < duty.create_ended_at + settle_after:
        return KeepOpen(waiting_for="complete listings without its request id, up to the settle time after the call")
    return _absent(absence, f"no resource carries request {duty.request}")


def _absent(absence: Absence, reference: str) -> Discharge:
    return Discharge(
        evidence=Evidence(
            kind=EvidenceKind.INVENTORY_COMPLETE_ABSENT,
            reference=f"complete listing begun {absence.last.isoformat(timespec='milliseconds')}; {reference}",
            observed_at=absence.last,
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitStop:
    """Send the stop now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldStop:
    """Not now; look again at `until`, or when something new is seen (`None`)."""

    until: datetime | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StopTimes:
    """How patient we are with a provider about one stop."""

    again_after: timedelta
    backoff_max: timedelta
    drain_until: datetime | None = None
    restarted_at: datetime | None = None
    """When our own process began: a call that was sent before then and failed is made again without its backoff
    (invariant 9). By when it was sent: the end of one that was in flight is told by the restart itself."""


def submit(duty: Obligation, sight: Sight, *, times: StopTimes, now: datetime) -> SubmitStop | HoldStop:
    """Decide whether the stop is sent now. For ever: an obligation that is due is asked for until it is proven."""
    if not duty.due:
        return HoldStop(until=None, why="no stop is wanted")
    if duty.key is None:
        return HoldStop(until=None, why="no exact key is known")
    if duty.stop_in_flight and not _of_a_former_process(duty, times):
        return HoldStop(until=None, why="a stop is in flight")
    if times.drain_until is not None and now < times.drain_until:
        return HoldStop(until=times.drain_until, why="open requests may end")
    if duty.stop_ended_at is None:
        return SubmitStop()
    return _submit_again(duty, sight, times=times, now=now)


def _submit_again(duty: Obligation, sight: Sight, *, times: StopTimes, now: datetime) -> SubmitStop | HoldStop:
    assert duty.stop_ended_at is not None  # noqa: S101 - a first stop was sent
    if duty.stop_answer in {StopAnswer.ACCEPTED, StopAnswer.NOT_FOUND}:
        again_at = duty.stop_ended_at + times.again_after
        if sight.seen_at is None or sight.seen_at <= duty.stop_ended_at:
            return HoldStop(until=None, why="accepted; waiting for proof")
    elif times.restarted_at is not None and _of_a_former_process(duty, times):
        again_at = times.restarted_at
    else:
        again_at = duty.stop_ended_at + backoff(duty.stop_attempts, most=times.backoff_max)
    if duty.stop_not_before is not None:
        again_at = max(again_at, duty.stop_not_before)
    if now < again_at:
        return HoldStop(until=again_at, why="asked; to be asked again")
    return SubmitStop()


def _of_a_former_process(duty: Obligation, times: StopTimes) -> bool:
    """Was it asked for last by a process that has ended? Then nothing is in flight, though that may not be on record:
    a run begins where nothing can be written too."""
    sent_at = duty.stop_submitted_at or duty.stop_ended_at
    return times.restarted_at is not None and sent_at is not None and sent_at < times.restarted_at


def backoff(attempts: int, *, most: timedelta) -> timedelta:
    """5 s after the first failed attempt, doubling, never above `most`."""
    return min(STOP_BACKOFF_FIRST * (1 << min(max(attempts - 1, 0), 16)), most)
