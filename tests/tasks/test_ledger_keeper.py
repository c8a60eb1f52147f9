"""Does every living deployment hold today's money, and does what cannot be paid for end?"""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from controller.core.evidence import StopReason
from controller.core.lifecycle import Phase
from controller.core.spend import Hold
from controller.store import duties
from controller.store.errors import StoreUnwritable
from controller.tasks.ledger_keeper import LedgerKeeper
from tests.support.stores import overtake, unwritable
from tests.tasks.world import Bench, on_bench

TO_MIDNIGHT_S = 12 * 3600  # the clock begins at noon


def keeper(bench: Bench) -> LedgerKeeper:
    return LedgerKeeper(store=bench.store, policy=bench.policy, models={"qwen": bench.model})


def held(bench: Bench) -> dict[str, tuple[Hold, int]]:
    return {one.day[-2:]: (one.hold, one.reserved_micros) for one in bench.store.book.reservations.values()}


@on_bench
async def test_before_midnight_nothing_is_written_and_midnight_is_told(bench: Bench) -> None:
    await bench.serve()
    await bench.move(TO_MIDNIGHT_S - 0.001)
    before = bench.store.book
    due = await keeper(bench).run_pass()
    assert bench.store.book is before
    assert due == bench.clock.now() + timedelta(milliseconds=1)


@on_bench
async def test_at_midnight_yesterday_is_settled_and_today_is_held(bench: Bench) -> None:
    await bench.serve()
    await bench.move(TO_MIDNIGHT_S)
    await keeper(bench).run_pass()
    (settled,) = await bench.events("ledger.settled")
    assert settled["detail"] == {"day": "2026-11-29", "reserved_usd": "12", "settled_usd": "12"}
    assert held(bench)["30"] == (Hold.STARTED, 24_000_000)
    assert bench.record().phase is Phase.ACTIVE


@on_bench
async def test_today_holds_no_more_than_what_is_left_of_the_lifetime(bench: Bench) -> None:
    bench.policy = replace(bench.policy, max_lifetime=timedelta(hours=14))
    await bench.serve()
    await bench.move(TO_MIDNIGHT_S)
    await keeper(bench).run_pass()
    assert held(bench)["30"] == (Hold.STARTED, 2_000_000)


@on_bench
async def test_what_today_cannot_afford_drains_for_spend(bench: Bench) -> None:
    await bench.serve()
    bench.policy = replace(bench.policy, usd_per_day=Decimal("23.99"))
    await bench.move(TO_MIDNIGHT_S)
    await keeper(bench).run_pass()
    record = bench.record()
    assert (record.phase, record.reason) == (Phase.STOP_REQUIRED, StopReason.SPEND)
    assert record.drain_until == bench.clock.now() + bench.model.drain_limit


@on_bench
async def test_what_cannot_be_afforded_is_not_asked_about_again_and_again(bench: Bench) -> None:
    await bench.serve()
    bench.policy = replace(bench.policy, usd_per_day=Decimal(1))
    await bench.move(TO_MIDNIGHT_S)
    task, rings = keeper(bench), 0
    await task.run_pass()

    def ring() -> None:
        nonlocal rings
        rings += 1

    bench.store.on_change(ring)
    for _ in range(5):
        await task.run_pass()
    assert rings == 0  # each of these would have begun another pass at once


@on_bench
async def test_what_cannot_be_afforded_today_is_asked_about_tomorrow(bench: Bench) -> None:
    await bench.start()
    bench.policy = replace(bench.policy, usd_per_day=Decimal(1))
    await bench.move(TO_MIDNIGHT_S)
    task = keeper(bench)
    await task.run_pass()
    bench.policy = replace(bench.policy, usd_per_day=Decimal(200))
    await bench.move(24 * 3600)
    fresh = keeper(bench)
    await fresh.run_pass()
    assert "01" in held(bench)


async def three_and_money_for_two(bench: Bench) -> None:
    """At midnight."""
    for slot in range(3):
        await bench.serve(f"qwen-{slot}", slot=slot)
        await bench.move(0.001)
    bench.policy = replace(bench.policy, usd_per_day=Decimal(48))
    await bench.move(TO_MIDNIGHT_S)


@on_bench
async def test_several_are_rolled_in_one_pass_as_far_as_the_money_goes(bench: Bench) -> None:
    await three_and_money_for_two(bench)
    await keeper(bench).run_pass()
    phases = [bench.record(f"qwen-{slot}").phase for slot in range(3)]
    assert phases == [Phase.ACTIVE, Phase.ACTIVE, Phase.STOP_REQUIRED]


@on_bench
async def test_what_the_money_does_not_reach_is_owed_its_stop_where_nothing_can_be_written_too(bench: Bench) -> None:
    await three_and_money_for_two(bench)
    task = keeper(bench)
    with unwritable(bench.folder):
        await task.run_pass()
        with pytest.raises(StoreUnwritable):  # those that can be paid for do not hold today's money yet
            await task.run_pass()
        assert {one.day[-2:] for one in bench.store.book.reservations.values()} == {"29"}
        records = [bench.record(f"qwen-{slot}") for slot in range(3)]
        assert [record.phase for record in records] == [Phase.ACTIVE, Phase.ACTIVE, Phase.STOP_REQUIRED]
        drain_until = bench.clock.now() + bench.model.drain_limit
        assert (records[2].reason, records[2].drain_until) == (StopReason.SPEND, drain_until)
    await task.run_pass()
    today = {one.deployment for one in bench.store.book.reservations.values() if one.day.endswith("30")}
    assert today == {"qwen-0", "qwen-1"}
    assert bench.record("qwen-2").reason is StopReason.SPEND


@on_bench
async def test_what_somebody_else_wrote_meanwhile_puts_the_stop_off_to_the_next_pass(bench: Bench) -> None:
    await bench.serve()
    bench.policy = replace(bench.policy, usd_per_day=Decimal("23.99"))
    await bench.move(TO_MIDNIGHT_S)
    task = keeper(bench)
    overtake(bench.folder)
    await task.run_pass()
    assert bench.record().phase is Phase.ACTIVE
    await task.run_pass()
    assert bench.record().reason is StopReason.SPEND


@on_bench
async def test_an_orphan_is_carried_over_midnight_whatever_the_limit_says(bench: Bench) -> None:
    seen = bench.stray(usd_per_hour=Decimal(1))
    duty = await bench.store.write(
        lambda tx: duties.open_stray(tx, seen, StopReason.ORPHAN, holder=bench.holder, policy=bench.policy)
    )
    bench.policy = replace(bench.policy, usd_per_day=Decimal(1))
    assert await keeper(bench).run_pass() == bench.clock.now() + timedelta(seconds=TO_MIDNIGHT_S)
    await bench.move(TO_MIDNIGHT_S)
    await keeper(bench).run_pass()
    (settled,) = await bench.events("ledger.settled")
    assert settled["detail"]["settled_usd"] == "12"
    assert held(bench)["30"] == (Hold.STOP_REQUIRED, 24_000_000)
    assert {one.deployment for one in bench.store.book.reservations.values()} == {duties.lease_name(duty)}


@on_bench
async def test_with_nothing_alive_no_midnight_matters(bench: Bench) -> None:
    assert await keeper(bench).run_pass() is None


@pytest.mark.parametrize("configured", [True, False])
@on_bench
async def test_a_model_that_was_removed_drains_as_the_policy_says(bench: Bench, configured: bool) -> None:
    await bench.serve()
    bench.model = replace(bench.model, drain_limit=timedelta(seconds=7))
    bench.policy = replace(bench.policy, usd_per_day=Decimal(1))
    await bench.move(TO_MIDNIGHT_S)
    models = {"qwen": bench.model} if configured else {}
    await LedgerKeeper(store=bench.store, policy=bench.policy, models=models).run_pass()
    limit = bench.model.drain_limit if configured else bench.policy.drain_limit
    assert bench.record().drain_until == bench.clock.now() + limit


@on_bench
async def test_what_may_not_exist_at_all_is_not_drained_for_spend(bench: Bench) -> None:
    """Nobody knows what came of its create: the answer is looked for first."""
    await bench.lose()
    bench.policy = replace(bench.policy, usd_per_day=Decimal("0.01"))
    await bench.move(TO_MIDNIGHT_S)
    await keeper(bench).run_pass()
    assert (bench.record().phase, bench.record().reason) == (Phase.UNCERTAIN, StopReason.AMBIGUOUS_MUTATION)
    assert bench.duty().due_at is None
