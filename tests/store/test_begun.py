"""Is a run that began told from another's, also where nobody saw whether its beginning was committed?"""

import sqlite3
from pathlib import Path

import pytest

from controller.core.evidence import StopReason
from controller.core.identity import DeploymentId
from controller.core.lifecycle import Phase
from controller.ids import SeededRandomness
from controller.store.errors import StoreTaken
from controller.store.store import Store
from controller.store.transaction import BEGUN
from tests.store.samples import accept, evidence_events, opened
from tests.support.clocks import HandClock
from tests.support.stores import IDENTITY
from tests.support.threadless_sqlite import ThreadlessConnection

NAME = DeploymentId("qwen-1")


class Unseen(ThreadlessConnection):
    """The disk is so slow, or fails so late, that what was committed is taken for lost."""

    async def commit(self) -> None:
        await super().commit()
        raise sqlite3.OperationalError("disk I/O error")


async def begun_unseen(folder: Path) -> Store:
    async with opened(folder, HandClock()) as store:
        await store.write(accept)
    path, unseen = folder / "store.db", [True]

    async def made() -> ThreadlessConnection:
        return Unseen(path) if unseen.pop() else ThreadlessConnection(path)

    unseen[:] = [False, True, False]  # the last comes first: it is opened, taken over, written
    store = await Store.open(path, identity=IDENTITY, clock=HandClock(), randomness=SeededRandomness(0), creator=made)
    await store._drop_connection()
    await store.take_over(lambda tx: tx.line(BEGUN))
    assert not store.taken_over
    return store


async def test_a_beginning_that_was_committed_unseen_is_our_own_and_is_told_once(tmp_path: Path) -> None:
    store = await begun_unseen(tmp_path)
    store.owe_unwritten(store.book.records[NAME], StopReason.OPERATOR_REQUEST)
    assert (await store.write(evidence_events)).count(BEGUN) == 1
    assert (store.taken_over, store.book.records[NAME].phase) == (True, Phase.STOP_REQUIRED)
    await store.close()


async def test_who_began_after_it_is_another(tmp_path: Path) -> None:
    store = await begun_unseen(tmp_path)
    (tmp_path / "store.db.lock").unlink()
    async with opened(tmp_path, HandClock()) as other:
        await other.take_over(lambda tx: tx.line(BEGUN))
        with pytest.raises(StoreTaken):
            await store.write(lambda tx: None)
    await store.close()
