"""Is a doubt laid before the gateways, and a stop owed only where no token came and the counts still stand?"""

from dataclasses import replace

import pytest

from controller.core.deployment import Record
from controller.core.evidence import StopReason
from controller.core.lifecycle import Phase
from controller.core.readiness import Verdict
from controller.core.runtime import Runtime, Scrape
from controller.core.view import Probed
from controller.store.doubts import Doubts
from controller.tasks.hang_detector import HangDetector
from tests.support.stores import overtake
from tests.tasks.world import Bench, on_bench

HELD = Scrape(running=1.0, steps=7.0)


class Watch:
    """A detector on a bench, and one machine that serves."""

    def __init__(self, bench: Bench, record: Record) -> None:
        self.bench, self.record, self.doubts = bench, record, Doubts()
        self.task = HangDetector(
            store=bench.store,
            view=bench.view,
            stream_leases=bench.leases,
            doubts=self.doubts,
            policy=bench.policy,
        )

    async def scrape(self, scrape: Scrape | None = HELD, *, after_s: float = 60) -> None:
        await self.bench.move(after_s)
        now = self.bench.clock.now()
        runtime = None if scrape is None else Runtime(at=now, scrape=scrape)
        probed = Probed(verdict=Verdict.READY, served=None, detail="", at=now, runtime=runtime)
        self.bench.view.publish(replace(self.bench.view.value, probes={self.record.id: probed}))
        await self.task.run_pass()

    async def asked(self, *, came: bool) -> None:
        self.doubts.tell(self.record.id, came=came, at=self.bench.clock.now())
        await self.task.run_pass()

    @property
    def doubted(self) -> bool:
        return self.doubts.holds(self.record.id)


async def watch(bench: Bench) -> Watch:
    return Watch(bench, await bench.serve())


@pytest.mark.parametrize(("last_s", "doubted"), [(59.999, False), (60, True)])
@on_bench
async def test_a_doubt_begins_after_five_minutes_of_standstill(bench: Bench, last_s: float, doubted: bool) -> None:
    found = await watch(bench)
    for after_s in (60, 60, 60, 60, 60, last_s):
        await found.scrape(after_s=after_s)
    assert found.doubted is doubted


async def in_doubt(bench: Bench) -> Watch:
    found = await watch(bench)
    for _ in range(6):
        await found.scrape()
    assert found.doubted
    return found


@on_bench
async def test_what_somebody_else_wrote_meanwhile_puts_the_stop_off_to_the_next_pass(bench: Bench) -> None:
    found = await in_doubt(bench)
    await bench.move(60)
    await found.asked(came=False)
    overtake(bench.folder)
    await found.scrape()
    assert bench.record().phase is Phase.ACTIVE
    await found.scrape()
    assert bench.record().reason is StopReason.HUNG


@on_bench
async def test_no_token_and_another_scrape_that_shows_the_same_owe_the_stop(bench: Bench) -> None:
    found = await in_doubt(bench)
    await bench.move(60)
    await found.asked(came=False)
    assert bench.record().phase is Phase.ACTIVE
    await found.scrape(after_s=0.001)
    assert (bench.record().phase, bench.record().reason) == (Phase.STOP_REQUIRED, StopReason.HUNG)
    await found.task.run_pass()
    assert not found.doubted


@pytest.mark.parametrize("moved", [replace(HELD, steps=8.0), replace(HELD, running=0.0), None])
@on_bench
async def test_what_moved_ended_or_was_not_told_after_the_question_ends_the_doubt(
    bench: Bench, moved: Scrape | None
) -> None:
    found = await in_doubt(bench)
    await found.asked(came=False)
    await found.scrape(moved)
    assert (bench.record().phase, found.doubted) == (Phase.ACTIVE, False)


@on_bench
async def test_a_token_that_came_ends_the_doubt_and_the_next_one_takes_as_long(bench: Bench) -> None:
    found = await in_doubt(bench)
    await found.asked(came=True)
    assert not found.doubted
    for _ in range(4):
        await found.scrape()
    assert not found.doubted
    await found.scrape()
    assert found.doubted


@on_bench
async def test_requests_that_only_gateways_know_of_count_as_open(bench: Bench) -> None:
    found = await watch(bench)
    for _ in range(6):
        bench.use(found.record)
        await found.scrape(replace(HELD, running=0.0), after_s=30)
        bench.use(found.record)
        await bench.move(30)
    await found.scrape(replace(HELD, running=0.0), after_s=0)
    assert found.doubted


@on_bench
async def test_what_was_not_probed_yet_says_nothing(bench: Bench) -> None:
    found = await watch(bench)
    await found.task.run_pass()
    assert (bench.record().phase, found.doubted) == (Phase.ACTIVE, False)


@on_bench
async def test_a_request_that_begins_between_two_looks_stands_still_from_the_second_on(bench: Bench) -> None:
    found = await watch(bench)
    await found.scrape(replace(HELD, running=0.0))
    bench.use(found.record)
    await found.task.run_pass()
    for _ in range(5):
        await found.scrape()
    assert not found.doubted
    await found.scrape()
    assert found.doubted


@on_bench
async def test_a_machine_that_is_gone_is_doubted_no_more(bench: Bench) -> None:
    found = await in_doubt(bench)
    await bench.require_stop(found.record)
    await found.task.run_pass()
    assert not found.doubted
