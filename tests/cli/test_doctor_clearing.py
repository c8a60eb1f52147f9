"""Is all that a qualification rented owed its stop, on a disk that takes no writes too?"""

from collections.abc import Callable
from pathlib import Path

import pytest

from controller.cli.doctor.clearing import oblige_all
from controller.cli.doctor.trial import ALIAS
from controller.core.evidence import StopReason
from controller.core.identity import DeploymentId
from controller.core.lifecycle import Phase
from controller.store.errors import StoreUnwritable
from controller.store.transaction import Tx
from tests.store.samples import POLICY, accept, declare, lose, opened
from tests.support.clocks import HandClock
from tests.support.stores import unwritable

OURS, OTHER = DeploymentId("trial"), DeploymentId("qwen-1")


@pytest.mark.parametrize(
    ("step", "phase"), [(declare, Phase.CANCELLED), (accept, Phase.STOP_REQUIRED), (lose, Phase.STOP_REQUIRED)]
)
async def test_only_what_is_of_its_own_model_is_stopped(
    tmp_path: Path, step: Callable[..., object], phase: Phase
) -> None:
    async with opened(tmp_path, HandClock()) as store:
        await store.write(lambda tx: accept(tx, OTHER, "p9"))
        await store.write(lambda tx: step(tx, OURS, model=ALIAS))
        for _ in range(2):
            await oblige_all(store, policy=POLICY)
        assert (store.book.records[OURS].phase, store.book.records[OURS].drain_until) == (phase, None)
        assert store.book.records[OTHER].phase is Phase.REQUESTED


async def test_what_may_serve_is_owed_its_stop_where_nothing_can_be_written_too(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        await store.write(lambda tx: accept(tx, OURS, model=ALIAS))
        with unwritable(tmp_path):
            await oblige_all(store, policy=POLICY)
            (owed,) = store.book.owed()
            assert (owed.deployment, owed.reason) == (OURS, StopReason.OPERATOR_REQUEST)
        await oblige_all(store, policy=POLICY)
        assert store.book.records[OURS].phase is Phase.STOP_REQUIRED


async def test_what_has_to_be_told_first_is_told_to_be_in_the_way(tmp_path: Path) -> None:
    def declared(tx: Tx) -> None:
        declare(tx, OURS, model=ALIAS)

    async with opened(tmp_path, HandClock()) as store:
        await store.write(declared)
        with unwritable(tmp_path), pytest.raises(StoreUnwritable):
            await oblige_all(store, policy=POLICY)
        assert store.book.records[OURS].phase is Phase.DECLARED
