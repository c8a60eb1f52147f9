"""Does each look keep, read, probe and price what it should, and no more?"""

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import anyio
import pytest

from controller.core.book import Book
from controller.core.deployment import CreateAnswer, ProviderState
from controller.core.identity import ResourceKey
from controller.core.inventory import Present
from controller.core.lifecycle import Phase
from controller.core.readiness import Verdict
from controller.core.runtime import Scrape
from controller.core.shortage import Shortage
from controller.core.unlisted import Unlisted
from controller.providers.fake.adapter import Looked
from controller.providers.reading import Prices, Stock
from controller.store import deployments
from controller.store.transaction import Tx
from tests.tasks.observing import Port, key_of, watch
from tests.tasks.world import Bench, on_bench

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
async def test_each_read_asks_once_what_is_held(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not once for each read that is kept: with n machines in doubt that would be n cubed."""
    for slot in range(6):
        await bench.serve(f"qwen-{slot}", slot=slot)
    bench.provider.script.listings += [Looked.EMPTY, Looked.EMPTY]
    observer = bench.observer()
    await observer.run_pass()
    asked: list[Book] = []
    real = Book.held_keys

    def counted(book: Book) -> frozenset[ResourceKey]:
        asked.append(book)
        return real(book)

    monkeypatch.setattr(Book, "held_keys", counted)
    await bench.move(60)
    await observer.run_pass()
    assert len(bench.view.value.reads) == 6
    assert len(asked) <= 6 + 3


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


@on_bench
async def test_the_latest_probe_of_each_live_machine_is_kept_and_no_other(bench: Bench) -> None:
    one, other = await bench.serve(), await bench.serve("qwen-2", slot=1)
    observer = bench.observer()
    await observer.run_pass()
    await observer.run_pass()  # what the first one listed
    assert bench.view.value.probes.keys() == {one.id, other.id}
    await bench.store.write(lambda tx: tx.put_record(replace(tx.record(other.id), phase=Phase.STOPPED)))
    await bench.move(60)
    await observer.run_pass()
    assert bench.view.value.probes.keys() == {one.id}


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
async def test_prices_are_asked_for_every_half_hour_and_sooner_while_unknown(bench: Bench) -> None:
    watch(bench, bench.observer())
    await bench.move(130)
    assert bench.provider.calls["prices"] == 3
    bench.provider.prices = {"L40S": Decimal("0.79")}
    await bench.move(60)
    assert bench.view.value.usd_per_hour == {"L40S": Decimal("0.79")}
    before = bench.provider.calls["prices"]
    await bench.move(1790)
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
    read_at = bench.clock.now()
    await bench.move(60)
    await bench.observer(reading=Failing(bench.provider)).run_pass()
    assert bench.view.value.usd_per_hour == {"L40S": Decimal(1)}
    assert bench.view.value.priced_at == read_at


@on_bench
async def test_a_catalog_that_does_not_tell_its_types_leaves_what_is_known_of_them(bench: Bench) -> None:
    bench.provider.unlisted = {"qwen": (Unlisted(named="L40Z", offers=frozenset({"L40Z"}), nearest=("L40S",)),)}
    await bench.look()
    known, bench.provider.unlisted = bench.provider.unlisted, None
    await bench.look()
    assert bench.view.value.unlisted == known
    bench.provider.unlisted = {}
    await bench.look()
    assert bench.view.value.unlisted == {}


# Stock


def rounds(bench: Bench, refused: int) -> Callable[[Tx], object]:
    until = bench.clock.now() + timedelta(seconds=30)
    memory = bench.store.book.memory("qwen")
    return lambda tx: tx.put_memory(replace(memory, rounds=refused, next_round_at=until if refused else None))


@on_bench
async def test_stock_is_asked_for_only_while_what_somebody_waits_for_is_refused(bench: Bench) -> None:
    watch(bench, bench.observer())
    bench.wants.ask("qwen", now=bench.clock.now())
    await bench.move(35)
    assert bench.provider.calls["stock"] == 0
    bench.provider.sold_out = {"L40S"}
    await bench.store.write(rounds(bench, 1))
    await bench.move(1)
    assert bench.view.value.shortages["qwen"].offers == {"L40S"}
    await bench.move(20)  # the wish is forgotten after a minute
    assert bench.provider.calls["stock"] == 1


@on_bench
async def test_while_somebody_waits_stock_is_asked_for_every_thirty_seconds(bench: Bench) -> None:
    watch(bench, bench.observer())
    await bench.store.write(rounds(bench, 1))
    for _ in range(6):
        bench.wants.ask("qwen", now=bench.clock.now())
        await bench.move(20)
    assert bench.provider.calls["stock"] == 4


@on_bench
async def test_stock_is_asked_for_in_the_middle_of_a_round_once_an_offer_was_refused(bench: Bench) -> None:
    planned = await bench.plan()
    await bench.observer().run_pass()
    assert bench.provider.calls["stock"] == 0
    await bench.store.write(
        lambda tx: deployments.record_refused(tx, planned.create, CreateAnswer.REJECTED, detail="none")
    )
    await bench.observer().run_pass()
    assert bench.provider.calls["stock"] == 1


@on_bench
async def test_stock_that_cannot_be_read_leaves_the_known_one_to_age(bench: Bench) -> None:
    class Failing(Port):
        async def read_stock(self, model: str) -> Stock:
            return Stock(none_left=frozenset(), observed_at=bench.clock.now(), problem="scripted")

    known = Shortage(offers=frozenset({"L40S"}), at=bench.clock.now())
    bench.view.publish(replace(bench.view.value, shortages={"qwen": known}))
    bench.wants.ask("qwen", now=bench.clock.now())
    await bench.store.write(rounds(bench, 1))
    await bench.observer(reading=Failing(bench.provider)).run_pass()
    assert bench.view.value.shortages == {"qwen": known}


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


# What servers count about themselves


@on_bench
async def test_speeds_are_told_from_the_second_scrape_on_and_unknown_after_one_that_told_nothing(bench: Bench) -> None:
    record = await bench.serve()
    observer = bench.observer()
    await observer.run_pass()
    told: list[float | None] = []
    for tokens in (100.0, 700.0, None, 900.0):
        bench.prober.scrape = None if tokens is None else Scrape(answer_tokens=tokens)
        await bench.move(60)
        await observer.run_pass()
        runtime = bench.view.value.probes[record.id].runtime
        told.append(None if runtime is None else runtime.answer_rate)
    assert told == [None, 10.0, None, None]
