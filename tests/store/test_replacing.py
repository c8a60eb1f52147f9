"""Is it written that one makes way for another only while what that rests on is unchanged?"""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path

import pytest

from controller.core.deployment import Record
from controller.core.evidence import StopReason
from controller.core.identity import DeploymentId
from controller.core.lifecycle import Phase
from controller.store import deployments, owing, replacing
from controller.store.deployments import Declaration
from controller.store.errors import Stale
from controller.store.store import Store
from controller.store.transaction import Tx
from tests.core.samples import spec, wish
from tests.store.samples import HOLDER, POLICY, accept, made, opened
from tests.support.clocks import HandClock

OLD, NEW = DeploymentId("qwen-1"), DeploymentId("qwen-2")


def serve(tx: Tx) -> Record:
    return deployments.record_ready(tx, accept(tx))


def succeed(tx: Tx) -> Record:
    """`qwen-2` serves, and was made to replace `qwen-1`."""
    asked = wish(spec=spec(id=NEW), replaces=OLD)
    planned = deployments.declare(
        tx, Declaration(wish=asked, offer="L40S", ceiling=Decimal(1), holder=HOLDER), policy=POLICY
    )
    create = deployments.mark_submitting(tx, planned.create.request, holder=HOLDER)
    accepted = deployments.record_accepted(tx, create, made(tx, create.request, "p2"))
    return deployments.record_ready(tx, accepted)


def record(store: Store, name: DeploymentId = OLD) -> Record:
    return store.book.records[name]


async def test_what_serves_is_asked_once_and_keeps_when_it_was(tmp_path: Path) -> None:
    clock = HandClock()
    async with opened(tmp_path, clock) as store:
        await store.write(serve)
        found = []
        for _ in range(2):
            asked = await store.write(lambda tx: replacing.ask_restart(tx, [OLD, DeploymentId("nobody")]))
            assert asked == [OLD]
            found.append(record(store))
            clock.move(timedelta(seconds=1))
        assert found == [record(store)] * 2
        assert record(store).restart_asked_at == store.now - timedelta(seconds=2)


async def test_what_starts_and_what_is_a_successor_is_not_asked(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        await store.write(accept)
        assert await store.write(lambda tx: replacing.ask_restart(tx, [OLD])) == []
        await store.write(lambda tx: deployments.record_ready(tx, record(store)))
        await store.write(succeed)
        assert await store.write(lambda tx: replacing.ask_restart(tx, [OLD, NEW])) == [OLD]
        assert (record(store, NEW).restart_asked_at, record(store).restart_asked_at) == (None, store.now)


async def test_a_proof_is_kept_of_a_successor_that_serves_once_and_in_its_epoch(tmp_path: Path) -> None:
    clock = HandClock()
    async with opened(tmp_path, clock) as store:
        await store.write(serve)
        epoch = (await store.write(succeed)).epoch
        for name, of_epoch in ((OLD, record(store).epoch), (NEW, epoch + 1), (DeploymentId("nobody"), epoch)):
            await store.write(partial(replacing.note_proven, name=name, epoch=of_epoch))
        assert [each.proven_at for each in store.book.records.values()] == [None, None]
        proved = store.now
        for _ in range(2):
            await store.write(lambda tx: replacing.note_proven(tx, NEW, epoch=epoch))
            clock.move(timedelta(seconds=1))
        assert record(store, NEW).proven_at == proved
        assert record(store).proven_at is None


async def test_one_that_was_stopped_is_proven_no_more(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        await store.write(serve)
        new = await store.write(succeed)
        await owing.oblige(store, new, StopReason.HUNG)
        await store.write(lambda tx: replacing.note_proven(tx, NEW, epoch=new.epoch))
        assert record(store, NEW).proven_at is None


async def test_the_old_one_is_owed_its_stop_only_while_its_successor_is_what_it_was(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        await store.write(serve)
        new, old, until = await store.write(succeed), record(store), store.now + timedelta(minutes=5)
        for changed in (replace(new, version=new.version - 1), replace(new, spec=spec(id=DeploymentId("nobody")))):
            with pytest.raises(Stale, match=changed.id):
                await owing.oblige_by(store, replacing.retirement(old, changed, drain_until=until))
        assert record(store) == old
        await owing.oblige_by(store, replacing.retirement(old, new, drain_until=until))
        ended = record(store)
        assert (ended.phase, ended.reason, ended.drain_until) == (Phase.STOP_REQUIRED, StopReason.REPLACED, until)
