"""Who is granted a stream lease, what stays counted, and what is written."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

from controller.api.client import Problem
from controller.core.deployment import Record
from controller.core.evidence import StopReason
from controller.core.identity import DeploymentId
from controller.store import deployments, owing
from controller.store.errors import StoreUnwritable
from controller.store.transaction import Tx
from tests.api.world import World, world
from tests.core.samples import model_policy
from tests.support.stores import unwritable

QWEN = DeploymentId("qwen-1")


async def require_stop(house: World) -> None:
    drain = house.store.now + timedelta(minutes=10)
    await house.store.write(
        lambda tx: deployments.require_stop(tx, house.record(), StopReason.OPERATOR_REQUEST, drain_until=drain)
    )


def count_writes(house: World) -> list[int]:
    """Grows with each write transaction from now on."""
    seen: list[int] = []
    house.store.on_change(lambda: seen.append(1))
    return seen


async def test_what_serves_is_granted_and_counted(house: World) -> None:
    await house.serve()
    granted, refused = await house.lease(house.streams(open=2))
    assert (granted, refused, house.open_requests()) == ({"qwen-1"}, set(), 2)


async def test_a_grant_goes_through_a_transaction_and_a_renewal_does_not(house: World) -> None:
    await house.serve()
    writes = count_writes(house)
    await house.lease(house.streams())
    assert len(writes) == 1
    house.clock.advance(timedelta(seconds=10))
    await house.lease(house.streams(idle=timedelta(seconds=10)))
    assert len(writes) == 1


async def test_a_lapsed_lease_is_granted_anew_in_a_transaction(house: World) -> None:
    await house.serve()
    await house.lease(house.streams())
    house.clock.advance(timedelta(seconds=31))
    writes = count_writes(house)
    await house.lease(house.streams(idle=timedelta(seconds=31)))
    assert len(writes) == 1


async def test_a_stop_that_is_decided_first_refuses_the_lease(house: World) -> None:
    await house.serve()
    answers: list[tuple[set[str], set[str]]] = []
    async with anyio.create_task_group() as group:

        def stop(tx: Tx) -> None:
            group.start_soon(ask)
            deployments.require_stop(tx, tx.record(QWEN), StopReason.IDLE)

        async def ask() -> None:
            answers.append(await house.lease(house.streams()))

        await house.store.write(stop)
    assert answers[0][1] == {"qwen-1"}
    assert house.open_requests() == 0


@pytest.mark.parametrize("changes", [{"epoch": 99}, {"deployment": "qwen-9"}])
async def test_another_epoch_and_an_unknown_deployment_are_refused_and_not_counted(
    house: World, changes: dict[str, Any]
) -> None:
    await house.serve()
    granted, refused = await house.lease(house.streams(**changes))
    assert (len(refused), granted, house.open_requests()) == (1, set(), 0)


async def test_what_is_starting_is_refused(house: World) -> None:
    await house.request()
    assert (await house.lease(house.streams()))[1] == {"qwen-1"}


async def test_open_requests_stay_counted_while_it_drains_and_no_new_ones_are_granted(house: World) -> None:
    await house.serve()
    await house.lease(house.streams())
    await require_stop(house)
    _, refused = await house.lease(house.streams())
    assert (refused, house.open_requests()) == ({"qwen-1"}, 1)


async def test_a_newcomer_does_not_hold_up_a_drain(house: World) -> None:
    await house.serve()
    await require_stop(house)
    await house.lease(house.streams(), gateway="g-2")
    assert house.open_requests() == 0


async def test_a_stream_that_was_begun_under_a_former_run_stays_counted(house: World) -> None:
    """A restart raises the epoch and forgets the leases; the requests go on."""
    record = await house.serve()
    await house.store.write(lambda tx: tx.put_record(_with_epoch(tx, record.epoch + 1)))
    _, refused = await house.lease(house.streams(epoch=record.epoch))
    assert (refused, house.open_requests()) == ({"qwen-1"}, 1)


async def test_old_and_new_epoch_of_one_deployment_are_one_granted_lease(house: World) -> None:
    record = await house.serve()
    await house.store.write(lambda tx: tx.put_record(_with_epoch(tx, record.epoch + 1)))
    granted, refused = await house.lease(
        house.streams(epoch=record.epoch, open=2), house.streams(epoch=record.epoch + 1)
    )
    assert (granted, refused, house.open_requests()) == ({"qwen-1"}, set(), 3)


def _with_epoch(tx: Tx, epoch: int) -> Record:
    return replace(tx.record(QWEN), epoch=epoch)


async def test_a_list_replaces_the_one_before(house: World) -> None:
    await house.serve()
    await house.lease(house.streams())
    await house.lease()
    assert house.open_requests() == 0


async def test_the_last_byte_is_stored_when_use_ends(house: World) -> None:
    await house.serve()
    await house.lease(house.streams())
    house.clock.advance(timedelta(seconds=9))
    await house.lease(house.streams(open=0, idle=timedelta(seconds=2), bytes_seen=True))
    assert house.record().last_byte_at == house.clock.now() - timedelta(seconds=2)


async def test_the_last_byte_is_stored_when_a_gateway_leaves_it_out(house: World) -> None:
    await house.serve()
    house.clock.advance(timedelta(seconds=5))
    await house.lease(house.streams())
    began = house.clock.now()
    house.clock.advance(timedelta(seconds=5))
    await house.lease()
    assert house.record().last_byte_at == began


@pytest.mark.parametrize(("seconds", "stored"), [(59, False), (60, True)])
async def test_the_last_byte_of_a_long_use_is_stored_once_a_minute(house: World, seconds: int, stored: bool) -> None:
    await house.serve()
    for _ in range(3):
        house.clock.advance(timedelta(seconds=seconds / 3))
        await house.lease(house.streams(bytes_seen=True))
    assert (house.record().last_byte_at is not None) is stored


async def test_the_end_of_the_last_open_request_wakes_the_tasks(house: World) -> None:
    await house.serve()
    await house.lease(house.streams())
    await require_stop(house)
    rung = house.rung
    await house.lease(house.streams(open=1))
    assert house.rung == rung
    await house.lease(house.streams(open=0))
    assert house.rung == rung + 1


@pytest.mark.parametrize(("drains", "times"), [(True, 1), (False, 0)])
async def test_a_gateway_that_lets_go_of_what_drains_wakes_the_tasks(house: World, drains: bool, times: int) -> None:
    await house.serve()
    await house.lease(house.streams())
    await house.lease(house.streams(open=0))
    if drains:
        await require_stop(house)
    rung = house.rung
    await house.lease()
    assert house.rung == rung + times


async def test_a_lease_that_cannot_be_written_is_granted_and_counted_all_the_same(
    house: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An idle stop that came first when the disk takes writes again would cut it off."""
    await house.serve()
    monkeypatch.setattr(house.store, "write", fail)
    assert await house.lease(house.streams()) == ({"qwen-1"}, set())
    assert house.open_requests() == 1


async def test_what_is_being_stopped_is_refused_though_nothing_can_be_written(tmp_path: Path) -> None:
    async with world(tmp_path, models=(model_policy(slots=2),)) as house:
        await house.serve("qwen-1", incarnation="p1")
        await house.serve("qwen-2", incarnation="p2", slot=1)
        with unwritable(tmp_path):
            await owing.oblige(house.store, house.record("qwen-1"), StopReason.IDLE)
            assert await house.lease(house.streams("qwen-1"), house.streams("qwen-2")) == ({"qwen-2"}, {"qwen-1"})
        assert (house.open_requests("qwen-1"), house.open_requests("qwen-2")) == (0, 1)


async def test_a_renewal_whose_last_byte_cannot_be_written_is_a_renewal(
    house: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by the simulation: while the store was locked, leases of long streams lapsed."""
    await house.serve()
    await house.lease(house.streams())
    monkeypatch.setattr(house.store, "write", fail)
    for _ in range(7):
        house.clock.advance(timedelta(seconds=10))
        assert await house.lease(house.streams(bytes_seen=True)) == ({"qwen-1"}, set())
    assert house.open_requests() == 1
    assert house.panel.stream_leases.last_byte_at(QWEN) == house.clock.now()


async def test_a_last_byte_that_could_not_be_stored_is_kept_when_its_use_has_ended(
    house: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by the simulation (seed 6009): what was used while the store was locked was idled out when it was not."""
    await house.serve()
    await house.lease(house.streams())
    house.clock.advance(timedelta(seconds=20))
    used_at = house.clock.now()
    with monkeypatch.context() as locked:
        locked.setattr(house.store, "write", fail)
        await house.lease(house.streams(open=0, bytes_seen=True))
        await house.gateway.put_stream_leases("g-1", [])
    assert house.record().last_byte_at is None
    assert house.panel.stream_leases.last_byte_at(QWEN) == used_at


async def fail(work: object) -> None:
    raise StoreUnwritable("disk full")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"open": -1}, "open"),
        ({"open": True}, "open"),
        ({"epoch": "1"}, "epoch"),
        ({"idle_seconds": -0.1}, "idle_seconds"),
        ({"idle_seconds": None}, "idle_seconds"),
        ({"idle_seconds": float("nan")}, "idle_seconds"),
        ({"bytes_seen": 1}, "bytes_seen"),
        ({"deployment": ""}, "deployment"),
    ],
)
async def test_a_wrong_field_is_named_and_changes_nothing(house: World, changes: dict[str, object], field: str) -> None:
    await house.serve()
    good = house.streams().as_json()
    with pytest.raises(Problem) as caught:
        await house.gateway._ask("PUT", "/v1/stream-leases/g-1", {"leases": [{**good, **changes}]}, timedelta(5))
    assert (caught.value.status, caught.value.code) == (400, "bad_request")
    assert caught.value.detail.startswith(f"{field}:")
    assert house.open_requests() == 0
