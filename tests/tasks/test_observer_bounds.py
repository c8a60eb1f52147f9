"""At which instant is each look due, and what does no look ask for or keep?"""

from dataclasses import replace
from datetime import timedelta

import pytest

from controller.core.deployment import CreateAnswer, Record
from controller.core.evidence import Evidence, EvidenceKind, StopReason
from controller.core.identity import Tags
from controller.core.inventory import Listing
from controller.core.readiness import Verdict
from controller.providers.fake.adapter import Looked
from controller.store import deployments, duties
from tests.tasks.observing import Port, key_of, looked_again, told
from tests.tasks.world import Bench, on_bench

# When


@pytest.mark.parametrize(("after_s", "times"), [(14.999, 0), (15, 1)])
@on_bench
async def test_it_lists_fifteen_seconds_after_the_last_listing_began(bench: Bench, after_s: float, times: int) -> None:
    observer = bench.observer()
    await observer.run_pass()
    assert await looked_again(bench, observer, "list", after_s=after_s) == times


@pytest.mark.parametrize(("age_s", "every_s"), [(599.999, 15), (600, 300)])
@on_bench
async def test_the_fast_rhythm_after_a_start_ends_after_ten_minutes(bench: Bench, age_s: float, every_s: float) -> None:
    observer = bench.observer()
    await bench.move(age_s)
    assert observer.interval(bench.store.book) == timedelta(seconds=every_s)


@pytest.mark.parametrize(("priced", "after_s", "times"), [(0, 59.999, 0), (0, 60, 1), (1, 1799.999, 0), (1, 1800, 1)])
@on_bench
async def test_prices_are_due_after_a_minute_while_unknown_and_after_half_an_hour_else(
    bench: Bench, priced: int, after_s: float, times: int
) -> None:
    bench.provider.prices = {"L40S": bench.policy.usd_per_day} if priced else {}
    observer = bench.observer()
    await observer.run_pass()
    assert await looked_again(bench, observer, "prices", after_s=after_s) == times


@pytest.mark.parametrize(("after_s", "times"), [(7199.999, 0), (7200, 1)])
@on_bench
async def test_the_bill_of_what_lives_is_due_once_its_first_hour_can_be_on_it(
    bench: Bench, after_s: float, times: int
) -> None:
    await bench.serve()
    observer = bench.observer()
    await observer.run_pass()
    assert await looked_again(bench, observer, "bill", after_s=after_s) == times


@on_bench
async def test_a_pass_says_when_the_bill_is_due(bench: Bench) -> None:
    await bench.serve()
    observer = bench.observer()
    await observer.run_pass()
    await bench.move(7190)
    assert await observer.run_pass() == bench.clock.now() + timedelta(seconds=10)


@on_bench
async def test_while_nothing_lives_and_nothing_ended_lately_no_bill_is_asked_for(bench: Bench) -> None:
    await bench.plan()
    await bench.lose("qwen-2", slot=1)
    observer = bench.observer()
    await observer.run_pass()
    assert await looked_again(bench, observer, "bill", after_s=72 * 3600) == 0


@on_bench
async def test_the_bill_is_asked_for_from_when_the_first_of_which_a_key_is_known_began(bench: Bench) -> None:
    await bench.plan()
    await bench.lose("qwen-2", slot=1)
    await bench.move(3 * 3600)
    began_at = bench.clock.now()
    await bench.serve("qwen-3", slot=2)
    await bench.move(2 * 3600)
    bill = (await bench.look()).bill
    assert bill is not None
    assert bill.since == began_at - timedelta(hours=1)


@pytest.mark.parametrize(("after_s", "times"), [(29.999, 0), (30, 1)])
@on_bench
async def test_stock_is_due_thirty_seconds_after_it_was_asked_for(bench: Bench, after_s: float, times: int) -> None:
    planned = await bench.plan()
    refused = CreateAnswer.REJECTED
    await bench.store.write(lambda tx: deployments.record_refused(tx, planned.create, refused, detail="none"))
    observer = bench.observer()
    await observer.run_pass()
    assert await looked_again(bench, observer, "stock", after_s=after_s) == times


@pytest.mark.parametrize("answer", [CreateAnswer.NOT_SENT, None])
@on_bench
async def test_no_stock_is_asked_for_while_no_offer_was_refused(bench: Bench, answer: CreateAnswer | None) -> None:
    planned = await bench.plan()
    if answer is not None:
        await bench.store.write(lambda tx: deployments.record_refused(tx, planned.create, answer, detail="none"))
    await bench.observer().run_pass()
    assert bench.provider.calls["stock"] == 0


@on_bench
async def test_no_stock_is_asked_for_once_a_later_offer_was_taken(bench: Bench) -> None:
    planned = await bench.plan()
    refused = CreateAnswer.REJECTED
    await bench.store.write(lambda tx: deployments.record_refused(tx, planned.create, refused, detail="none"))
    following = await bench.store.write(lambda tx: deployments.plan(tx, tx.record(planned.record.id), offer="A40"))
    request = following.create.request
    create = await bench.store.write(lambda tx: deployments.mark_submitting(tx, request, holder=bench.holder))
    await bench.accept(replace(following, create=create))
    await bench.observer().run_pass()
    assert bench.provider.calls["stock"] == 0


@pytest.mark.parametrize("verdict", [Verdict.NOT_READY, Verdict.READY])
@pytest.mark.parametrize(("after_s", "times"), [(4.999, 0), (5, 1)])
@on_bench
async def test_a_starting_machine_is_due_for_a_probe_after_five_seconds(
    bench: Bench, after_s: float, times: int, verdict: Verdict
) -> None:
    await bench.start()
    bench.prober.verdict = verdict
    observer = bench.observer()
    await observer.run_pass()
    await observer.run_pass()
    await bench.move(after_s)
    await observer.run_pass()
    assert len(bench.prober.asked) == 1 + times


# Pauses


@pytest.mark.parametrize(("after_ms", "due_s"), [(0, 60), (1, 1)])
@on_bench
async def test_after_a_pause_it_lists_at_once_unless_it_did_since(bench: Bench, after_ms: int, due_s: float) -> None:
    await bench.serve()
    observer = bench.observer()
    await bench.move(600)
    await observer.run_pass()
    listed_at = bench.clock.now()
    bench.store.clock.resumed_at = listed_at + timedelta(milliseconds=after_ms)
    bench.prober.asked.clear()
    until = await observer.run_pass()
    assert until == listed_at + timedelta(seconds=due_s)


@on_bench
async def test_absences_from_before_a_pause_of_ours_do_not_count(bench: Bench) -> None:
    record, observer = await bench.serve(), bench.observer()
    bench.provider.script.listings += [Looked.EMPTY] * 4
    await observer.run_pass()
    await bench.move(60)
    bench.store.clock.resumed_at = bench.clock.now()
    await observer.run_pass()
    assert bench.view.value.absences.keys == {}
    await bench.move(60)
    began = bench.clock.now()
    await observer.run_pass()
    await bench.move(60)
    await observer.run_pass()
    absence = bench.view.value.absences.keys[key_of(record)]
    assert (absence.first, absence.last) == (began, began + timedelta(seconds=60))


# What no listing asks for or keeps


@pytest.mark.parametrize(("owner", "witnessed"), [("acme", 70), ("somebody", 0)])
@on_bench
async def test_only_an_epoch_under_our_own_marks_is_witnessed(bench: Bench, owner: str, witnessed: int) -> None:
    bench.stray(tags=replace(bench.tags("rlost", epoch=70), owner=owner))
    before = bench.store.book.epoch_latest
    await bench.look()
    granted = await bench.store.write(lambda tx: tx.next_epoch())
    assert (granted > 70) is (witnessed == 70)
    assert (granted == before + 1) is (witnessed == 0)


async def settled(bench: Bench, record: Record) -> None:
    proof = Evidence(kind=EvidenceKind.EXTERNAL_CONFIRMATION, reference="x", observed_at=bench.clock.now())
    duty = bench.duty(record)
    await bench.store.write(lambda tx: deployments.discharge(tx, duty.id, proof))


@on_bench
async def test_what_is_not_owed_any_more_is_followed_and_read_no_longer(bench: Bench) -> None:
    lost, ended = await bench.lose(), await bench.serve("qwen-2", slot=1)
    await bench.require_stop(ended)
    bench.provider.vanish(key_of(ended))
    view = await bench.look()
    assert (set(view.reads), set(view.absences.keys)) == ({ended.key}, {ended.key})
    assert set(view.absences.requests) == {lost.request for lost in bench.store.book.creates.values()}
    await settled(bench, ended)
    await settled(bench, lost)
    await bench.move(300)
    port = Port(bench.provider)
    await bench.observer(reading=port).run_pass()
    view = bench.view.value
    assert (port.read_keys, view.absences.keys, view.absences.requests) == ([], {}, {})


@on_bench
async def test_of_what_nobody_holds_no_sighting_and_no_read_is_kept(bench: Bench) -> None:
    gone, record = await bench.serve(), await bench.serve("qwen-2", slot=1)
    stray = bench.stray()
    await bench.require_stop(gone)
    for key in (key_of(gone), key_of(record)):
        bench.provider.vanish(key)
    view = await bench.look()
    assert (set(view.reads), stray.key in view.sighted) == ({gone.key, record.key}, True)
    await settled(bench, gone)
    bench.provider.vanish(stray.key)
    view = await bench.look()
    assert set(view.reads) == {record.key}
    assert stray.key not in view.sighted


@on_bench
async def test_what_was_seen_once_stays_so_in_a_listing_that_lacks_it(bench: Bench) -> None:
    record, at = await bench.serve(), bench.clock.now()
    await bench.look()
    bench.provider.vanish(key_of(record))
    await bench.move(60)
    assert (await bench.look()).sighted == {record.key: at}


@on_bench
async def test_a_duty_of_which_nobody_knows_the_key_is_not_read(bench: Bench) -> None:
    await bench.lose()
    port = Port(bench.provider)
    await bench.observer(reading=port).run_pass()
    assert port.read_keys == []


@on_bench
async def test_a_first_listing_that_broke_is_made_again_after_a_second(bench: Bench) -> None:
    class Breaking(Port):
        async def list_resources(self) -> Listing:
            if not self.listed_s:
                self.listed_s.append(0)
                raise RuntimeError("scripted")
            return await super().list_resources()

    port = Breaking(bench.provider)
    observer = bench.observer(reading=port)
    with pytest.raises(ExceptionGroup):
        await observer.run_pass()
    for wait_s, listed in ((0.999, 1), (0.001, 2)):
        await bench.move(wait_s)
        await observer.run_pass()
        assert len(port.listed_s) == listed


# Probes


@pytest.mark.parametrize("server", ["vllm", "llama_cpp"])
@on_bench
async def test_a_server_is_probed_as_what_it_is(bench: Bench, server: str) -> None:
    await bench.serve()
    observer = told(bench, server=server)
    await observer.run_pass()
    await observer.run_pass()
    assert [target.server for _, target in bench.prober.asked] == [server]


@on_bench
async def test_of_what_does_not_live_any_more_no_probe_and_no_log_is_kept(bench: Bench) -> None:
    ended, record = await bench.start(), await bench.start("qwen-2", slot=1)
    await bench.look()
    await bench.move(60)
    assert set((await bench.look()).logs) == {ended.id, record.id}
    bench.provider.vanish(key_of(ended))
    await settled(bench, ended)
    await bench.move(60)
    view = await bench.look()
    assert (set(view.probes), set(view.logs)) == ({record.id}, {record.id})


@on_bench
async def test_a_machine_that_took_long_to_start_makes_no_hurry_once_it_serves(bench: Bench) -> None:
    record = await bench.start()
    bench.prober.verdict = Verdict.NOT_READY
    observer = bench.observer()
    await bench.move(700)
    await observer.run_pass()
    await observer.run_pass()
    assert len(bench.prober.asked) == 1
    await bench.store.write(lambda tx: deployments.record_ready(tx, record))
    assert observer.interval(bench.store.book) == timedelta(seconds=60)


@on_bench
async def test_an_orphan_s_duty_without_a_request_is_followed_by_its_key_alone(bench: Bench) -> None:
    seen = bench.stray(tags=Tags())
    await bench.store.write(
        lambda tx: duties.open_stray(tx, seen, StopReason.ORPHAN, holder=bench.holder, policy=bench.policy)
    )
    bench.provider.vanish(seen.key)
    view = await bench.look()
    assert (set(view.absences.keys), view.absences.requests) == ({seen.key}, {})
