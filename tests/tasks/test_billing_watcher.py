"""Is what is billed after its end owed again, and only that?"""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from controller.core.billing import Bill, Bucket
from controller.core.deployment import Record
from controller.core.evidence import EvidenceKind, StopReason
from controller.store import deployments
from controller.tasks.billing_watcher import DENIED, BillingWatcher
from tests.store.samples import proof
from tests.tasks.world import Bench, on_bench

HOUR = timedelta(hours=1)


def watcher(bench: Bench) -> BillingWatcher:
    return BillingWatcher(store=bench.store, view=bench.view, policy=bench.policy, holder=bench.holder)


async def gone(bench: Bench) -> Record:
    """Served, and proven gone at noon."""
    record = await bench.serve()
    duty = await bench.require_stop(record)
    await bench.store.write(lambda tx: deployments.discharge(tx, duty.id, proof("listing 9")))
    return record


def show(bench: Bench, record: Record, *begins: datetime, problem: str | None = None, denied: bool = False) -> None:
    assert record.key is not None
    buckets = tuple(
        Bucket(incarnation=record.key.incarnation, begin=at, end=at + HOUR, micros=790_000) for at in begins
    )
    now = bench.clock.now()
    bill = Bill(since=now - 9 * HOUR, asked_at=now, buckets=buckets, problem=problem, denied=denied)
    bench.view.publish(replace(bench.view.value, bill=bill))


def hour(bench: Bench) -> datetime:
    return bench.clock.now().replace(minute=0, second=0, microsecond=0)


@on_bench
async def test_what_is_billed_after_its_end_is_owed_on_the_same_key_before_any_stop_leaves(bench: Bench) -> None:
    record = await gone(bench)
    await bench.move(3 * 3600)
    show(bench, record, hour(bench))
    await watcher(bench).run_pass()
    await watcher(bench).run_pass()
    (duty,) = bench.store.book.owed()
    assert (duty.key, duty.reason, duty.stop_attempts) == (record.key, StopReason.BILLED_AFTER_STOP, 0)
    (opened,) = [line for line in await bench.events("obligation.opened") if line["obligation"] == duty.id]
    assert opened["detail"]["billed_usd"] == "0.79"


@pytest.mark.parametrize("spoilt", ["unread", "doubted", "held"])
@on_bench
async def test_nothing_is_owed_for_a_bill_that_says_nothing_or_for_what_is_held(bench: Bench, spoilt: str) -> None:
    record = await (bench.serve() if spoilt == "held" else gone(bench))
    await bench.move(3 * 3600)
    show(bench, record, hour(bench), problem="half of it" if spoilt == "unread" else None)
    if spoilt == "doubted":
        doubted = replace(bench.store.book.account, trusted=False)
        await bench.store.write(lambda tx: tx.put_account(doubted))
    await watcher(bench).run_pass()
    assert bench.store.book.owed() == ()


@on_bench
async def test_a_quiet_bill_ends_it_and_a_later_hour_opens_it_again(bench: Bench) -> None:
    record = await gone(bench)
    await bench.move(3 * 3600)
    last = hour(bench)
    show(bench, record, last)
    await watcher(bench).run_pass()
    (duty,) = bench.store.book.owed()
    await bench.move(3 * 3600)
    show(bench, record, last)
    await watcher(bench).run_pass()
    assert len(bench.store.book.owed()) == 1
    await bench.move(2 * 3600)
    show(bench, record, last)
    await watcher(bench).run_pass()
    (line,) = [line for line in await bench.events("obligation.discharged") if line["obligation"] == duty.id]
    assert line["evidence"]["kind"] == EvidenceKind.BILLING_QUIET.value
    await bench.move(3 * 3600)
    show(bench, record, last, hour(bench))
    await watcher(bench).run_pass()
    assert len(bench.store.book.owed()) == 1


@on_bench
async def test_a_key_that_may_not_read_the_bill_is_told_once_and_held_against_nobody(bench: Bench) -> None:
    record = await gone(bench)
    for _ in range(2):
        show(bench, record, problem="refused", denied=True)
        await watcher(bench).run_pass()
    assert len(await bench.events("alarm.raised")) == 1
    assert (bench.store.book.owed(), [name for name, _ in bench.store.book.alarms]) == ((), [DENIED])
    show(bench, record)
    await watcher(bench).run_pass()
    assert bench.store.book.alarms == {}


@on_bench
async def test_an_end_that_the_bill_bears_out_is_told_once_also_by_the_next_daemon(bench: Bench) -> None:
    record = await gone(bench)
    last = hour(bench)
    await bench.move(6 * 3600)
    show(bench, record, last)
    await watcher(bench).run_pass()
    await watcher(bench).run_pass()
    await bench.restart()
    show(bench, record, last)
    await watcher(bench).run_pass()
    (line,) = await bench.events("obligation.corroborated")
    assert record.key is not None
    assert (line["evidence"]["kind"], line["resource"]["incarnation"]) == ("billing-quiet", record.key.incarnation)
    assert bench.store.book.owed() == ()


@on_bench
async def test_a_quiet_bill_ends_no_ordinary_duty_and_bears_out_no_end_that_is_not_proven(bench: Bench) -> None:
    record = await bench.serve()
    await bench.require_stop(record)
    last = hour(bench)
    await bench.move(20 * 3600)
    show(bench, record, last)
    await watcher(bench).run_pass()
    assert len(bench.store.book.owed()) == 1
    assert await bench.events("obligation.corroborated") == []


@on_bench
async def test_an_account_in_doubt_bears_nothing_out(bench: Bench) -> None:
    record = await gone(bench)
    last = hour(bench)
    await bench.move(6 * 3600)
    doubted = replace(bench.store.book.account, trusted=False)
    await bench.store.write(lambda tx: tx.put_account(doubted))
    show(bench, record, last)
    await watcher(bench).run_pass()
    assert await bench.events("obligation.corroborated") == []


@on_bench
async def test_before_a_bill_was_read_nothing_is_made_of_it(bench: Bench) -> None:
    await gone(bench)
    before = await bench.lines()
    assert await watcher(bench).run_pass() is None
    assert await bench.lines() == before
