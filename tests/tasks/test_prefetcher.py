"""Is a volume filled when that is asked for and nothing stands in the way, once, and nothing else with it?"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from decimal import Decimal

import pytest

from controller.core.errors import Code
from controller.core.evidence import StopReason
from controller.core.lifecycle import Phase
from controller.core.policy import SLOTS_MOST, Volume
from controller.core.readiness import Verdict
from controller.core.shortage import Shortage
from controller.ids import SeededRandomness
from controller.providers.fake.adapter import Looked, Made
from controller.store.transaction import Tx
from controller.store.wants import LASTS
from controller.tasks.prefetcher import Leave, Prefetcher
from controller.tasks.reconciler import Reconciler
from tests.tasks.reconciling import creates, passed
from tests.tasks.world import Bench, on_bench

VOLUMES = (
    Volume(place="A", offers=("L40S @ A", "A40 @ A")),
    Volume(place="B", offers=("L40S @ B", "A40 @ B")),
)
OFFERS = (*VOLUMES[0].offers, *VOLUMES[1].offers, "L40S", "A40")


async def prefetcher(bench: Bench, *, volumes: tuple[Volume, ...] = VOLUMES, barred: str | None = None) -> Prefetcher:
    bench.model = replace(bench.model, offers=OFFERS, volumes=volumes)
    leave = Leave(
        policy=bench.policy,
        models={"qwen": bench.model},
        holder=bench.holder,
        randomness=SeededRandomness(7),
        barred=barred,
    )
    return Prefetcher(
        store=bench.store,
        view=bench.view,
        wants=bench.wants,
        clock=bench.clock,
        executor=await bench.executor(),
        leave=leave,
    )


async def asked(bench: Bench, task: Prefetcher, *places: str, look: bool = True) -> None:
    for place in places:
        bench.wants.ask_fill("qwen", place, now=bench.clock.now())
    if look:
        await bench.look()
    await task.run_pass()
    await bench.settle()


def refusal(task: Prefetcher, place: str = "A") -> tuple[Code, bool] | None:
    refused = task.refusals.get(("qwen", place))
    return None if refused is None else (refused.code, refused.final)


def offers(bench: Bench) -> list[str]:
    return [create.offer for create in bench.store.book.creates.values()]


@on_bench
async def test_each_volume_is_filled_in_a_slot_of_its_own_beyond_those_that_serve(bench: Bench) -> None:
    await asked(bench, await prefetcher(bench), "B", "A")
    found = sorted((record.fills, record.slot, record.phase) for record in bench.store.book.live("qwen"))
    assert found == [("A", SLOTS_MOST, Phase.REQUESTED), ("B", SLOTS_MOST + 1, Phase.REQUESTED)]


@on_bench
async def test_it_lives_no_longer_than_a_start_may_take(bench: Bench) -> None:
    await asked(bench, await prefetcher(bench), "A")
    (record,) = bench.store.book.live("qwen")
    assert record.spec.requested_lifetime == 2 * bench.model.startup_deadline


@on_bench
async def test_nothing_is_filled_that_nobody_asks_for_and_a_wish_fades(bench: Bench) -> None:
    task = await prefetcher(bench)
    await asked(bench, task)
    bench.wants.ask_fill("qwen", "A", now=bench.clock.now())
    await bench.move(60.001)
    await asked(bench, task)
    assert creates(bench) == 0


@on_bench
async def test_a_wish_is_one_attempt(bench: Bench) -> None:
    task = await prefetcher(bench)
    bench.provider.script.creates += [Made.NO_CAPACITY] * 2
    await asked(bench, task, "A")
    await asked(bench, task)
    assert (creates(bench), len(bench.store.book.live("qwen"))) == (2, 0)


@on_bench
async def test_only_what_is_beside_the_volume_is_asked_for(bench: Bench) -> None:
    task = await prefetcher(bench)
    bench.provider.script.creates += [Made.NO_CAPACITY] * 6
    await asked(bench, task, "A")
    assert offers(bench) == list(VOLUMES[0].offers)


@on_bench
async def test_a_place_that_has_none_delays_no_start_elsewhere(bench: Bench) -> None:
    task = await prefetcher(bench)
    bench.provider.script.creates += [Made.NO_CAPACITY] * 2
    await asked(bench, task, "A")
    assert bench.store.book.memory("qwen").next_round_at is None


@on_bench
async def test_what_is_said_to_be_gone_is_not_asked_for_while_there_is_another_in_that_place(bench: Bench) -> None:
    task = await prefetcher(bench)
    await bench.look()
    gone = frozenset({"L40S @ A", "L40S @ B", "A40 @ B"})
    shortages = {"qwen": Shortage(offers=gone, at=bench.clock.now())}
    bench.view.publish(replace(bench.view.value, shortages=shortages))
    await asked(bench, task, "A", "B", look=False)
    assert offers(bench) == ["A40 @ A", "L40S @ B"]


@on_bench
async def test_one_that_is_there_for_it_is_not_joined_by_a_second(bench: Bench) -> None:
    task = await prefetcher(bench)
    await asked(bench, task, "A")
    await asked(bench, task, "A")
    assert (creates(bench), refusal(task)) == (1, (Code.REFUSED, False))


@on_bench
async def test_nor_when_the_order_of_the_volumes_has_changed(bench: Bench) -> None:
    await asked(bench, await prefetcher(bench), "A")
    task = await prefetcher(bench, volumes=VOLUMES[::-1])
    await asked(bench, task, "A", "B")
    assert creates(bench) == 1  # A is being filled, in the slot that is B's by now
    assert (refusal(task, "A"), refusal(task, "B")) == ((Code.REFUSED, False), (Code.MODEL_STOPPING, False))


@on_bench
async def test_a_place_that_the_config_names_no_more_is_told(bench: Bench) -> None:
    task = await prefetcher(bench)
    await asked(bench, task, "C")
    assert (creates(bench), refusal(task, "C")) == (0, (Code.NOT_FOUND, True))


async def hold(bench: Bench) -> None:
    def block(tx: Tx) -> None:
        held = replace(tx.book.memory("qwen"), hold_reason="crash-loop", hold_fingerprint=bench.model.fingerprint)
        tx.put_memory(held)

    await bench.store.write(block)


async def spend_all(bench: Bench) -> None:
    bench.policy = replace(bench.policy, usd_per_day=Decimal("0.01"))


async def blind(bench: Bench) -> None:
    bench.provider.script.listings += [Looked.PARTIAL] * 10


async def fill_up(bench: Bench) -> None:
    bench.policy = replace(bench.policy, max_active=1)
    await bench.start("other-1", model="other")


@pytest.mark.parametrize(
    ("obstacle", "code", "final"),
    [
        (hold, Code.MODEL_BLOCKED, True),
        (spend_all, Code.BUDGET_EXHAUSTED, True),
        (blind, Code.PROVIDER_UNAVAILABLE, False),
        (fill_up, Code.REFUSED, False),
    ],
)
@on_bench
async def test_whatever_prevents_a_start_prevents_it_too(
    bench: Bench, obstacle: Callable[[Bench], Awaitable[None]], code: Code, final: bool
) -> None:
    await obstacle(bench)
    before = creates(bench)
    task = await prefetcher(bench)
    await asked(bench, task, "A")
    assert (creates(bench) - before, refusal(task)) == (0, (code, final))


@on_bench
async def test_a_daemon_that_only_stops_fills_nothing(bench: Bench) -> None:
    task = await prefetcher(bench, barred="it only stops")
    await asked(bench, task, "A")
    assert creates(bench) == 0


@on_bench
async def test_it_is_idle_while_nobody_asks_and_looks_again_when_a_wish_lapses(bench: Bench) -> None:
    task = await prefetcher(bench, barred="it only stops")
    idle = [task.idle]
    bench.wants.ask_fill("qwen", "A", now=bench.clock.now())
    idle.append(task.idle)
    assert await task.run_pass() == bench.clock.now() + LASTS
    idle.append(task.idle)
    await bench.move(60.001)
    await task.run_pass()
    assert [*idle, task.idle] == [True, False, False, True]


@on_bench
async def test_why_it_is_not_begun_is_forgotten_with_the_wish(bench: Bench) -> None:
    task = await prefetcher(bench)
    await asked(bench, task, "C")
    await bench.move(61)
    await asked(bench, task)
    assert task.refusals == {}


# What becomes of it


async def filling(bench: Bench, *, verdict: Verdict = Verdict.READY) -> Reconciler:
    """One fills the volume in A, and the reconciler is to judge it."""
    bench.prober.verdict = verdict
    await asked(bench, await prefetcher(bench), "A")
    return bench.reconciler(await bench.executor())


def ended(bench: Bench) -> tuple[Phase, StopReason | None]:
    (record,) = bench.store.book.live("qwen")
    return record.phase, record.reason


@on_bench
async def test_when_it_could_serve_it_is_stopped_without_ever_being_active(bench: Bench) -> None:
    await passed(bench, await filling(bench))
    assert ended(bench) == (Phase.STOP_REQUIRED, StopReason.PREFETCHED)
    moves = [line["phase"]["to"] for line in await bench.events("deployment.phase")]
    assert moves == ["requested", "stop-required"]
    assert bench.store.book.memory("qwen").cold_start is None  # it downloaded: no start from a volume takes so long


@on_bench
async def test_while_it_is_not_ready_or_nobody_knows_it_goes_on(bench: Bench) -> None:
    task = await filling(bench, verdict=Verdict.UNREACHABLE)
    await passed(bench, task)
    bench.prober.verdict = Verdict.NOT_READY
    await bench.move(60)
    await passed(bench, task)
    assert ended(bench) == (Phase.REQUESTED, None)


@pytest.mark.parametrize(("seconds", "reason"), [(899.9, None), (901, StopReason.STARTUP_DEADLINE)])
@on_bench
async def test_one_that_never_could_serve_is_stopped_at_the_startup_deadline(
    bench: Bench, seconds: float, reason: StopReason | None
) -> None:
    task = await filling(bench, verdict=Verdict.UNREACHABLE)
    await bench.move(seconds)
    await passed(bench, task, look=False)
    assert ended(bench)[1] is reason


@on_bench
async def test_one_that_failed_counts_as_a_failed_start_and_nobody_who_waits_is_told(bench: Bench) -> None:
    task = await filling(bench, verdict=Verdict.UNREACHABLE)
    await bench.move(901)
    await passed(bench, task, look=False)
    memory = bench.store.book.memory("qwen")
    assert (memory.failures, memory.failure) == (1, None)


@on_bench
async def test_its_end_does_not_fulfil_the_wish_of_who_waits_for_the_model(bench: Bench) -> None:
    task = await filling(bench)
    bench.wants.ask("qwen", now=bench.clock.now())
    await bench.move(1)
    (record,) = bench.store.book.live("qwen")
    await bench.require_stop(record, StopReason.PREFETCHED)
    await passed(bench, task)
    assert [found.fills for found in bench.store.book.live("qwen")] == ["A", None]


@on_bench
async def test_it_is_restored_with_what_it_is_for(bench: Bench) -> None:
    await filling(bench, verdict=Verdict.UNREACHABLE)
    await bench.restart()
    await bench.renew()
    bench.prober.verdict = Verdict.READY
    await passed(bench, bench.reconciler(await bench.executor()))
    assert ended(bench) == (Phase.STOP_REQUIRED, StopReason.PREFETCHED)
