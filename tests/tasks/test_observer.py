"""Does the one eye look often enough, not too often, and keep what it saw?"""

from dataclasses import replace
from datetime import timedelta

import pytest

from controller.core.billing import Bucket
from controller.core.evidence import StopReason
from controller.core.orphans import Sighting, Whose
from controller.core.readiness import Verdict
from controller.providers.fake.adapter import Looked
from controller.store import deployments, duties
from tests.store.samples import proof
from tests.tasks.observing import Port, watch
from tests.tasks.world import Bench, on_bench


async def rhythm(bench: Bench, *, after_s: float = 700, for_s: float = 1200) -> float:
    """The mean gap between two listings, long after the start."""
    port = Port(bench.provider)
    watch(bench, bench.observer(reading=port))
    await bench.move(after_s)
    before = len(port.listed_s)
    await bench.move(for_s)
    return for_s / (len(port.listed_s) - before)


# Rhythm


@on_bench
async def test_with_nothing_alive_it_lists_every_five_minutes(bench: Bench) -> None:
    assert await rhythm(bench) == 300


@on_bench
async def test_while_all_is_steady_it_lists_every_minute(bench: Bench) -> None:
    await bench.serve()
    assert await rhythm(bench) == 60


@on_bench
async def test_for_ten_minutes_after_a_start_it_lists_fast(bench: Bench) -> None:
    assert await rhythm(bench, after_s=1, for_s=570) == 15


@pytest.mark.parametrize("what", ["declared", "requested", "uncertain", "owed", "orphan", "owed orphan"])
@on_bench
async def test_while_anything_is_open_it_lists_fast(bench: Bench, what: str) -> None:
    match what:
        case "declared":
            await bench.plan()
        case "requested":
            await bench.start()
        case "uncertain":
            await bench.lose()
        case "owed":
            await bench.require_stop(await bench.serve())
        case "owed orphan":
            seen, holder, policy = bench.stray(), bench.holder, bench.policy
            await bench.store.write(
                lambda tx: duties.open_stray(tx, seen, StopReason.ORPHAN, holder=holder, policy=policy)
            )
        case _:
            await sighted(bench, Whose.OURS)
    assert await rhythm(bench, for_s=300) == 15


@on_bench
async def test_what_is_owed_for_its_bill_alone_makes_no_hurry(bench: Bench) -> None:
    record = await bench.serve()
    duty = await bench.require_stop(record)
    await bench.store.write(lambda tx: deployments.discharge(tx, duty.id, proof("listing 9")))
    assert record.key is not None
    bench.provider.vanish(record.key)
    at = bench.clock.now()
    bucket = Bucket(incarnation=record.key.incarnation, begin=at, end=at, micros=790_000)
    key, holder, policy = record.key, bench.holder, bench.policy
    await bench.store.write(lambda tx: duties.open_billed(tx, key, bucket, holder=holder, policy=policy))
    assert [owed.reason for owed in bench.store.book.owed()] == [StopReason.BILLED_AFTER_STOP]
    assert await rhythm(bench) == 300


@pytest.mark.parametrize("whose", [Whose.FOREIGN, Whose.COPIED])
@on_bench
async def test_what_we_did_not_make_makes_no_hurry(bench: Bench, whose: Whose) -> None:
    await sighted(bench, whose)
    assert await rhythm(bench) == 300


async def sighted(bench: Bench, whose: Whose) -> None:
    now = bench.clock.now()
    key = bench.stray().key
    sighting = Sighting(key=key, whose=whose, installation=None, first_at=now, last_at=now, times=2)
    await bench.store.write(lambda tx: duties.sight(tx, sighting))


@on_bench
async def test_a_failed_probe_of_what_served_makes_it_list_fast_again(bench: Bench) -> None:
    await bench.serve()
    port = Port(bench.provider)
    watch(bench, bench.observer(reading=port))
    await bench.move(700)
    bench.prober.verdict = Verdict.UNREACHABLE
    await bench.move(100)
    bench.prober.verdict = Verdict.READY
    late = [second for second in port.listed_s if second > 800]
    await bench.move(400)
    late = [second for second in port.listed_s if second > 800]
    assert len(late) == pytest.approx(27, abs=1)


@on_bench
async def test_it_lists_at_once_after_a_stop_was_answered_and_again_if_that_was_the_same_instant(bench: Bench) -> None:
    duty = await bench.require_stop(await bench.serve())
    port = Port(bench.provider)
    watch(bench, bench.observer(reading=port))
    await bench.move(7)
    (await bench.executor()).stop(duty)
    await bench.move(3)
    assert port.listed_s == pytest.approx([0, 7, 8])


@on_bench
async def test_however_many_answers_come_it_lists_at_most_once_a_second(bench: Bench) -> None:
    duty = await bench.require_stop(await bench.serve())
    port = Port(bench.provider)
    watch(bench, bench.observer(reading=port))
    executor = await bench.executor()
    for _ in range(40):
        executor.stop(duty)
        await bench.move(0.1)
    assert len(port.listed_s) <= 5


@pytest.mark.parametrize(
    ("wished", "fresh", "listed_s", "due_s"),
    [(True, False, [0, 6], 15), (True, True, [0], 9), (False, False, [0], 9)],
)
@on_bench
async def test_a_wish_without_a_fresh_listing_makes_it_list_at_once(
    bench: Bench, wished: bool, fresh: bool, listed_s: list[float], due_s: float
) -> None:
    port = Port(bench.provider)
    observer = bench.observer(reading=port)
    await observer.run_pass()
    await bench.move(6)
    if not fresh:
        bench.view.publish(replace(bench.view.value, completed=None))
    if wished:
        bench.wants.ask("qwen", now=bench.clock.now())
    until = await observer.run_pass()
    assert (port.listed_s, until) == (listed_s, bench.clock.now() + timedelta(seconds=due_s))


@on_bench
async def test_while_listings_fail_it_does_not_list_more_often(bench: Bench) -> None:
    duty = await bench.require_stop(await bench.serve())
    bench.provider.script.listings += [Looked.FAILED] * 100
    port = Port(bench.provider)
    watch(bench, bench.observer(reading=port))
    bench.wants.ask("qwen", now=bench.clock.now())
    executor = await bench.executor()
    for _ in range(30):
        executor.stop(duty)
        await bench.move(1)
    assert port.listed_s == pytest.approx([0, 15])
