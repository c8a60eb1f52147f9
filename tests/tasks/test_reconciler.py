"""Is what is wanted started when nothing stands in the way, and what is on record held to its rules?"""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from controller.core.errors import Code
from controller.core.evidence import StopReason
from controller.core.lifecycle import Phase
from controller.core.shortage import Shortage
from controller.core.unlisted import Unlisted
from controller.providers.fake.adapter import Looked, Made
from controller.store import holds
from controller.store.errors import StoreUnwritable
from controller.store.transaction import Tx
from tests.tasks.reconciling import asked, creates, passed, reconciler, refusal
from tests.tasks.world import Bench, on_bench

# Starts


@on_bench
async def test_a_start_whose_commit_nobody_saw_is_taken_back_and_begun_anew_by_the_next_pass(bench: Bench) -> None:
    task = await reconciler(bench)
    write = bench.store.write

    async def unseen(work: Any, **options: Any) -> None:
        del vars(bench.store)["write"]
        await write(work, **options)
        raise StoreUnwritable("scripted: no commit was seen")

    await passed(bench, task)
    vars(bench.store)["write"] = unseen
    with pytest.raises(StoreUnwritable):
        await asked(bench, task)
    await asked(bench, task)
    assert [record.phase for record in bench.store.book.records.values()] == [Phase.CANCELLED, Phase.REQUESTED]
    assert creates(bench) == 1


@on_bench
async def test_what_is_wanted_is_started_once_however_often_it_is_asked_for(bench: Bench) -> None:
    task = await reconciler(bench)
    for _ in range(10):
        await asked(bench, task)
    assert (creates(bench), len(bench.store.book.live("qwen"))) == (1, 1)
    assert refusal(task) is None


@on_bench
async def test_nothing_is_started_that_nobody_wants(bench: Bench) -> None:
    task = await reconciler(bench)
    await passed(bench, task)
    bench.wants.ask("qwen", now=bench.clock.now())
    await bench.move(60.001)
    await passed(bench, task)
    assert creates(bench) == 0


@on_bench
async def test_nothing_is_created_on_a_listing_that_the_account_guard_did_not_judge(bench: Bench) -> None:
    task = await reconciler(bench)
    bench.wants.ask("qwen", now=bench.clock.now())
    await bench.look(judge=False)
    await task.run_pass()
    await bench.settle()
    assert (creates(bench), refusal(task)) == (0, (Code.PROVIDER_UNAVAILABLE, False))
    await asked(bench, task)
    assert creates(bench) == 1


@on_bench
async def test_every_slot_has_a_deployment_of_its_own(bench: Bench) -> None:
    bench.model = replace(bench.model, slots=3)
    await asked(bench, await reconciler(bench))
    assert sorted(record.slot for record in bench.store.book.live("qwen")) == [0, 1, 2]


async def outage(bench: Bench) -> None:
    bench.provider.script.listings += [Looked.PARTIAL] * 9


async def no_price(bench: Bench) -> None:
    bench.model = replace(bench.model, usd_per_hour_max=None)


async def copied(bench: Bench) -> None:
    bench.stray(tags=replace(bench.tags(), installation="elsewhere"))


async def distrusted(bench: Bench) -> None:
    await bench.submit("other-1", model="other")  # something is owed to the former account
    await bench.store.write(lambda tx: tx.put_account(replace(tx.book.account, trusted=False)))


async def poor(bench: Bench) -> None:
    bench.policy = replace(bench.policy, usd_per_day=Decimal("11.99"))


async def no_funds(bench: Bench) -> None:
    await held(bench, "no_funds")


async def blocked(bench: Bench) -> None:
    await held(bench, "crash-loop")


async def held(bench: Bench, reason: str) -> None:
    def hold(tx: Tx) -> None:
        tx.put_memory(replace(tx.book.memory("qwen"), hold_reason=reason, hold_fingerprint=bench.model.fingerprint))

    await bench.store.write(hold)


async def turned_back(bench: Bench) -> None:
    await bench.store.write(lambda tx: tx.line("clock.jumped"))
    bench.clock.ahead = -timedelta(hours=1)


async def full(bench: Bench) -> None:
    bench.policy = replace(bench.policy, max_active=1)
    await bench.serve("other-1", model="other")


@pytest.mark.parametrize(
    ("obstacle", "told"),
    [
        (outage, (Code.PROVIDER_UNAVAILABLE, False)),
        (no_price, (Code.PROVIDER_UNAVAILABLE, False)),
        (copied, (Code.REFUSED, False)),
        (distrusted, (Code.PROVIDER_UNAVAILABLE, False)),
        (poor, (Code.BUDGET_EXHAUSTED, True)),
        (no_funds, (Code.NO_FUNDS, True)),
        (blocked, (Code.MODEL_BLOCKED, True)),
        (turned_back, (Code.REFUSED, False)),
        (full, (Code.REFUSED, False)),
    ],
)
@on_bench
async def test_nothing_is_created_while_something_stands_in_the_way(
    bench: Bench, obstacle: Any, told: tuple[Code, bool]
) -> None:
    await obstacle(bench)
    task, before = await reconciler(bench), creates(bench)
    await asked(bench, task)
    assert creates(bench) == before
    assert refusal(task) == told


@pytest.mark.parametrize(("age_s", "made"), [(45, 1), (45.001, 0)])
@on_bench
async def test_a_listing_older_than_three_intervals_allows_no_create(bench: Bench, age_s: float, made: int) -> None:
    task = await reconciler(bench)
    await bench.look()
    await bench.move(age_s)
    await asked(bench, task, look=False)
    assert creates(bench) == made


@on_bench
async def test_a_model_is_started_once_the_outage_is_over(bench: Bench) -> None:
    task = await reconciler(bench)
    bench.provider.script.listings.append(Looked.FAILED)
    await asked(bench, task)
    await passed(bench, task)
    assert (creates(bench), refusal(task)) == (1, None)


@on_bench
async def test_the_dearest_declared_price_is_the_ceiling(bench: Bench) -> None:
    bench.model = replace(bench.model, usd_per_hour_max=None)
    bench.provider.prices = {"L40S": Decimal("0.5"), "A40": Decimal(2), "B200": Decimal(9)}
    await asked(bench, await reconciler(bench))
    (held_money,) = bench.store.book.reservations.values()
    assert held_money.ceiling_micros_per_hour == 2_000_000


def said_gone(bench: Bench, *offers: str) -> None:
    shortage = Shortage(offers=frozenset(offers), at=bench.clock.now())
    bench.view.publish(replace(bench.view.value, shortages={"qwen": shortage}))


def offered(bench: Bench) -> list[str]:
    return [create.offer for create in bench.store.book.creates.values()]


@pytest.mark.parametrize(
    ("gone", "asked_for"),
    [((), ["L40S", "A40"]), (("A40",), ["L40S"]), (("L40S",), ["A40"]), (("L40S", "A40"), ["L40S", "A40"])],
)
@on_bench
async def test_what_is_said_to_be_sold_out_is_skipped_unless_that_is_everything(
    bench: Bench, gone: tuple[str, ...], asked_for: list[str]
) -> None:
    bench.provider.script.creates += [Made.NO_CAPACITY] * 2
    task = await reconciler(bench)
    said_gone(bench, *gone)
    await asked(bench, task)
    assert offered(bench) == asked_for


@on_bench
async def test_a_type_that_the_catalog_does_not_have_stops_no_other_from_being_asked_for(bench: Bench) -> None:
    task = await reconciler(bench)
    slip = Unlisted(named="L40S", offers=frozenset({"L40S"}), nearest=())
    bench.view.publish(replace(bench.view.value, unlisted={"qwen": (slip,)}))
    await asked(bench, task)
    assert offered(bench) == ["A40"]


@on_bench
async def test_what_was_sold_out_more_than_a_minute_ago_is_asked_for_again(bench: Bench) -> None:
    task = await reconciler(bench)
    said_gone(bench, "L40S")
    await bench.move(60.001)
    await bench.look()
    await asked(bench, task)
    assert offered(bench) == ["L40S"]


@on_bench
async def test_a_changed_config_ends_a_hold(bench: Bench) -> None:
    await blocked(bench)
    bench.model = replace(bench.model, fingerprint="f2")
    await asked(bench, await reconciler(bench))
    assert creates(bench) == 1


@pytest.mark.parametrize(("after_s", "made"), [(599.999, 0), (600, 1)])
@on_bench
async def test_a_timed_hold_ends_at_its_time(bench: Bench, after_s: float, made: int) -> None:
    await blocked(bench)
    until = bench.clock.now() + timedelta(seconds=600)
    await bench.store.write(lambda tx: tx.put_memory(replace(tx.book.memory("qwen"), hold_until=until)))
    task = await reconciler(bench)
    await bench.move(after_s)
    await asked(bench, task)
    assert creates(bench) == made


@on_bench
async def test_no_more_starts_an_hour_than_the_cap(bench: Bench) -> None:
    for _ in range(4):
        await bench.store.write(lambda tx: holds.note_start(tx, "qwen", at=tx.now))
    task = await reconciler(bench)
    await asked(bench, task)
    assert (creates(bench), refusal(task)) == (0, (Code.MODEL_BLOCKED, True))
    await bench.move(3600)
    await asked(bench, task)
    assert creates(bench) == 1


@on_bench
async def test_in_stop_only_mode_nothing_is_created(bench: Bench) -> None:
    task = await reconciler(bench, barred="it only stops")
    await asked(bench, task)
    assert (creates(bench), refusal(task)) == (0, (Code.REFUSED, True))


@on_bench
async def test_nothing_is_started_beside_what_is_unresolved_or_owed(bench: Bench) -> None:
    await bench.lose()
    task = await reconciler(bench)
    await asked(bench, task)
    await bench.require_stop(bench.record())
    await asked(bench, task)
    assert creates(bench) == 0


@on_bench
async def test_one_model_s_trouble_keeps_no_other_from_starting(bench: Bench) -> None:
    bad = replace(bench.model, alias="other", usd_per_hour_max=Decimal("1e30"))  # more than the ledger can hold
    task = await reconciler(bench, models={"other": bad, "qwen": bench.model})
    bench.wants.ask("other", now=bench.clock.now())
    bench.wants.ask("qwen", now=bench.clock.now())
    await bench.look()
    with pytest.raises(OverflowError):
        await task.run_pass()
    await bench.settle()
    assert creates(bench) == 1


@on_bench
async def test_a_failed_start_is_started_again_by_a_newer_wish_only(bench: Bench) -> None:
    task = await reconciler(bench)
    await asked(bench, task)
    bench.wants.ask("qwen", now=bench.clock.now())  # they wait
    (record,) = bench.store.book.live("qwen")
    await bench.require_stop(record, StopReason.STARTUP_DEADLINE)
    await passed(bench, task)
    assert not bench.wants.all(now=bench.clock.now())
    await bench.move(1)
    bench.wants.ask("qwen", now=bench.clock.now())
    await passed(bench, task)
    assert bench.wants.all(now=bench.clock.now())


@on_bench
async def test_who_waits_is_told_once_of_each_change_of_what_stands_in_the_way(bench: Bench) -> None:
    task, rings = await reconciler(bench), []
    task.on_refusal(lambda: rings.append(refusal(task)))
    bench.provider.script.listings += [Looked.PARTIAL] * 2
    for _ in range(3):
        await asked(bench, task, look=False)
    assert rings == [(Code.PROVIDER_UNAVAILABLE, False)]
    bench.provider.script.listings.clear()
    for _ in range(2):
        await asked(bench, task)
    assert rings == [(Code.PROVIDER_UNAVAILABLE, False), None]


@on_bench
async def test_a_refused_start_is_tried_again_at_the_time_that_the_refusal_names(bench: Bench) -> None:
    await blocked(bench)
    until = bench.clock.now() + timedelta(seconds=600)
    await bench.store.write(lambda tx: tx.put_memory(replace(tx.book.memory("qwen"), hold_until=until)))
    task = await reconciler(bench)
    await bench.look()
    bench.wants.ask("qwen", now=bench.clock.now())
    assert await task.run_pass() == until


@on_bench
async def test_once_its_slot_is_filled_nothing_is_told_to_stand_in_a_model_s_way(bench: Bench) -> None:
    task = await reconciler(bench)
    bench.provider.script.listings.append(Looked.FAILED)
    await asked(bench, task, look=False)
    assert refusal(task) is not None
    await bench.serve()
    await passed(bench, task)
    assert refusal(task) is None
