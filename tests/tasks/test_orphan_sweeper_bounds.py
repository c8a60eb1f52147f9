"""Where exactly does the sweeper stop being concerned, and what does it tell and write no second time?"""

from dataclasses import replace
from datetime import timedelta

import pytest

from controller.core.deployment import CreateAnswer, SeenResource
from controller.core.evidence import StopReason
from controller.core.identity import Tags
from controller.store import deployments
from controller.store.deployments import Planned
from controller.store.restoring import Older, take_up
from controller.store.store import Store
from tests.store.samples import proof
from tests.tasks.test_orphan_sweeper import GRACE_S, copied, old, sweeper, swept
from tests.tasks.world import Bench, on_bench


async def settled(bench: Bench) -> SeenResource:
    """Served, stopped and proven gone; returns how it was seen."""
    record = await bench.serve()
    (seen,) = bench.provider.resources
    duty = await bench.require_stop(record)
    await bench.store.write(lambda tx: deployments.discharge(tx, duty.id, proof("listing 9")))
    return seen


async def refused(bench: Bench, *, made: bool) -> Planned:
    """Its only offer was refused, and the next one is not asked for yet; `made`: in truth there is a machine."""
    planned = await bench.submit()
    if made:
        await bench.provider.create(bench.order(planned))
    answer = CreateAnswer.REJECTED
    await bench.store.write(lambda tx: deployments.record_refused(tx, planned.create, answer, detail="none"))
    return planned


# Seen again


@pytest.mark.parametrize(("begun_ms", "owed"), [(-1, 0), (0, 1)])
@on_bench
async def test_a_listing_that_begins_in_the_instant_of_the_proof_shows_it_again(
    bench: Bench, begun_ms: int, owed: int
) -> None:
    await settled(bench)
    await bench.look()
    listing = bench.view.value.listing
    assert listing is not None
    shown = replace(listing, began_at=bench.clock.now() + timedelta(milliseconds=begun_ms))
    bench.view.publish(replace(bench.view.value, listing=shown))
    await sweeper(bench).run_pass()
    assert len(await bench.events("resource.reappeared")) == owed


@on_bench
async def test_what_was_settled_and_bears_another_owner_s_marks_by_now_is_left_alone(bench: Bench) -> None:
    seen = await settled(bench)
    bench.provider.put(replace(seen, tags=replace(seen.tags, owner="somebody")))
    task = sweeper(bench)
    await swept(bench, task, after_s=1)
    assert await swept(bench, task, after_s=GRACE_S) == []


@on_bench
async def test_a_second_resource_of_a_request_that_ended_well_has_its_grace(bench: Bench) -> None:
    seen = await settled(bench)
    bench.provider.vanish(seen.key)
    bench.stray(tags=seen.tags)
    task = sweeper(bench)
    assert await swept(bench, task, after_s=1) == []
    assert [duty.reason for duty in await swept(bench, task, after_s=GRACE_S)] == [StopReason.ORPHAN]


@on_bench
async def test_what_a_refused_create_made_after_all_has_its_grace_while_its_start_goes_on(bench: Bench) -> None:
    await refused(bench, made=True)
    task = sweeper(bench)
    assert await swept(bench, task, after_s=1) == []
    assert [duty.reason for duty in await swept(bench, task, after_s=GRACE_S)] == [StopReason.ORPHAN]


@on_bench
async def test_what_an_unanswered_create_may_have_made_is_no_longer_expected_once_a_machine_is_known(
    bench: Bench,
) -> None:
    record = await bench.lose(made=True)
    (seen,) = bench.provider.resources
    known = replace(seen.key, incarnation="another")
    await bench.store.write(lambda tx: tx.put_record(replace(tx.record(record.id), key=known)))
    task = sweeper(bench)
    await swept(bench, task)
    assert [duty.key for duty in await swept(bench, task, after_s=GRACE_S)] == [seen.key]


# Marks


@pytest.mark.parametrize("marks", ["never sent", "no name of ours", "of a cluster"])
@on_bench
async def test_a_request_id_alone_makes_nothing_ours_that_cannot_have_come_of_it(bench: Bench, marks: str) -> None:
    planned = await (bench.plan() if marks == "never sent" else bench.submit())
    if marks != "never sent":
        await bench.accept(planned)
    tags = Tags(request=planned.create.request)
    bench.stray(tags=tags, namespaced=marks != "no name of ours", cluster=marks == "of a cluster")
    task = sweeper(bench)
    await swept(bench, task)
    assert await swept(bench, task, after_s=GRACE_S) == []


@on_bench
async def test_without_a_listing_there_is_nothing_to_sweep(bench: Bench) -> None:
    assert await sweeper(bench).run_pass() is None


@on_bench
async def test_only_what_a_lost_record_can_explain_is_looked_up_in_the_past(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read for each thing that is somebody else's, in each pass, would hold up the rest."""
    await bench.store.write(lambda tx: take_up(tx, Older(why="told")))
    bench.stray(tags=Tags())
    reads: list[object] = []
    real = Store.read

    async def counted(store: Store, work: object) -> object:
        reads.append(work)
        return await real(store, work)  # type: ignore[arg-type]

    await bench.look()
    monkeypatch.setattr(Store, "read", counted)
    await sweeper(bench).run_pass()
    assert reads == []


# Told and written once


@on_bench
async def test_an_orphan_in_its_grace_is_written_at_its_first_two_sightings_alone(bench: Bench) -> None:
    bench.stray()
    task, found = sweeper(bench), []
    for _ in range(4):
        await swept(bench, task, after_s=15)
        found.append(bench.store.book.sightings)
    (first, second, third, fourth) = (next(iter(sightings.values())) for sightings in found)
    assert (first.times, second.times) == (1, 2)
    assert third is second
    assert fourth is second


@pytest.mark.parametrize(("lost", "told"), [(False, 1), (True, 0)])
@on_bench
async def test_two_of_one_request_are_told_once_where_one_of_them_is_on_record(
    bench: Bench, lost: bool, told: int
) -> None:
    if lost:
        await refused(bench, made=True)
    else:
        await bench.serve()
        (seen,) = bench.provider.resources
        bench.stray(tags=seen.tags)
    task = sweeper(bench)
    for _ in range(2):
        await swept(bench, task)
    bench.lock_store()  # a write would fail the pass
    await task.run_pass()
    assert len(bench.alarms("duplicate-tags")) == told


@on_bench
async def test_alarms_of_others_make_it_write_nothing(bench: Bench) -> None:
    await bench.store.write(lambda tx: tx.raise_alarm("another", subject="x", detail="scripted"))
    bench.lock_store()  # a write would fail the pass
    assert await swept(bench, sweeper(bench)) == []


# Another installation's


@on_bench
async def test_a_pass_says_when_another_installation_s_may_be_claimed(bench: Bench) -> None:
    old(bench, age=timedelta(days=300))
    await bench.look()
    assert await sweeper(bench).run_pass() == bench.clock.now() + timedelta(seconds=900)


@on_bench
async def test_all_of_an_installation_are_claimed_at_once(bench: Bench) -> None:
    seen, task = old(bench, age=timedelta(days=300)), sweeper(bench)
    second = bench.stray("x2", tags=seen.tags, created_at=seen.created_at, alias=None)
    await swept(bench, task)
    found = await swept(bench, task, after_s=900)
    assert {duty.key for duty in found} == {seen.key, second.key}
    assert len(await bench.events("resource.claimed")) == 2


@on_bench
async def test_the_alarm_ends_where_what_raised_it_bears_other_marks_by_now(bench: Bench) -> None:
    seen, task = bench.stray(tags=copied(bench)), sweeper(bench)
    await swept(bench, task)
    bench.provider.put(replace(seen, tags=replace(seen.tags, owner="somebody", installation=None)))
    await swept(bench, task, after_s=15)
    assert (bench.alarms("copied-installation"), list(bench.store.book.sightings)) == ([], [seen.key])
