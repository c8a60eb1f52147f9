"""Does the book after any sequence of commands equal the one that a new process would read, and hold the invariants?"""

import json
import tempfile
from collections.abc import Callable
from dataclasses import fields, replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import text
from sqlalchemy.engine import Connection

from controller.core.book import Book
from controller.core.crash_loop import Starts
from controller.core.deployment import CreateAnswer, ProvisionedDeployment
from controller.core.errors import Refusal
from controller.core.evidence import StopReason
from controller.core.evidence_chain import BEFORE_THE_FIRST, verify
from controller.core.identity import Tags
from controller.core.lifecycle import LIVE, Phase
from controller.core.obligation import Ending, StopAnswer
from controller.core.orphans import Sighting, Whose
from controller.store import deployments, duties, holds, ledger, restoring
from controller.store.errors import Stale
from controller.store.load import trimmed
from controller.store.store import Store
from controller.store.transaction import Tx
from tests.core.samples import OURS, T0, key, resource
from tests.store.samples import HOLDER, POLICY, declare, made, opened, proof
from tests.support.clocks import HandClock
from tests.support.stores import open_store
from tests.support.virtual_time import run_virtual

S = timedelta(seconds=1)
RICH = replace(POLICY, max_active=4096, usd_per_day=Decimal(1_000_000))
Step = Callable[[Tx, int], object]


def pick(found: Any, number: int) -> Any:
    """One of what there is; Stale where there is nothing."""
    listed = sorted(found, key=repr)
    if not listed:
        raise Stale("nothing to act on")
    return listed[number % len(listed)]


def a_record(tx: Tx, number: int) -> Any:
    return pick(tx.book.records.values(), number)


def a_duty(tx: Tx, number: int) -> Any:
    return pick([duty for duty in tx.book.obligations.values() if duty.open], number)


def a_create(tx: Tx, number: int) -> Any:
    return pick([create for create in tx.book.creates.values() if create.submitting_at and not create.answer], number)


def accept(tx: Tx, n: int) -> object:
    create = a_create(tx, n)
    return deployments.record_accepted(tx, create, made(tx, create.request, f"p{n % 9}"))


def begin(tx: Tx, n: int) -> object:
    planned = declare(tx, f"d{tx.book.seq_latest}", model=f"m{n % 2}", slot=n % 3, policy=RICH)
    return deployments.mark_submitting(tx, planned.create.request, holder=HOLDER)


def plan(tx: Tx, n: int) -> object:
    record = a_record(tx, n)
    if record.phase is not Phase.DECLARED or tx.book.duties(record.id):
        raise Stale("still asking")
    return deployments.plan(tx, record, offer="A40")


def adopt(tx: Tx, n: int) -> object:
    duty = a_duty(tx, n)
    if duty.deployment is None or duty.request is None:
        raise Stale("a stray")
    return deployments.adopt(tx, tx.record(duty.deployment), made(tx, duty.request, f"p{n % 9}"), wanted=n % 2 == 0)


def observe(tx: Tx, n: int) -> object:
    record = a_record(tx, n)
    seen = resource(key=record.key or key(), endpoint="https://p/v1/")
    ready = (None, False, True)[n % 3]
    provisioned = ProvisionedDeployment.observed(seen, ready=ready, served_model="m", observed_at=tx.now)
    return deployments.record_observed(tx, record, provisioned)


def stray(tx: Tx, n: int) -> object:
    seen = resource(key=key(f"p{n % 9}"), tags=OURS if n % 2 else Tags())
    return duties.open_stray(tx, seen, StopReason.ORPHAN, holder=HOLDER, policy=POLICY)


def sight(tx: Tx, n: int) -> object:
    sighting = Sighting(
        key=key(f"p{n % 9}"), whose=Whose.COPIED, installation="i2", first_at=tx.now, last_at=tx.now, times=1 + n % 3
    )
    duties.sight(tx, sighting)
    return sighting


def roll(tx: Tx, n: int) -> object:
    record = a_record(tx, n)
    return ledger.roll(tx, record, remaining=timedelta(days=3), usd_per_day=RICH.usd_per_day)


STEPS: dict[str, Step] = {
    "declare": lambda tx, n: declare(tx, f"d{tx.book.seq_latest}", model=f"m{n % 2}", slot=n % 3, policy=RICH),
    "begin": begin,
    "mark": lambda tx, n: deployments.mark_submitting(tx, pick(tx.book.creates, n), holder=HOLDER),
    "accept": accept,
    "refuse": lambda tx, n: deployments.record_refused(tx, a_create(tx, n), CreateAnswer.REJECTED, detail="no"),
    "not sent": lambda tx, n: deployments.record_refused(tx, a_create(tx, n), CreateAnswer.NOT_SENT, detail="no"),
    "lose": lambda tx, n: deployments.record_unknown(tx, a_create(tx, n), detail="timed out"),
    "plan": plan,
    "cancel": lambda tx, n: deployments.cancel(tx, a_record(tx, n)),
    "adopt": adopt,
    "observe": observe,
    "ready": lambda tx, n: deployments.record_ready(
        tx, pick([record for record in tx.book.records.values() if record.phase is Phase.REQUESTED], n)
    ),
    "unready": lambda tx, n: deployments.record_unready(tx, a_record(tx, n), since=tx.now),
    "last byte": lambda tx, n: deployments.record_last_byte(tx, a_record(tx, n).id, at=tx.now),
    "require stop": lambda tx, n: deployments.require_stop(tx, a_record(tx, n), pick(StopReason, n)),
    "hand over": lambda tx, n: deployments.hand_over(tx, a_record(tx, n), epoch=10_000),
    "mark stop": lambda tx, n: duties.mark_stop(tx, a_duty(tx, n).id, holder=HOLDER),
    "stop answer": lambda tx, n: duties.record_stop_answer(tx, a_duty(tx, n).id, pick(StopAnswer, n), detail="x"),
    "seen": lambda tx, n: duties.note_seen(tx, a_duty(tx, n).id),
    "discharge": lambda tx, n: deployments.discharge(tx, a_duty(tx, n).id, proof("listing")),
    "confirm": lambda tx, n: duties.confirm(tx, a_duty(tx, n).id, reference="invoice", forced=False),
    "stray": stray,
    "sight": sight,
    "forget": lambda tx, n: tx.drop_sighting(pick(tx.book.sightings, n)),
    "claim": lambda tx, n: tx.put_claim(f"i{n}"),
    "starts": lambda tx, n: tx.put_starts(a_record(tx, n).id, Starts(latest=tx.now, restarts=(tx.now,))),
    "success": lambda tx, n: holds.note_success(tx, f"m{n % 2}"),
    "round": lambda tx, n: holds.note_round(tx, f"m{n % 2}", detail="none", policy=POLICY),
    "alarm": lambda tx, n: tx.raise_alarm("a", subject=str(n % 2), detail="x"),
    "clear": lambda tx, n: tx.clear_alarm("a", subject=str(n % 2)),
    "roll": roll,
    "restore": lambda tx, n: restoring.restore(tx, policy=POLICY, holder=HOLDER),
}


def shown(book: Book) -> dict[str, Any]:
    return {field.name: getattr(book, field.name) for field in fields(book)}


def check_book(book: Book, epochs: list[int]) -> None:
    live = [(record.model, record.slot) for record in book.records.values() if record.phase in LIVE]
    assert len(live) == len(set(live))
    granted = [lease.epoch for lease in book.leases.values()]
    assert len(granted) == len(set(granted))
    assert book.epoch_latest >= max([0, *granted, *epochs])
    epochs.append(book.epoch_latest)
    open_keys = [duty.key for duty in book.obligations.values() if duty.open and duty.key is not None]
    assert len(open_keys) == len(set(open_keys))
    for record in book.records.values():
        owed = book.duties(record.id)
        if record.phase in LIVE and record.phase is not Phase.DECLARED:
            assert len(owed) == 1
        if record.phase not in LIVE:
            assert owed == ()
    assert all(held.exposure_micros >= 0 for held in book.reservations.values())


def check_file(sql: Connection, book: Book) -> None:
    marked = sql.execute(
        text(
            "SELECT c.request, count(o.id) AS duties FROM creates c LEFT JOIN obligations o ON o.request = c.request"
            " AND o.deployment = c.deployment WHERE c.submitting_at_ms IS NOT NULL GROUP BY c.request"
        )
    )
    assert all(row.duties == 1 for row in marked)
    lost = sql.execute(
        text(
            "SELECT count(*) FROM obligations o JOIN creates c ON c.request = o.request AND c.deployment = o.deployment"
            " WHERE o.ending = 'void' AND c.answer IN ('accepted', 'unknown')"
        )
    )
    assert lost.scalar_one() == 0
    lines = [json.loads(row.line) for row in sql.execute(text("SELECT line FROM evidence ORDER BY seq"))]
    assert [line["seq"] for line in lines] == list(range(1, book.seq_latest + 1))
    assert verify(lines, BEFORE_THE_FIRST) is None
    assert book.hash_latest == (lines[-1]["hash"] if lines else BEFORE_THE_FIRST)
    ended = [line for line in lines if line["event"] == "obligation.discharged"]
    assert all(line["evidence"]["reference"] for line in ended)


async def take(store: Store, step: Step, number: int) -> None:
    before = store.book
    try:
        await store.write(lambda tx: step(tx, number))
    except (Refusal, Stale, ledger.BudgetExhausted):
        assert store.book is before


async def play(folder: Path, steps: list[tuple[str, int, int]]) -> None:
    clock, epochs = HandClock(T0), [0]
    store = await open_store(folder, clock, threads=False)
    try:
        for name, number, seconds in steps:
            clock.move(seconds * S)
            await take(store, STEPS[name], number)
            check_book(store.book, epochs)
        expected = shown(trimmed(store.book, clock.now()))
        await store.read(lambda sql: check_file(sql, store.book))
    finally:
        await store.close()
    async with opened(folder, clock, threads=False) as anew:
        assert shown(anew.book) == expected


# Mostly the ordinary way of a deployment, with everything else in between.
USUAL = ("begin", "accept", "ready", "accept", "lose", "adopt", "require stop", "mark stop", "stop answer", "discharge")
step_names = st.one_of(st.sampled_from(USUAL), st.sampled_from(sorted(STEPS)))


@settings(max_examples=10, deadline=None)
@given(st.lists(st.tuples(step_names, st.integers(0, 30), st.sampled_from([0, 1, 61, 40_000])), max_size=40))
def test_whatever_was_done_the_book_is_what_a_new_process_reads(steps: list[tuple[str, int, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run_virtual(lambda: play(Path(folder), steps))


ENDS = [("begin", 0, 0), ("accept", 0, 0), ("confirm", 0, 0)]  # in slot 0 of m0
DAYS_PASS = [("alarm", 0, 40_000), ("alarm", 1, 40_000), ("alarm", 2, 40_000)]
BESIDE = [("begin", 2, 0)]  # in slot 2 of m0
AS_FOUND = [
    *(("begin", number, 0) for number in range(5)),
    *(("accept", 14, 0), ("confirm", 28, 0), ("begin", 0, 40_000), ("begin", 0, 40_000), ("begin", 0, 40_000)),
]


@pytest.mark.parametrize(
    "steps",
    [ENDS + BESIDE + DAYS_PASS, ENDS + DAYS_PASS + BESIDE, ENDS + DAYS_PASS, AS_FOUND],
    ids=["another slot lived all the time", "lived again later", "never lived again", "as found"],
)
def test_the_last_end_of_a_slot_days_ago_is_in_the_book_as_in_the_one_of_a_new_process(
    tmp_path: Path, steps: list[tuple[str, int, int]]
) -> None:
    run_virtual(lambda: play(tmp_path, steps))


def test_an_obligation_ends_with_one_of_its_three_words() -> None:
    assert {ending.value for ending in Ending} == {"discharged", "transferred", "void"}
