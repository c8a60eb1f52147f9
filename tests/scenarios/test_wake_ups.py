"""Would a task be noticed that reads what it is not woken for?

Every scenario asks at its end whether some pass read a part of book or view that its task does not tell. Here the
question itself is tried: with each task's word taken away in turn, it has to be answered.
"""

import anyio
import pytest

from controller.news import Looks
from controller.tasks.account_guard import AccountGuard
from controller.tasks.crash_loop_detector import CrashLoopDetector
from controller.tasks.evidence_writer import EvidenceWriter
from controller.tasks.idle_reaper import IdleReaper
from controller.tasks.lease_keeper import LeaseKeeper
from controller.tasks.ledger_keeper import LedgerKeeper
from controller.tasks.lookout import Lookout
from controller.tasks.obligation_settler import ObligationSettler
from controller.tasks.observer import Observer
from controller.tasks.orphan_sweeper import OrphanSweeper
from controller.tasks.reconciler import Reconciler
from controller.tasks.restore_matcher import RestoreMatcher
from tests.scenarios.world import World, scenario


@pytest.mark.parametrize(
    "task",
    [
        AccountGuard,
        CrashLoopDetector,
        EvidenceWriter,
        IdleReaper,
        LeaseKeeper,
        LedgerKeeper,
        Lookout,
        ObligationSettler,
        Observer,
        OrphanSweeper,
        Reconciler,
        RestoreMatcher,
    ],
)
def test_a_task_that_tells_nothing_of_what_it_reads_is_found(task: type, monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.daemon():
            await anyio.sleep(30)

    monkeypatch.setattr(task, "looks_at", Looks())
    with pytest.raises(AssertionError, match="reads what it is not woken for"):
        scenario(play)


def test_a_machine_is_started_used_and_stopped_without_an_untold_read() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            assert (await box.chat(world)).status == 200
            await world.until(lambda: not world.alive(), within=600)

    scenario(play)
