"""Is a stall of several cards owed a stop, and what a server died of kept for those who ask?"""

from dataclasses import replace

import pytest

from controller.core.evidence import StopReason
from controller.core.lifecycle import Phase
from controller.core.machine_log import LogLine
from controller.core.topology import Topology
from controller.store import deployments
from controller.store.errors import StoreUnwritable
from controller.tasks.log_watcher import LogWatcher
from controller.tasks.observer import Observer, Rules, Watched
from tests.support.stores import overtake, unwritable
from tests.tasks.observing import key_of
from tests.tasks.world import Bench, on_bench

BLOCK = "No available shared memory broadcast block found in 60 seconds."
MET = "pod:1:1 [0] NCCL INFO comm 0x55ba65 rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0"
CHANNEL = "pod:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via SHM/direct/direct"
DIED = "torch.OutOfMemoryError: CUDA out of memory."


def watcher(bench: Bench) -> LogWatcher:
    return LogWatcher(store=bench.store, view=bench.view, policy=bench.policy, models={"qwen": bench.model})


def observer(bench: Bench) -> Observer:
    watched = Watched(server="vllm", secret_reference=None, credential=None, cards=bench.model.cards)
    return bench.observer(rules=Rules(policy=bench.policy, watched={"qwen": watched}, wanted=frozenset))


async def starting(bench: Bench, *texts: str, cards: int = 2) -> None:
    """A machine whose container runs and has written this."""
    bench.model = replace(bench.model, cards=cards)
    record = await bench.start()
    (seen,) = bench.provider.resources
    bench.provider.put(replace(seen, started_at=bench.clock.now()))
    wrote(bench, *texts)
    assert record.phase is Phase.REQUESTED


def wrote(bench: Bench, *texts: str) -> None:
    key = key_of(bench.record())
    bench.provider.logs[key] = [LogLine(said=str(number), text=text) for number, text in enumerate(texts)]


async def watched_for(bench: Bench, seconds: int) -> None:
    """Looked at and passed over every 15 seconds."""
    eye, task = observer(bench), watcher(bench)
    for _ in range(seconds // 15):
        await eye.run_pass()
        await eye.run_pass()
        await task.run_pass()
        await bench.move(15)


@pytest.mark.parametrize(("cards", "reason"), [(1, None), (2, StopReason.MULTI_CARD_STALL)])
@on_bench
async def test_cards_that_wait_for_each_other_for_ten_minutes_are_stopped(
    bench: Bench, cards: int, reason: StopReason | None
) -> None:
    await starting(bench, "INFO loading", BLOCK, cards=cards)
    await watched_for(bench, 600)
    assert bench.record().reason is None
    await watched_for(bench, 180)
    assert bench.record().reason is reason


@on_bench
async def test_silence_after_nccl_is_stopped_and_a_failed_start(bench: Bench) -> None:
    await starting(bench, "NCCL INFO Init COMPLETE")
    await watched_for(bench, 780)
    assert bench.record().reason is StopReason.NCCL_STALL
    assert bench.store.book.memory("qwen").failures == 1


@on_bench
async def test_a_stall_is_owed_its_stop_where_nothing_can_be_written_too(bench: Bench) -> None:
    await starting(bench, "NCCL INFO Init COMPLETE")
    await watched_for(bench, 600)
    with unwritable(bench.folder):
        await watched_for(bench, 180)
        assert bench.record().reason is StopReason.NCCL_STALL
    assert bench.duty().due


@on_bench
async def test_what_somebody_else_wrote_meanwhile_puts_the_stop_off_to_the_next_pass(bench: Bench) -> None:
    await starting(bench, "NCCL INFO Init COMPLETE")
    await watched_for(bench, 600)
    await bench.move(180)
    overtake(bench.folder)
    task = watcher(bench)
    await task.run_pass()
    assert bench.record().phase is Phase.REQUESTED
    await watched_for(bench, 30)
    assert bench.record().reason is StopReason.NCCL_STALL


@on_bench
async def test_what_it_died_of_alone_stops_nothing_that_cannot_be_written(bench: Bench) -> None:
    await starting(bench, DIED, cards=1)
    with unwritable(bench.folder), pytest.raises(StoreUnwritable):
        await watched_for(bench, 90)
    assert bench.record().phase is Phase.REQUESTED
    await watched_for(bench, 90)
    assert bench.store.book.starts[bench.record().id].cause == "out-of-memory"


@on_bench
async def test_a_log_that_cannot_be_read_stops_nothing_and_is_not_asked_for_in_a_rush(bench: Bench) -> None:
    await starting(bench, "NCCL INFO Init COMPLETE")
    bench.provider.logs.clear()
    await watched_for(bench, 1200)
    assert bench.record().phase is Phase.REQUESTED
    assert bench.provider.calls["log"] <= 21


@on_bench
async def test_what_it_died_of_is_told_with_its_stop_and_its_failure_across_our_restart(bench: Bench) -> None:
    await starting(bench, DIED, cards=1)
    await watched_for(bench, 90)
    await bench.restart()
    current = bench.record()
    await bench.store.write(lambda tx: deployments.require_stop(tx, current, StopReason.CRASH_LOOP))
    failure = bench.store.book.memory("qwen").failure
    assert failure is not None
    assert failure.told == "crash-loop: the model does not fit the card's memory (out-of-memory)"
    assert (await bench.events("obligation.due"))[-1]["detail"] == {"cause": "out-of-memory"}


@on_bench
async def test_what_it_died_of_is_written_once(bench: Bench) -> None:
    await starting(bench, DIED, cards=1)
    await watched_for(bench, 90)
    before = bench.store.book
    await watched_for(bench, 180)
    assert bench.store.book.starts is before.starts


@on_bench
async def test_how_cards_reach_each_other_is_put_into_the_evidence_once_across_our_restart(bench: Bench) -> None:
    await starting(bench, MET, CHANNEL)
    await watched_for(bench, 150)
    await bench.restart()
    await watched_for(bench, 150)
    (found,) = await bench.events("qualification.finding")
    assert (found["model"], found["resource"]["incarnation"]) == ("qwen", key_of(bench.record()).incarnation)
    assert found["detail"] == {
        "question": "OU-7",
        "asked": "all cards are in one machine",
        "said": "yes",
        "ranks": 2,
        "nodes": 1,
        "ways": "SHM",
        "text": "NCCL counts 2 cards in one machine, which reach each other by SHM",
    }
    assert bench.store.book.starts[bench.record().id].topology == Topology(ranks=2, nodes=1, ways=("SHM",))


@on_bench
async def test_cards_in_two_machines_are_told_with_a_death_in_one_write(bench: Bench) -> None:
    await starting(bench, MET.replace("nNodes 1", "nNodes 2"), DIED)
    await watched_for(bench, 90)
    assert [line["detail"]["said"] for line in await bench.events("qualification.finding")] == ["no"]
    assert bench.store.book.starts[bench.record().id].cause == "out-of-memory"
