"""Is an account that is not the one we knew noticed before its emptiness proves anything?"""

from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest

from controller.core.billing import Bucket
from controller.core.identity import ResourceKey
from controller.providers.fake.adapter import Looked
from controller.store import deployments, duties
from controller.store.errors import StoreUnwritable
from controller.store.restoring import Older, take_up
from controller.store.transaction import Tx
from controller.tasks.account_guard import AccountGuard
from tests.store.samples import proof
from tests.tasks.world import Bench, on_bench


def guard(bench: Bench) -> AccountGuard:
    return AccountGuard(store=bench.store, view=bench.view)


async def serving(bench: Bench, count: int) -> list[ResourceKey]:
    records = [await bench.serve(f"qwen-{number}", slot=number) for number in range(count)]
    return [record.key for record in records if record.key is not None]


async def passed(bench: Bench, task: AccountGuard) -> bool:
    await bench.move(1)
    await bench.look(judge=False)
    await task.run_pass()
    return bench.store.book.account.trusted


@pytest.mark.parametrize(("vanished", "trusted"), [(1, True), (2, False)])
@on_bench
async def test_two_that_vanish_at_once_put_the_account_in_doubt(bench: Bench, vanished: int, trusted: bool) -> None:
    keys, task = await serving(bench, 2), guard(bench)
    assert await passed(bench, task)
    for key in keys[:vanished]:
        bench.provider.vanish(key)
    assert await passed(bench, task) is trusted
    assert bench.alarms("account-changed") == ([] if trusted else ["main"])


@on_bench
async def test_two_that_vanish_one_after_the_other_do_not(bench: Bench) -> None:
    keys, task = await serving(bench, 3), guard(bench)
    await passed(bench, task)
    for key in keys[:2]:
        bench.provider.vanish(key)
        assert await passed(bench, task)


@on_bench
async def test_what_we_stopped_may_vanish(bench: Bench) -> None:
    keys, task = await serving(bench, 2), guard(bench)
    await passed(bench, task)
    executor = await bench.executor()
    for number in range(2):
        executor.stop(await bench.require_stop(bench.record(f"qwen-{number}")))
    await bench.settle()
    assert await passed(bench, task)
    assert len(keys) == 2


@on_bench
async def test_two_that_vanished_while_nobody_looked_put_it_in_doubt(bench: Bench) -> None:
    for key in await serving(bench, 2):
        bench.provider.vanish(key)
    await bench.restart()
    assert not await passed(bench, guard(bench))


@on_bench
async def test_what_was_never_seen_has_not_vanished(bench: Bench) -> None:
    for number in range(2):
        record = await bench.start(f"qwen-{number}", slot=number)
        assert record.key is not None
        bench.provider.vanish(record.key)
    assert await passed(bench, guard(bench))


@pytest.mark.parametrize("look", [Looked.FAILED, Looked.PARTIAL])
@on_bench
async def test_a_listing_that_is_not_complete_says_nothing(bench: Bench, look: Looked) -> None:
    keys, task = await serving(bench, 2), guard(bench)
    await passed(bench, task)
    bench.provider.script.listings += [look]
    for key in keys:
        bench.provider.vanish(key)
    assert await passed(bench, task)


@on_bench
async def test_something_recorded_earlier_that_is_seen_again_ends_the_doubt(bench: Bench) -> None:
    await serving(bench, 2)
    task = guard(bench)
    await passed(bench, task)
    bench.provider.script.listings.append(Looked.EMPTY)
    assert not await passed(bench, task)
    assert await passed(bench, task)
    assert bench.alarms("account-changed") == []
    told = [line["event"] for line in await bench.lines() if line["event"].startswith("account.")]
    assert told == ["account.changed", "account.confirmed"]


@on_bench
async def test_an_empty_account_never_ends_the_doubt_nor_does_a_stranger_s_resource(bench: Bench) -> None:
    await bench.lose()
    distrusted = replace(bench.store.book.account, trusted=False)
    await bench.store.write(lambda tx: tx.put_account(distrusted))
    task = guard(bench)
    assert not await passed(bench, task)
    bench.stray(tags=replace(bench.tags(), owner="stranger"))
    assert not await passed(bench, task)


@pytest.mark.parametrize("noted", [False, True])
@on_bench
async def test_what_a_create_in_flight_made_in_the_other_account_does_not_end_the_doubt(
    bench: Bench, noted: bool
) -> None:
    keys, task = await serving(bench, 2), guard(bench)
    late = await bench.submit("qwen-late", slot=5)
    await passed(bench, task)
    for key in keys:
        bench.provider.vanish(key)
    assert not await passed(bench, task)
    await bench.move(1)
    record = await bench.accept(late)
    if noted:
        await bench.store.write(lambda tx: duties.note_seen(tx, bench.duty(record).id))
    assert not await passed(bench, task)


@pytest.mark.parametrize(("after_ms", "trusted"), [(-1, True), (0, False)])
@on_bench
async def test_only_what_was_known_before_the_doubt_began_ends_it(bench: Bench, after_ms: int, trusted: bool) -> None:
    await bench.start()
    duty, guarding = bench.duty(), guard(bench)
    since = bench.clock.now()
    distrusted = replace(bench.store.book.account, trusted=False)

    def doubt(tx: Tx) -> None:
        tx.put_account(distrusted)
        tx.raise_alarm("account-changed", subject="main", detail="scripted")
        tx.put_duty(replace(duty, create_ended_at=since + timedelta(milliseconds=after_ms)))

    await bench.store.write(doubt)
    assert await passed(bench, guarding) is trusted


@on_bench
async def test_a_lost_create_of_before_the_doubt_that_is_adopted_in_it_does_not_end_it(bench: Bench) -> None:
    """It may have been made in the other account."""
    keys, task = await serving(bench, 2), guard(bench)
    record = await bench.lose("qwen-lost", made=True, slot=5)
    made = next(seen for seen in bench.provider.resources if seen.key not in keys)
    bench.provider.script.listings += [Looked.WHOLE] * 2
    await passed(bench, task)
    for key in keys:
        bench.provider.vanish(key)
    assert not await passed(bench, task)
    await bench.store.write(lambda tx: deployments.adopt(tx, record, made, wanted=True))
    assert not await passed(bench, task)


@on_bench
async def test_what_is_owed_for_its_bill_was_known_when_that_was_read(bench: Bench) -> None:
    keys, task = await serving(bench, 3), guard(bench)
    duty = await bench.require_stop(bench.record("qwen-2"))
    await bench.store.write(lambda tx: deployments.discharge(tx, duty.id, proof("listing 9")))
    at, holder, policy = bench.clock.now(), bench.holder, bench.policy
    bucket = Bucket(incarnation=keys[2].incarnation, begin=at, end=at, micros=790_000)
    await bench.store.write(lambda tx: duties.open_billed(tx, keys[2], bucket, holder=holder, policy=policy))
    bench.provider.script.listings.append(Looked.WHOLE)
    await passed(bench, task)
    bench.provider.script.listings.append(Looked.EMPTY)
    assert not await passed(bench, task)
    for key in keys[:2]:
        bench.provider.vanish(key)
    assert await passed(bench, task)


@on_bench
async def test_a_doubt_of_which_no_alarm_stands_ends_too(bench: Bench) -> None:
    await serving(bench, 1)
    distrusted = replace(bench.store.book.account, trusted=False)
    await bench.store.write(lambda tx: tx.put_account(distrusted))
    assert await passed(bench, guard(bench))


@on_bench
async def test_the_listing_that_raised_the_doubt_does_not_end_it(bench: Bench) -> None:
    keys, task = await serving(bench, 3), guard(bench)
    await passed(bench, task)
    for key in keys[:2]:
        bench.provider.vanish(key)
    assert not await passed(bench, task)
    await task.run_pass()
    assert not bench.store.book.account.trusted
    assert await passed(bench, task)


@on_bench
async def test_without_a_complete_listing_nothing_is_judged(bench: Bench) -> None:
    await serving(bench, 2)
    assert await guard(bench).run_pass() is None
    assert bench.view.value.judged is None
    assert bench.store.book.account.trusted


@on_bench
async def test_the_doubt_ends_once_nothing_is_owed_to_the_former_account(bench: Bench) -> None:
    keys, task = await serving(bench, 2), guard(bench)
    await passed(bench, task)
    for key in keys:
        bench.provider.vanish(key)
    assert not await passed(bench, task)
    for number, trusted in ((0, False), (1, True)):
        duty = bench.duty(bench.record(f"qwen-{number}"))
        await bench.store.write(partial(duties.confirm, obligation=duty.id, reference="console", forced=False))
        assert await passed(bench, task) is trusted


@on_bench
async def test_a_verdict_that_could_not_be_written_is_made_again(bench: Bench) -> None:
    keys, task = await serving(bench, 2), guard(bench)
    await passed(bench, task)
    for key in keys:
        bench.provider.vanish(key)
    bench.break_store()
    with pytest.raises(StoreUnwritable):
        await passed(bench, task)
    assert not bench.view.value.vouched(bench.clock.now())
    bench.mend_store()
    assert not await passed(bench, task)


@on_bench
async def test_one_listing_is_judged_once(bench: Bench) -> None:
    await serving(bench, 1)
    task = guard(bench)
    await passed(bench, task)
    before = bench.store.book
    for _ in range(3):
        await task.run_pass()
    assert bench.store.book is before


@on_bench
async def test_what_an_old_copy_of_the_store_holds_may_have_been_stopped_since(bench: Bench) -> None:
    for key in await serving(bench, 2):
        bench.provider.vanish(key)
    await bench.restart()
    await bench.store.write(lambda tx: take_up(tx, Older(why="told")))
    assert await passed(bench, guard(bench))
