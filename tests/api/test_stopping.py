"""Is what an operator wants stopped owed, also where nothing can be written?"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from controller.api.client import Problem
from controller.core.evidence import StopReason
from controller.core.lifecycle import Phase
from controller.store import duties
from tests.api.world import HOLDER, POLICY, World, world
from tests.core.samples import key, model_policy, resource
from tests.support.stores import unwritable

DRAIN = timedelta(minutes=10)


@asynccontextmanager
async def town(folder: Path) -> AsyncIterator[World]:
    async with world(folder, models=(model_policy(), model_policy(alias="llama"))) as house:
        yield house


async def test_a_stop_that_cannot_be_written_is_owed_and_says_so_and_is_written_once_it_can(tmp_path: Path) -> None:
    async with town(tmp_path) as house:
        await house.serve()
        (duty,) = house.store.book.obligations
        with unwritable(tmp_path):
            answer = await house.operator.post("/v1/models/qwen/stop")
            record = house.record()
            assert (record.phase, record.reason) == (Phase.STOP_REQUIRED, StopReason.OPERATOR_REQUEST)
            assert record.drain_until == house.clock.now() + DRAIN
            assert answer["obligations"] == [duty]
            assert answer["unrecorded"] == "disk full"
            assert house.rung
        await house.store.write(lambda tx: tx.line("clock.jumped"))
        assert house.record() == record
        assert "unrecorded" not in await house.operator.post("/v1/models/qwen/stop")


async def test_a_stop_now_ends_a_drain_also_where_nothing_can_be_written(tmp_path: Path) -> None:
    async with town(tmp_path) as house:
        await house.serve()
        await house.operator.post("/v1/models/qwen/stop")
        with unwritable(tmp_path):
            answer = await house.operator.post("/v1/deployments/qwen-1/stop", {"now": True})
            assert len(answer["obligations"]) == 1
            assert house.record().drain_until is None


async def test_what_never_served_is_not_drained(tmp_path: Path) -> None:
    async with town(tmp_path) as house:
        await house.request()
        with unwritable(tmp_path):
            await house.operator.post("/v1/stop")
            assert (house.record().phase, house.record().drain_until) == (Phase.STOP_REQUIRED, None)


async def test_where_a_create_is_on_its_way_its_stop_has_to_wait_and_nothing_else_does(tmp_path: Path) -> None:
    async with town(tmp_path) as house:
        await house.serve()
        await house.submit("llama-1", model="llama")
        with unwritable(tmp_path), pytest.raises(Problem) as caught:
            await house.operator.post("/v1/stop")
        assert (caught.value.status, caught.value.code) == (503, "store_unavailable")
        assert "the stop of llama-1 has to be on record first" in caught.value.detail
        assert house.record().phase is Phase.STOP_REQUIRED
        assert house.rung


async def test_a_stop_of_all_names_what_no_deployment_holds_too(tmp_path: Path) -> None:
    async with town(tmp_path) as house:
        await house.serve()
        orphan, reason = resource(key=key("p9")), StopReason.ORPHAN
        await house.store.write(lambda tx: duties.open_stray(tx, orphan, reason, holder=HOLDER, policy=POLICY))
        with unwritable(tmp_path):
            answer = await house.operator.post("/v1/stop", {"now": True})
            assert set(answer["obligations"]) == set(house.store.book.obligations)
        assert len(answer["obligations"]) == 2
