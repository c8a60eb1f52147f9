"""How long does matching wait for gateways and listings, and what does it never take for a lost record's?"""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from controller.core.evidence import StopReason
from controller.core.identity import DeploymentId, RequestId, Tags
from controller.store import deployments, duties
from controller.store.restoring import Older, take_up
from controller.store.store import Store
from controller.store.stream_leases import StreamLease
from tests.store.samples import proof
from tests.tasks.observing import key_of
from tests.tasks.test_orphan_sweeper import GRACE_S, sweeper
from tests.tasks.test_restore_matcher import matcher, passed
from tests.tasks.world import Bench, on_bench

LOST = {RequestId("rlost"): DeploymentId("qwen-lost")}


async def old_copy(bench: Bench) -> None:
    await bench.store.write(lambda tx: take_up(tx, Older(why="told")))


def forgotten(bench: Bench, request: str = "rlost", **changes: Any) -> None:
    bench.stray(request, tags=bench.tags(request, epoch=3), **{"alias": "qwen", **changes})


def streams(bench: Bench, name: str) -> None:
    """A gateway holds it open, and this store never gave it."""
    lease = StreamLease(deployment=DeploymentId(name), epoch=9, open_requests=1, last_byte_at=bench.clock.now())
    bench.leases.put_strange("g1", [lease], now=bench.clock.now())


def live(bench: Bench) -> list[str]:
    return sorted(record.id for record in bench.store.book.live())


# Gateways


@pytest.mark.parametrize(("after_s", "adopted"), [(29.999, 0), (30, 1)])
@on_bench
async def test_what_nobody_knows_the_name_of_waits_until_gateways_have_told(
    bench: Bench, after_s: float, adopted: int
) -> None:
    await old_copy(bench)
    forgotten(bench)
    task = matcher(bench)
    await passed(bench, task, after_s=after_s)
    assert len(live(bench)) == adopted


@pytest.mark.parametrize(("after_s", "adopted"), [(29.999, 0), (30, 1)])
@on_bench
async def test_after_a_pause_of_ours_gateways_have_their_time_anew(bench: Bench, after_s: float, adopted: int) -> None:
    await old_copy(bench)
    task = matcher(bench)
    await bench.move(3600)
    forgotten(bench)
    bench.store.clock.resumed_at = bench.clock.now()
    await passed(bench, task, after_s=after_s)
    assert len(live(bench)) == adopted


@on_bench
async def test_a_pass_says_until_when_gateways_may_tell_and_needs_no_listing(bench: Bench) -> None:
    task = matcher(bench)
    assert await task.run_pass() == bench.clock.now() + timedelta(seconds=30)
    await bench.move(30)
    assert await task.run_pass() is None
    assert bench.store.book.matching_since is None


@pytest.mark.parametrize(("name", "adopted"), [("qwen-lost", ["qwen-lost"]), ("other-lost", [])])
@on_bench
async def test_only_a_stream_of_its_own_model_names_it_at_once(bench: Bench, name: str, adopted: list[str]) -> None:
    await old_copy(bench)
    forgotten(bench)
    streams(bench, name)
    await passed(bench, matcher(bench))
    assert live(bench) == adopted


@on_bench
async def test_a_stream_of_what_this_store_once_had_names_nothing(bench: Bench) -> None:
    record = await bench.serve()
    (seen,) = bench.provider.resources
    duty = await bench.require_stop(record)
    await bench.store.write(lambda tx: deployments.discharge(tx, duty.id, proof("listing 9")))
    bench.provider.vanish(seen.key)
    await old_copy(bench)
    forgotten(bench)
    streams(bench, record.id)
    await passed(bench, matcher(bench))
    assert live(bench) == []


@pytest.mark.parametrize(
    ("shown", "adopted"), [({}, ["qwen-lost"]), ({"alias": "other"}, []), ({"namespaced": False}, [])]
)
@on_bench
async def test_a_stream_vouches_for_what_is_named_as_its_model_s_and_shows_no_marks(
    bench: Bench, shown: dict[str, Any], adopted: list[str]
) -> None:
    await old_copy(bench)
    bench.stray(tags=Tags(request=RequestId("rlost")), **{"alias": "qwen", **shown})
    streams(bench, "qwen-lost")
    task = matcher(bench)
    await passed(bench, task)
    await passed(bench, task, after_s=120)
    assert (live(bench), bench.store.book.owed()) == (adopted, ())


# Listings


@pytest.mark.parametrize(("after_s", "over"), [(119.999, False), (120, True)])
@pytest.mark.parametrize("found", [False, True])
@on_bench
async def test_matching_ends_once_a_listing_shows_all_that_can_have_been_made(
    bench: Bench, after_s: float, over: bool, found: bool
) -> None:
    await old_copy(bench)
    task = matcher(bench, LOST)
    await bench.move(after_s)
    if found:
        forgotten(bench)
    await passed(bench, task)
    assert (len(live(bench)), bench.store.book.matching_since is None) == (int(found), over)


@pytest.mark.parametrize(("after_s", "over"), [(59.999, False), (60, True)])
@on_bench
async def test_a_restart_does_not_put_the_end_of_matching_off(bench: Bench, after_s: float, over: bool) -> None:
    await old_copy(bench)
    await bench.move(60)
    await bench.restart()
    await passed(bench, matcher(bench), after_s=after_s)
    assert (bench.store.book.matching_since is None) is over


@on_bench
async def test_matching_goes_on_while_one_waits_for_an_occupant_that_is_not_shown(bench: Bench) -> None:
    bench.provider.vanish(key_of(await bench.serve()))
    await old_copy(bench)
    forgotten(bench)
    task = matcher(bench)
    await bench.move(120)
    forgotten(bench, "rother", alias="removed")
    await passed(bench, task)
    assert [duty.request for duty in bench.store.book.owed()] == ["rother"]
    assert bench.store.book.matching_since is not None


@on_bench
async def test_two_that_were_forgotten_do_not_get_one_slot(bench: Bench) -> None:
    await old_copy(bench)
    forgotten(bench)
    forgotten(bench, "rother")
    task = matcher(bench, LOST | {RequestId("rother"): DeploymentId("qwen-other")})
    await passed(bench, task)
    assert len(live(bench)) == 1


@on_bench
async def test_what_waits_for_an_occupant_that_is_not_shown_is_not_swept_either(bench: Bench) -> None:
    bench.provider.vanish(key_of(await bench.serve()))
    await old_copy(bench)
    forgotten(bench)
    task, sweeping = matcher(bench), sweeper(bench)
    for _ in range(3):
        await passed(bench, task, after_s=GRACE_S)
        await sweeping.run_pass()
    assert (live(bench), bench.store.book.owed()) == (["qwen-1"], ())


@on_bench
async def test_what_was_owed_so_long_ago_that_the_book_forgot_it_betrays_nothing(bench: Bench) -> None:
    seen, holder, policy = bench.stray(), bench.holder, bench.policy
    duty = await bench.store.write(
        lambda tx: duties.open_stray(tx, seen, StopReason.ORPHAN, holder=holder, policy=policy)
    )
    await bench.store.write(lambda tx: deployments.discharge(tx, duty.id, proof("listing 9")))
    await bench.move(40 * 24 * 3600)
    await bench.restart()
    assert (bench.store.book.settled, bench.store.book.obligations) == ({}, {})
    bench.provider.put(replace(seen, tags=replace(seen.tags, epoch=70)))
    await passed(bench, matcher(bench))
    assert bench.store.book.matching_since is None


@on_bench
async def test_what_came_on_record_before_the_write_is_not_adopted_too(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await old_copy(bench)
    forgotten(bench)
    (seen,) = bench.provider.resources
    holder, policy, write = bench.holder, bench.policy, bench.store.write

    async def overtaken(store: Store, work: Any) -> Any:
        monkeypatch.undo()
        await write(lambda tx: duties.open_stray(tx, seen, StopReason.ORPHAN, holder=holder, policy=policy))
        return await write(work)

    await bench.look()
    monkeypatch.setattr(Store, "write", overtaken)
    await matcher(bench, LOST).run_pass()
    assert (live(bench), len(bench.store.book.owed())) == ([], 1)
