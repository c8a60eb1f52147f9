"""What is remembered of a model, so that the same mistake is not paid for again and again?

Failed starts in a row, holds, rounds of refusals, the starts of the last day and the measured cold start; kept across
restarts.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from controller.core.backoff import hold_span, round_gap
from controller.core.book import Failure
from controller.core.deployment import Record
from controller.core.diagnosis import of_config
from controller.core.errors import Code
from controller.core.evidence import StopReason
from controller.core.policy import HostingPolicy
from controller.store.transaction import Tx

KEPT = timedelta(days=1)
UNTIMED = frozenset({StopReason.KEY_REFUSED, StopReason.UNPROTECTED, StopReason.SECRET_UNSUBSTITUTED})
"""Faults of the configuration: held until an operator or a changed config ends it (RP-30)."""


def note_start(tx: Tx, model: str, *, at: datetime) -> None:
    """An accepted or unanswered create counts against the caps; rounds of refusals are over."""
    memory = tx.book.memory(model)
    starts = (*(start for start in memory.starts if start > at - KEPT), at)
    tx.put_memory(replace(memory, starts=starts, rounds=0, next_round_at=None, round_detail=None))
    _clear_alarms(tx, model)  # a changed config ended the hold


def note_cold_start(tx: Tx, model: str, *, took: timedelta) -> None:
    tx.put_memory(replace(tx.book.memory(model), cold_start=took))


def note_success(tx: Tx, model: str) -> None:
    """It has served long enough: earlier failures are forgotten (B21)."""
    tx.put_memory(replace(tx.book.memory(model), failures=0, hold_reason=None, hold_until=None, hold_fingerprint=None))


def note_failure(tx: Tx, record: Record, failure: Failure) -> None:
    """A start came to nothing: those who waited are told, and from so many in a row on the model is held. Nobody waited
    for what was to fill a volume."""
    memory = tx.book.memory(record.model)
    failures = memory.failures + 1
    span = hold_span(failures, tx.holding)
    held = replace(memory, failures=failures, failure=failure if record.fills is None else memory.failure)
    if span is not None:
        until = None if record.reason in UNTIMED or of_config(failure.cause) else tx.now + span
        held = replace(held, hold_reason=failure.told, hold_until=until, hold_fingerprint=record.fingerprint)
    tx.put_memory(held)
    if span is not None:
        detail = {"until": held.hold_until, "cause": failure.cause}
        tx.line("model.blocked", model=record.model, reason=failure.reason, detail=detail)


def note_round(tx: Tx, model: str, *, detail: str, policy: HostingPolicy) -> None:
    """Every declared offer was refused: the next round waits."""
    memory = tx.book.memory(model)
    rounds = memory.rounds + 1
    gap = round_gap(rounds, first=policy.round_gap)
    tx.put_memory(replace(memory, rounds=rounds, next_round_at=tx.now + gap, round_detail=detail))


def wait_as_asked(tx: Tx, model: str, retry_after: timedelta | None) -> None:
    """The provider's own patience is honoured in full for creates."""
    memory = tx.book.memory(model)
    if retry_after is not None and memory.next_round_at is not None:
        tx.put_memory(replace(memory, next_round_at=max(memory.next_round_at, tx.now + retry_after)))


def block(tx: Tx, record: Record, *, reason: str, detail: str) -> None:
    """Something that only an operator or a changed config can mend: no funds, a refused order, a refused key."""
    memory = tx.book.memory(record.model)
    failure = Failure(deployment=record.id, reason=reason, at=tx.now, seq=tx.book.seq_latest)
    tx.put_memory(
        replace(
            memory,
            hold_reason=reason,
            hold_until=None,
            hold_fingerprint=record.fingerprint,
            failure=failure,
            round_detail=detail,
        )
    )
    tx.line("model.blocked", model=record.model, reason=reason, detail={"text": detail})
    alarm = "no-funds" if reason == NO_FUNDS else "model-blocked"
    tx.raise_alarm(alarm, subject=record.model, detail=f"{reason}: {detail}")


def unblock(tx: Tx, model: str, *, why: str) -> bool:
    """End a hold; says whether there was one."""
    memory = tx.book.memory(model)
    if memory.hold_reason is None:
        return False
    tx.put_memory(replace(memory, hold_reason=None, hold_until=None, hold_fingerprint=None, failures=0))
    tx.line("model.unblocked", model=model, detail={"text": why})
    _clear_alarms(tx, model)
    return True


def _clear_alarms(tx: Tx, model: str) -> None:
    for name in ("no-funds", "model-blocked"):
        tx.clear_alarm(name, subject=model)


NO_FUNDS = Code.NO_FUNDS.value
