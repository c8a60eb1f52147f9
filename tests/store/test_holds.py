"""Is the same mistake not paid for again and again, and forgotten when it is mended?"""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from controller.core.crash_loop import Starts
from controller.core.deployment import Record
from controller.core.diagnosis import SAYS, Cause
from controller.core.evidence import StopReason
from controller.core.lifecycle import Phase
from controller.store import deployments, holds
from controller.store.outbox import lines_after
from controller.store.store import Store
from tests.store.samples import POLICY, accept, evidence_events, opened, proof
from tests.support.clocks import NOON, HandClock

S = timedelta(seconds=1)
M = timedelta(minutes=1)


async def fail(store: Store, name: str, reason: StopReason, *, cause: Cause | None = None) -> Record:
    """One start that came to nothing, from its declaration to its proven end; `cause` is what its log said."""
    record = await store.write(lambda tx: accept(tx, name, f"p-{name}", ceiling="0.1"))
    if cause is not None:
        await store.write(lambda tx: tx.put_starts(record.id, Starts(cause=cause.value)))
    await store.write(lambda tx: deployments.require_stop(tx, record, reason))
    (duty,) = store.book.duties(record.id)
    await store.write(lambda tx: deployments.discharge(tx, duty.id, proof("x")))
    return store.book.records[record.id]


async def told(store: Store, event: str) -> list[dict[str, Any]]:
    """The evidence lines of this event."""
    stored = await store.read(lambda connection: lines_after(connection, 0, limit=1000))
    return [line for line in (json.loads(text) for _, text in stored) if line["event"] == event]


async def test_after_one_failed_start_a_fresh_one_is_allowed(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        record = await fail(store, "a", StopReason.CRASH_LOOP)
        memory = store.book.memory("qwen")
        assert (memory.failures, memory.hold_reason) == (1, None)
        assert memory.failure is not None
        assert (memory.failure.deployment, memory.failure.reason) == (record.id, "crash-loop")


@pytest.mark.parametrize(("failures", "span"), [(2, 10 * M), (3, 20 * M), (4, 40 * M)])
async def test_from_the_second_in_a_row_on_the_model_is_held_ever_longer(
    tmp_path: Path, failures: int, span: timedelta
) -> None:
    async with opened(tmp_path, HandClock()) as store:
        for number in range(failures):
            await fail(store, f"d{number}", StopReason.STARTUP_DEADLINE)
        memory = store.book.memory("qwen")
        assert (memory.hold_reason, memory.hold_until) == ("startup-deadline", NOON + span)
        assert memory.hold_fingerprint == "f1"


async def test_a_refused_key_is_held_without_a_time(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        for number in range(2):
            await fail(store, f"d{number}", StopReason.KEY_REFUSED)
        memory = store.book.memory("qwen")
        assert (memory.hold_reason, memory.hold_until) == ("key-refused", None)


@pytest.mark.parametrize(("cause", "span"), [(Cause.BAD_FLAG, None), (Cause.WRONG_CUDA, 10 * M)])
async def test_a_config_at_fault_is_held_without_a_time_and_a_machine_at_fault_for_a_time(
    tmp_path: Path, cause: Cause, span: timedelta | None
) -> None:
    async with opened(tmp_path, HandClock()) as store:
        for number in range(2):
            await fail(store, f"d{number}", StopReason.CRASH_LOOP, cause=cause)
        memory = store.book.memory("qwen")
        assert memory.hold_reason == f"crash-loop: {SAYS[cause]} ({cause.value})"
        assert memory.hold_until == (None if span is None else NOON + span)
        (blocked,) = await told(store, "model.blocked")
        assert blocked["detail"]["cause"] == cause.value


async def test_a_cause_is_no_reason_of_a_stop_that_fails_no_start(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        await fail(store, "a", StopReason.IDLE, cause=Cause.OUT_OF_MEMORY)
        (due,) = await told(store, "obligation.due")
        assert due.get("detail", {}) == {}


async def test_failures_and_holds_survive_a_restart(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        for number in range(2):
            await fail(store, f"d{number}", StopReason.CRASH_LOOP)
        before = store.book.memory("qwen")
    async with opened(tmp_path, HandClock()) as store:
        assert store.book.memory("qwen") == before


async def test_a_success_forgets_failures_and_hold(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        for number in range(2):
            await fail(store, f"d{number}", StopReason.CRASH_LOOP)
        await store.write(lambda tx: holds.note_success(tx, "qwen"))
        memory = store.book.memory("qwen")
        assert (memory.failures, memory.hold_reason, memory.hold_until) == (0, None, None)


async def test_an_operator_ends_a_hold_once(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        for number in range(2):
            await fail(store, f"d{number}", StopReason.CRASH_LOOP)
        unblocked = [await store.write(lambda tx: holds.unblock(tx, "qwen", why="mended")) for _ in range(2)]
        events = await store.write(evidence_events)
        assert (unblocked, events.count("model.blocked"), events.count("model.unblocked")) == ([True, False], 1, 1)


async def test_no_funds_block_without_a_time(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        record = await store.write(accept)
        await store.write(lambda tx: holds.block(tx, record, reason=holds.NO_FUNDS, detail="HTTP 402"))
        memory = store.book.memory("qwen")
        assert (memory.hold_reason, memory.hold_until, memory.hold_fingerprint) == ("no_funds", None, "f1")
        assert memory.round_detail == "HTTP 402"


@pytest.mark.parametrize(("reason", "alarm"), [(holds.NO_FUNDS, "no-funds"), ("invalid-request", "model-blocked")])
@pytest.mark.parametrize("mended", ["unblocked", "started"])
async def test_a_block_is_alarmed_in_the_provider_s_words_until_it_is_over(
    tmp_path: Path, reason: str, alarm: str, mended: str
) -> None:
    async with opened(tmp_path, HandClock()) as store:
        record = await store.write(accept)
        await store.write(lambda tx: holds.block(tx, record, reason=reason, detail="HTTP 4xx: why"))
        assert store.book.alarms[alarm, "qwen"].detail == f"{reason}: HTTP 4xx: why"
        if mended == "unblocked":
            await store.write(lambda tx: holds.unblock(tx, "qwen", why="paid"))
        else:
            await store.write(lambda tx: holds.note_start(tx, "qwen", at=tx.now))
        assert store.book.alarms == {}


async def test_rounds_of_refusals_wait_longer_until_something_starts(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        gaps = []
        for _ in range(3):
            await store.write(lambda tx: holds.note_round(tx, "qwen", detail="none", policy=POLICY))
            gaps.append(store.book.memory("qwen").next_round_at)
        assert gaps == [NOON + 30 * S, NOON + 60 * S, NOON + 120 * S]
        await store.write(accept)
        memory = store.book.memory("qwen")
        assert (memory.rounds, memory.next_round_at, memory.round_detail) == (0, None, None)


async def test_a_round_of_refusals_is_no_start_and_no_failed_start(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        await store.write(lambda tx: holds.note_round(tx, "qwen", detail="none", policy=POLICY))
        memory = store.book.memory("qwen")
        assert (memory.starts, memory.failures) == ((), 0)


async def test_starts_older_than_a_day_are_forgotten(tmp_path: Path) -> None:
    clock = HandClock()
    async with opened(tmp_path, clock) as store:
        await store.write(lambda tx: holds.note_start(tx, "qwen", at=NOON))
        await store.write(lambda tx: holds.note_start(tx, "qwen", at=NOON + S))
        clock.move(timedelta(days=1))
        await store.write(lambda tx: holds.note_start(tx, "qwen", at=clock.now()))
        assert store.book.memory("qwen").starts == (NOON + S, clock.now())


@pytest.mark.parametrize("reason", [StopReason.IDLE, StopReason.OPERATOR_REQUEST, StopReason.LIFETIME_EXCEEDED])
async def test_an_ordinary_end_is_no_failure(tmp_path: Path, reason: StopReason) -> None:
    async with opened(tmp_path, HandClock()) as store:
        record = await fail(store, "a", reason)
        assert (record.phase, store.book.memory("qwen").failures) == (Phase.STOPPED, 0)
