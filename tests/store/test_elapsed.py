"""Is what time alone obliges on the books before any command is looked at, and stays there if it is refused? (HC-37)"""

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from controller.core.errors import Refusal, RefusalCode
from controller.core.evidence import StopReason
from controller.core.lifecycle import Phase
from controller.core.policy import HostingPolicy, LeaseExpiry
from controller.store import deployments, duties
from controller.store.elapsed import Ceilings
from controller.store.errors import Stale
from controller.store.store import Store
from controller.store.transaction import Tx
from tests.store.samples import HOLDER, POLICY, accept, declare, opened
from tests.support.clocks import NOON, HandClock

MS = timedelta(milliseconds=1)
LIFETIME = timedelta(hours=2)
SHORT = replace(POLICY, max_lifetime=LIFETIME, lease=timedelta(days=1))
STRICT = replace(POLICY, lease_expiry=LeaseExpiry.STOP)


@asynccontextmanager
async def serving(
    folder: Path, policy: HostingPolicy, *, ready: bool = False
) -> AsyncIterator[tuple[Store, HandClock]]:
    """A store with one deployment that was started at noon; time is asked about from then on."""
    clock = HandClock()
    async with opened(folder, clock) as store:
        record = await store.write(accept)
        if ready:
            await store.write(lambda tx: deployments.record_ready(tx, record))
        store.ceilings = Ceilings(policy=policy, drain_limits={"qwen": timedelta(minutes=7)})
        yield store, clock


def owed(store: Store) -> tuple[Phase, StopReason | None, bool]:
    (record,) = store.book.records.values()
    return record.phase, record.reason, bool(store.book.owed())


SERVES = (Phase.REQUESTED, None, False)
OUTLIVED = (Phase.STOP_REQUIRED, StopReason.LIFETIME_EXCEEDED, True)
LAPSED = (Phase.STOP_REQUIRED, StopReason.LEASE_EXPIRED, True)


@pytest.mark.parametrize(("late", "after"), [(timedelta(0), SERVES), (MS, OUTLIVED)])
async def test_a_command_after_the_lifetime_finds_the_stop_required(
    tmp_path: Path, late: timedelta, after: object
) -> None:
    async with serving(tmp_path, SHORT) as (store, clock):
        clock.move(LIFETIME + late)
        found = await store.write(lambda tx: [record.phase for record in tx.book.records.values()])
        assert (owed(store), found) == (after, [owed(store)[0]])


def too_late(tx: Tx) -> object:
    """Readiness comes after the deadline."""
    return deployments.record_ready(tx, tx.book.live()[0])


def refused(tx: Tx) -> object:
    """A second deployment of the slot."""
    return declare(tx, "qwen-2")


def failing(tx: Tx) -> object:
    raise RuntimeError("planted")


@pytest.mark.parametrize(("command", "error"), [(too_late, Stale), (refused, Refusal), (failing, RuntimeError)])
async def test_a_refused_command_takes_nothing_of_it_back(
    tmp_path: Path, command: Callable[[Tx], object], error: type[Exception]
) -> None:
    rung: list[bool] = []
    async with serving(tmp_path, SHORT) as (store, clock):
        store.on_change(lambda: rung.append(bool(store.book.owed())))
        clock.move(LIFETIME + MS)
        with pytest.raises(error):
            await store.write(command)
        assert owed(store) == OUTLIVED
    assert rung == [True]  # whoever sends stops is told, though the command came to nothing
    async with opened(tmp_path, clock) as store:
        assert owed(store) == OUTLIVED


async def test_a_stop_asked_for_after_the_lifetime_keeps_the_lifetime_as_its_reason(tmp_path: Path) -> None:
    async with serving(tmp_path, SHORT) as (store, clock):
        clock.move(LIFETIME + MS)
        await store.write(
            lambda tx: duties.require_stop_of(
                tx, tx.book.live()[0], StopReason.OPERATOR_REQUEST, now_at_once=True, policy=SHORT
            )
        )
        assert owed(store) == OUTLIVED


@pytest.mark.parametrize(("ready", "drain"), [(True, timedelta(minutes=7)), (False, None)])
async def test_what_serves_drains_as_its_model_says(tmp_path: Path, ready: bool, drain: timedelta | None) -> None:
    async with serving(tmp_path, SHORT, ready=ready) as (store, clock):
        clock.move(LIFETIME + MS)
        await store.write(lambda tx: None)
        (record,) = store.book.records.values()
    assert record.drain_until == (None if drain is None else NOON + LIFETIME + MS + drain)


@pytest.mark.parametrize(
    ("policy", "late", "after"),
    [
        (STRICT, timedelta(0), SERVES),
        (STRICT, MS, LAPSED),
        (POLICY, timedelta(days=1), SERVES),
        (replace(STRICT, max_lifetime=STRICT.lease), MS, OUTLIVED),
    ],
    ids=["live at its expiry", "dead after it", "taken anew by default", "the lifetime comes before the lease"],
)
async def test_a_lease_that_ran_out_obliges_a_stop_where_the_policy_says_so(
    tmp_path: Path, policy: HostingPolicy, late: timedelta, after: object
) -> None:
    async with serving(tmp_path, policy) as (store, clock):
        clock.move(policy.lease + late)
        await store.write(lambda tx: None)
        assert owed(store) == after


async def test_it_is_told_once(tmp_path: Path) -> None:
    async with serving(tmp_path, SHORT) as (store, clock):
        clock.move(LIFETIME + MS)
        await store.write(lambda tx: None)
        before = store.book
        await store.write(lambda tx: None)
        assert store.book is before


async def test_a_file_that_knows_better_keeps_no_command_away(tmp_path: Path) -> None:
    async with serving(tmp_path, SHORT) as (store, clock):
        with closing(sqlite3.connect(tmp_path / "store.db")) as other, other:
            other.execute("UPDATE deployments SET version = version + 1")
        clock.move(LIFETIME + MS)
        await store.write(lambda tx: None)
        await store.write(lambda tx: None)
        assert owed(store) == OUTLIVED


async def test_a_stop_is_still_fenced_by_the_lease_that_ran_out(tmp_path: Path) -> None:
    async with serving(tmp_path, STRICT) as (store, clock):
        clock.move(STRICT.lease + MS)
        (duty,) = store.book.obligations.values()
        with pytest.raises(Refusal) as refusal:
            await store.write(lambda tx: duties.mark_stop(tx, duty.id, holder=HOLDER))
        assert (refusal.value.code, owed(store)) == (RefusalCode.LEASE_LOST, LAPSED)
