"""What follows from what a gateway saw."""

from pathlib import Path

import pytest

from controller.api.client import Problem
from controller.core.hang import Asked
from controller.core.lifecycle import Phase
from tests.api.world import World, world
from tests.support.stores import overtake, unwritable


async def test_a_proven_deployment_is_shown_as_proven(house: World) -> None:
    await house.serve()
    await house.report("proved")
    assert (await house.view())["routes"][0]["proven"] is True


async def test_what_was_proven_under_another_epoch_is_not_proven(house: World) -> None:
    await house.serve()
    await house.report("proved", epoch=house.record().epoch + 1)
    assert (await house.view())["routes"][0]["proven"] is False


async def test_a_token_asked_for_is_told_only_where_somebody_doubts(house: World) -> None:
    record = await house.serve()
    await house.report("no-token")
    assert house.panel.doubts.answer(record.id) is None
    house.panel.doubts.begin(record.id)
    assert (await house.view())["routes"][0]["doubted"] is True
    await house.report("no-token")
    assert house.panel.doubts.answer(record.id) == Asked(came=False, at=house.store.now)
    await house.report("proved")
    assert house.panel.doubts.answer(record.id) == Asked(came=True, at=house.store.now)
    assert house.record().phase is Phase.ACTIVE


@pytest.mark.parametrize("kind", ["key-refused", "served-model-mismatch"])
async def test_a_fault_of_the_machine_owes_its_stop(house: World, kind: str) -> None:
    await house.serve()
    await house.report(kind)
    record = house.record()
    assert record.phase is Phase.STOP_REQUIRED
    assert record.reason is not None
    assert record.reason.value == kind
    assert house.rung


async def test_a_fault_of_the_machine_owes_its_stop_also_where_nothing_can_be_written(tmp_path: Path) -> None:
    async with world(tmp_path) as house:
        await house.serve()
        with unwritable(tmp_path):
            await house.lease(house.streams(), gateway="g-2")
            await house.report("key-refused", gateway="g-1")
            assert house.record().phase is Phase.ACTIVE  # another gateway streams from there
            await house.report("key-refused", gateway="g-2")
            assert house.record().phase is Phase.STOP_REQUIRED


async def test_what_somebody_else_wrote_meanwhile_is_no_fault_of_the_report(tmp_path: Path) -> None:
    async with world(tmp_path) as house:
        await house.serve()
        overtake(tmp_path)
        await house.report("key-refused")
        assert house.record().phase is Phase.ACTIVE
        assert house.rung
        await house.report("key-refused")
        assert house.record().phase is Phase.STOP_REQUIRED


async def test_a_refused_key_is_a_hint_while_another_gateway_streams_from_there(house: World) -> None:
    await house.serve()
    await house.lease(house.streams(), gateway="g-2")
    await house.report("key-refused", gateway="g-1")
    assert house.record().phase is Phase.ACTIVE


async def test_a_gateways_own_streams_do_not_shield_the_machine(house: World) -> None:
    await house.serve()
    await house.lease(house.streams(), gateway="g-1")
    await house.report("key-refused", gateway="g-1")
    assert house.record().phase is Phase.STOP_REQUIRED


async def test_a_fault_seen_under_another_epoch_changes_nothing(house: World) -> None:
    await house.serve()
    await house.report("key-refused", epoch=house.record().epoch + 1)
    assert house.record().phase is Phase.ACTIVE


@pytest.mark.parametrize("kind", ["unreachable", "broken-stream"])
async def test_a_broken_connection_wakes_the_tasks_and_stops_nothing(house: World, kind: str) -> None:
    await house.serve()
    rung = house.rung
    await house.report(kind)
    assert (house.record().phase, house.rung) == (Phase.ACTIVE, rung + 1)


async def test_an_unknown_kind_is_refused_by_name(house: World) -> None:
    await house.serve()
    with pytest.raises(Problem) as caught:
        await house.report("odd")
    assert (caught.value.status, caught.value.detail.partition(":")[0]) == (400, "kind")
