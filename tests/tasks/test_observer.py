"""Does the one eye look often enough, not too often, and keep what it saw?"""

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from functools import partial

import anyio
import pytest

from controller.core.deployment import ProviderState, Record
from controller.core.identity import ResourceKey
from controller.core.inventory import Listing, Present, Read
from controller.core.orphans import Sighting, Whose
from controller.core.readiness import Verdict
from controller.providers.fake.adapter import FakeProvider, Looked
from controller.providers.reading import Prices
from controller.store import duties
from controller.supervision import Pulse, Runner, Wake, keep_running
from controller.tasks.observer import Observer
from tests.tasks.world import Bench, on_bench


class Port:
    """The provider's reading port, with the seconds at which it was asked and something done meanwhile."""

    def __init__(self, provider: FakeProvider) -> None:
        self._provider = provider
        self.listed_s: list[float] = []
        self.read_keys: list[ResourceKey] = []
        self.meanwhile: Callable[[], object] = lambda: None
        self.takes_s = 0.0
        self.at_once = 0
        self.at_once_most = 0

    async def list_resources(self) -> Listing:
        self.listed_s.append(anyio.current_time())
        listing = await self._provider.list_resources()
        self.meanwhile()
        await anyio.sleep(self.takes_s)
        return replace(listing, ended_at=listing.ended_at + timedelta(seconds=self.takes_s))

    async def read_resource(self, key: ResourceKey) -> Read:
        self.read_keys.append(key)
        self.at_once += 1
        self.at_once_most = max(self.at_once_most, self.at_once)
        await anyio.lowlevel.checkpoint()
        self.at_once -= 1
        return await self._provider.read_resource(key)

    async def read_prices(self) -> Prices:
        return await self._provider.read_prices()


def key_of(record: Record) -> ResourceKey:
    assert record.key is not None
    return record.key


def watch(bench: Bench, observer: Observer) -> Runner:
    """Let it look under supervision."""
    pulse = Pulse(name="observer", period=observer.period, last_pass_at=bench.clock.now())
    runner = Runner(task=observer, wake=Wake(), pulse=pulse)
    bench.store.on_change(runner.wake.ring)
    bench.group.start_soon(partial(keep_running, runner, clock=bench.clock, failures_max=3))
    return runner


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


@pytest.mark.parametrize("what", ["declared", "requested", "uncertain", "owed", "orphan", "copied"])
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
        case _:
            await sighted(bench, Whose(what.replace("orphan", "ours")))
    assert await rhythm(bench, for_s=300) == 15


@on_bench
async def test_a_foreign_resource_makes_no_hurry(bench: Bench) -> None:
    await sighted(bench, Whose.FOREIGN)
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


@pytest.mark.parametrize(("fresh", "gap_s"), [(False, 0), (True, 9)])
@on_bench
async def test_a_wish_without_a_fresh_listing_makes_it_list_at_once(bench: Bench, fresh: bool, gap_s: float) -> None:
    port = Port(bench.provider)
    observer = bench.observer(reading=port)
    await observer.run_pass()
    await bench.move(6)
    if not fresh:
        bench.view.publish(replace(bench.view.value, completed=None))
    bench.wants.ask("qwen", now=bench.clock.now())
    until = await observer.run_pass()
    assert until is not None
    due_s = (until - bench.clock.now()).total_seconds()
    assert port.listed_s == ([0] if fresh else [0, 6])
    assert due_s == (gap_s if fresh else 15)


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


# What is kept


@on_bench
async def test_a_failed_listing_keeps_what_was_seen(bench: Bench) -> None:
    record = await bench.serve()
    observer = bench.observer()
    await observer.run_pass()
    before = bench.view.value
    bench.provider.script.listings.append(Looked.FAILED)
    await bench.move(60)
    await observer.run_pass()
    view = bench.view.value
    assert (view.completed, view.sighted[key_of(record)]) == (before.completed, before.sighted[key_of(record)])
    assert view.failing_since == bench.clock.now()
    assert view.absences.keys == {}


@on_bench
async def test_the_begin_of_an_outage_is_kept_and_ends_with_a_complete_listing(bench: Bench) -> None:
    bench.provider.script.listings += [Looked.FAILED, Looked.PARTIAL]
    observer, since = bench.observer(), bench.clock.now()
    for failing in (since, since, None):
        await observer.run_pass()
        assert bench.view.value.failing_since == failing
        await bench.move(15)


@on_bench
async def test_absences_are_followed_and_broken_by_a_sighting(bench: Bench) -> None:
    record, observer = await bench.serve(), bench.observer()
    began = bench.clock.now()
    bench.provider.script.listings += [Looked.EMPTY, Looked.EMPTY]
    await observer.run_pass()
    await bench.move(60)
    await observer.run_pass()
    absence = bench.view.value.absences.keys[key_of(record)]
    assert (absence.first, absence.last) == (began, began + timedelta(seconds=60))
    await bench.move(60)
    await observer.run_pass()
    assert bench.view.value.absences.keys == {}


@on_bench
async def test_a_key_that_came_on_record_while_it_listed_is_not_absent(bench: Bench) -> None:
    planned = await bench.submit()
    port = Port(bench.provider)
    port.takes_s = 5
    observer = bench.observer(reading=port)
    async with anyio.create_task_group() as group:
        group.start_soon(observer.run_pass)
        await bench.move(1)
        await bench.accept(planned)
    assert bench.view.value.absences.keys == {}


@on_bench
async def test_a_renamed_resource_keeps_its_recorded_key(bench: Bench) -> None:
    record = await bench.serve()
    (seen,) = bench.provider.resources
    bench.provider.vanish(seen.key)
    bench.provider.put(replace(seen, key=replace(seen.key, name="renamed-by-hand")))
    view = await bench.look()
    assert view.resource(key_of(record)) is not None
    assert view.absences.keys == {}


@on_bench
async def test_another_account_s_resource_of_the_same_incarnation_is_not_ours(bench: Bench) -> None:
    record = await bench.serve()
    (seen,) = bench.provider.resources
    bench.provider.vanish(seen.key)
    bench.provider.put(replace(seen, key=replace(seen.key, account="other")))
    assert (await bench.look()).resource(key_of(record)) is None


@on_bench
async def test_the_time_is_trusted_only_where_the_provider_s_agrees(bench: Bench) -> None:
    class Wrong(Port):
        async def list_resources(self) -> Listing:
            listing = await super().list_resources()
            return replace(listing, provider_time=listing.ended_at + timedelta(seconds=60.001))

    trusted: list[bool] = []
    bench.store.trust_time = lambda: trusted.append(True)  # type: ignore[method-assign]
    await bench.observer(reading=Wrong(bench.provider)).run_pass()
    assert trusted == []
    await bench.observer().run_pass()
    assert trusted == [True]


# Reads


@on_bench
async def test_only_what_is_doubtful_is_read(bench: Bench) -> None:
    lost, stopped, _ = [await bench.serve(f"qwen-{n}", slot=n) for n in range(3)]
    duty = await bench.require_stop(stopped)
    bench.provider.vanish(key_of(lost))
    (await bench.executor()).stop(duty)
    await bench.settle()
    port = Port(bench.provider)
    await bench.observer(reading=port).run_pass()
    assert set(port.read_keys) == {lost.key, stopped.key}


@on_bench
async def test_a_failed_listing_makes_nothing_doubtful_but_what_is_being_stopped(bench: Bench) -> None:
    _, stopped = [await bench.serve(f"qwen-{n}", slot=n) for n in range(2)]
    (await bench.executor()).stop(await bench.require_stop(stopped))
    await bench.settle()
    bench.provider.script.listings.append(Looked.FAILED)
    port = Port(bench.provider)
    await bench.observer(reading=port).run_pass()
    assert port.read_keys == [stopped.key]


@on_bench
async def test_a_read_that_shows_it_is_a_sighting(bench: Bench) -> None:
    record = await bench.serve()
    bench.provider.script.listings.append(Looked.EMPTY)
    view = await bench.look()
    assert isinstance(view.reads[key_of(record)], Present)
    assert view.sighted[key_of(record)] == bench.clock.now()


@on_bench
async def test_so_many_reads_and_no_more_are_made_at_once(bench: Bench) -> None:
    bench.policy = replace(bench.policy, max_active=64, usd_per_day=Decimal(10_000))
    for number in range(20):
        await bench.start(f"qwen-{number}", slot=number)
    bench.provider.script.listings.append(Looked.EMPTY)
    port = Port(bench.provider)
    await bench.observer(reading=port).run_pass()
    assert (len(port.read_keys), port.at_once_most) == (20, 8)


# Probes


async def probed_s(bench: Bench, *, for_s: float) -> list[float]:
    watch(bench, bench.observer())
    await bench.move(for_s)
    return [second for second, _ in bench.prober.asked]


@on_bench
async def test_a_starting_machine_is_probed_every_five_seconds(bench: Bench) -> None:
    await bench.start()
    bench.prober.verdict = Verdict.NOT_READY
    assert await probed_s(bench, for_s=22) == pytest.approx([0, 5, 10, 15, 20], abs=0.02)


@on_bench
async def test_a_serving_machine_is_probed_every_minute(bench: Bench) -> None:
    await bench.serve()
    assert await probed_s(bench, for_s=200) == pytest.approx([0, 60, 120, 180], abs=0.02)


@on_bench
async def test_a_machine_that_stopped_serving_is_probed_every_five_seconds(bench: Bench) -> None:
    await bench.serve()
    bench.prober.verdict = Verdict.UNREACHABLE
    assert await probed_s(bench, for_s=12) == pytest.approx([0, 5, 10], abs=0.02)


@pytest.mark.parametrize("why", ["stopping", "no endpoint", "not configured"])
@on_bench
async def test_what_cannot_or_need_not_be_probed_is_not(bench: Bench, why: str) -> None:
    if why == "not configured":
        await bench.serve("other-1", model="other")
    else:
        record = await bench.serve()
        if why == "stopping":
            await bench.require_stop(record)
        else:
            seen = bench.provider.described(key_of(record), tags=bench.tags(), state=ProviderState.PENDING)
            bench.provider.put(seen)
    until = await bench.observer().run_pass()
    assert bench.prober.asked == []
    assert until is not None
    assert until > bench.clock.now()


# Prices


@on_bench
async def test_prices_are_asked_for_every_ten_minutes_and_sooner_while_unknown(bench: Bench) -> None:
    watch(bench, bench.observer())
    await bench.move(130)
    assert bench.provider.calls["prices"] == 3
    bench.provider.prices = {"L40S": Decimal("0.79")}
    await bench.move(60)
    assert bench.view.value.usd_per_hour == {"L40S": Decimal("0.79")}
    before = bench.provider.calls["prices"]
    await bench.move(590)
    assert bench.provider.calls["prices"] == before
    await bench.move(20)
    assert bench.provider.calls["prices"] == before + 1


@on_bench
async def test_prices_that_cannot_be_read_leave_the_known_ones(bench: Bench) -> None:
    class Failing(Port):
        async def read_prices(self) -> Prices:
            return Prices(usd_per_hour={}, observed_at=bench.clock.now(), problem="scripted")

    bench.provider.prices = {"L40S": Decimal(1)}
    await bench.look()
    await bench.observer(reading=Failing(bench.provider)).run_pass()
    assert bench.view.value.usd_per_hour == {"L40S": Decimal(1)}


# Bounds


@on_bench
async def test_ten_thousand_resources_are_one_listing_and_little_work(bench: Bench) -> None:
    record = await bench.serve()
    template = bench.stray()
    for number in range(10_000):
        key = replace(template.key, name=f"n{number}", incarnation=f"i{number}")
        bench.provider.put(replace(template, key=key))
    observer, began = bench.observer(), time.process_time()
    await observer.run_pass()
    await observer.run_pass()
    assert time.process_time() - began < 2
    assert (bench.provider.calls["list"], bench.provider.calls["read"]) == (1, 0)
    assert bench.view.value.resource(key_of(record)) is not None
    assert len(bench.prober.asked) == 1


@on_bench
async def test_a_hanging_listing_is_seen_as_silence(bench: Bench) -> None:
    port = Port(bench.provider)
    port.takes_s = 1e6
    runner = watch(bench, bench.observer(reading=port))
    await bench.move(3 * 330 + 1)
    assert runner.pulse.silent(bench.clock.now())


@on_bench
async def test_looking_allocates_nothing(bench: Bench) -> None:
    await bench.lose()
    watch(bench, bench.observer())
    before = bench.store.book.seq_latest
    await bench.move(600)
    assert (bench.provider.calls["create"], bench.provider.calls["stop"]) == (0, 0)
    assert bench.store.book.seq_latest == before
