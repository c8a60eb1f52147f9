"""Does each pass say truly whether something was left open, so that nothing is slept through that may decide?"""

from dataclasses import replace
from datetime import timedelta

from controller.core.deployment import ProviderState
from controller.core.identity import Tags
from controller.core.inventory import Present
from controller.core.view import View
from controller.providers.fake.adapter import Looked
from controller.store import replacing
from controller.tasks.account_guard import AccountGuard
from controller.tasks.idle_reaper import IdleReaper
from controller.tasks.lookout import Lookout
from controller.tasks.obligation_settler import ObligationSettler
from controller.tasks.orphan_sweeper import OrphanSweeper
from controller.tasks.reconciler import Reconciler
from controller.tasks.restore_matcher import RestoreMatcher
from tests.support.stores import unwritable
from tests.tasks.reconciling import asked, passed, reconciler
from tests.tasks.test_orphan_sweeper import sweeper
from tests.tasks.test_restore_matcher import matcher
from tests.tasks.world import Bench, on_bench


async def left_open(
    bench: Bench, task: AccountGuard | Lookout | OrphanSweeper | RestoreMatcher, *, look: bool = True
) -> bool:
    if look:
        await bench.move(15)
        await bench.look(judge=False)
    await task.run_pass()
    return task.left_open


def is_open(task: IdleReaper | Reconciler) -> bool:
    return task.left_open


@on_bench
async def test_a_listing_that_was_judged_is_settled_until_the_next(bench: Bench) -> None:
    await bench.serve()
    guard = AccountGuard(store=bench.store, view=bench.view)
    assert [await left_open(bench, guard), await left_open(bench, guard, look=False)] == [True, False]
    assert await left_open(bench, guard)


@on_bench
async def test_the_lookout_waits_for_a_complete_listing_while_none_is_there_or_an_alarm_stands(bench: Bench) -> None:
    lookout = Lookout(store=bench.store, view=bench.view, policy=bench.policy)
    assert not await left_open(bench, lookout)
    bench.provider.script.listings += [Looked.FAILED] * 2
    assert await left_open(bench, lookout)
    bench.provider.script.listings.clear()
    assert not await left_open(bench, lookout)
    for alarm, open_ in [("listing-failing", True), ("clock-disagrees", True), ("tags-hidden", False)]:
        await bench.store.write(lambda tx, alarm=alarm: tx.raise_alarm(alarm, subject="main", detail="x"))  # type: ignore[misc]
        assert await left_open(bench, lookout, look=False) is open_
        await left_open(bench, lookout)
        assert bench.alarms(alarm) == []


@on_bench
async def test_a_duty_is_in_question_while_it_is_due_or_what_it_is_for_is_missing(bench: Bench) -> None:
    record = await bench.serve()
    executor = await bench.executor()
    settler = ObligationSettler(
        store=bench.store, view=bench.view, stream_leases=bench.leases, executor=executor, policy=bench.policy
    )

    async def in_question() -> bool:
        await bench.move(60)
        await bench.look()
        await settler.run_pass()
        return settler.left_open

    assert not await in_question()
    bench.provider.script.listings += [Looked.EMPTY]
    assert await in_question()  # absent from one complete listing, and read beside it
    await bench.lose("qwen-2", slot=1)
    assert await in_question()  # nobody knows what that create made
    await bench.require_stop(record)
    assert await in_question()


@on_bench
async def test_what_a_read_says_of_it_ends_a_duty_though_listings_show_it(bench: Bench) -> None:
    record, executor = await bench.serve(), await bench.executor()
    assert record.key is not None
    settler = ObligationSettler(
        store=bench.store, view=bench.view, stream_leases=bench.leases, executor=executor, policy=bench.policy
    )
    over = replace(bench.provider.described(record.key, tags=bench.tags()), state=ProviderState.TERMINATED)
    bench.view.publish(View(reads={record.key: Present(resource=over, observed_at=bench.clock.now())}))
    await settler.run_pass()
    assert settler.left_open
    assert not bench.duty(record).open


@on_bench
async def test_another_s_that_was_counted_is_settled_and_ours_is_not(bench: Bench) -> None:
    await bench.serve()
    task = sweeper(bench)
    assert not await left_open(bench, task)
    bench.stray("f1", tags=Tags(owner="else"))
    bench.stray("f2", tags=Tags(), namespaced=False)
    assert await left_open(bench, task)
    assert not await left_open(bench, task)
    bench.stray("x1")
    assert await left_open(bench, task)
    assert await left_open(bench, task)
    assert [sighting.times for sighting in bench.store.book.sightings.values()] == [1, 1, 2]


@on_bench
async def test_what_is_remembered_and_gone_is_open_until_a_complete_listing_forgets_it(bench: Bench) -> None:
    seen, task = bench.stray("f1", tags=Tags(owner="else")), sweeper(bench)
    await left_open(bench, task)
    bench.provider.vanish(seen.key)
    bench.provider.script.listings += [Looked.PARTIAL]
    assert await left_open(bench, task)
    assert seen.key in bench.store.book.sightings
    assert await left_open(bench, task)
    assert seen.key not in bench.store.book.sightings
    assert not await left_open(bench, task)


@on_bench
async def test_a_store_that_is_matched_is_open_and_so_is_one_that_something_betrays(bench: Bench) -> None:
    await bench.serve()
    task = matcher(bench)
    assert not await left_open(bench, task)
    bench.stray(tags=bench.tags("rlost", epoch=70))
    assert await left_open(bench, task)
    assert bench.store.book.matching_since is not None
    assert await left_open(bench, task)


@on_bench
async def test_after_a_pause_the_reaper_waits_for_one_look_and_for_no_further_one(bench: Bench) -> None:
    record, model = await bench.serve(), replace(bench.model, idle_after=timedelta(minutes=10))
    reaper = IdleReaper(
        store=bench.store, view=bench.view, stream_leases=bench.leases, policy=bench.policy, models={"qwen": model}
    )
    await bench.look()
    await reaper.run_pass()
    assert not is_open(reaper)
    await bench.move(1)
    bench.store.clock.resumed_at = bench.clock.now()
    await reaper.run_pass()
    assert is_open(reaper)
    await bench.move(60)
    await bench.look()
    for still in (True, False):
        await reaper.run_pass()
        assert is_open(reaper) is still
    bench.store.clock.resumed_at = bench.clock.now() + timedelta(seconds=1)  # another pause
    await reaper.run_pass()
    assert is_open(reaper)
    assert record.phase == bench.record().phase


@on_bench
async def test_what_serves_is_settled_and_what_is_wanted_missing_or_lost_is_not(bench: Bench) -> None:
    task = await reconciler(bench)
    await asked(bench, task, look=False)
    assert is_open(task)  # no listing yet: it hangs on the next
    bench.wants.satisfied("qwen")
    record = await bench.serve()
    await passed(bench, task)
    await passed(bench, task)
    assert not is_open(task)
    bench.provider.script.listings += [Looked.EMPTY]
    await bench.move(60)
    await passed(bench, task)
    assert is_open(task)
    await bench.move(60)
    await passed(bench, task)
    assert not is_open(task)
    await bench.lose("qwen-2", slot=1)
    await passed(bench, task)
    assert is_open(task)
    assert bench.record().id == record.id


@on_bench
async def test_what_could_not_be_written_is_open(bench: Bench) -> None:
    task, _ = await reconciler(bench), await bench.serve()
    await bench.look()
    with unwritable(bench.folder):
        await passed(bench, task, look=False)
        assert is_open(task)
    await passed(bench, task, look=False)
    await passed(bench, task, look=False)
    assert not is_open(task)


@on_bench
async def test_a_replacement_under_way_is_open(bench: Bench) -> None:
    task, old = await reconciler(bench), await bench.serve()
    await bench.look()

    await bench.store.write(lambda tx: replacing.ask_restart(tx, [old.id]))
    await passed(bench, task)
    assert [record.replaces for record in bench.store.book.live()] == [None, old.id]
    await passed(bench, task, look=False)
    assert is_open(task)


@on_bench
async def test_what_is_seen_as_it_was_stays_the_very_same_value(bench: Bench) -> None:
    """Else everybody who looks at it would be woken by each listing."""
    await bench.serve()
    for _ in range(2):
        await bench.look()
        await bench.move(60)
    before, after = bench.view.value, await bench.look()
    assert after.listing is not before.listing
    assert (after.costs is before.costs, after.absences is before.absences) == (True, True)
    assert after.sighted is not before.sighted
