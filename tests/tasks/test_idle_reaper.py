"""Is what nobody uses stopped on time, and what somebody uses never?"""

from dataclasses import replace
from datetime import timedelta

import pytest

from controller.core.deployment import Record
from controller.core.evidence import StopReason
from controller.core.lifecycle import Phase
from controller.core.readiness import Verdict
from controller.core.runtime import Runtime, Scrape
from controller.core.schedule import Schedule, Window
from controller.core.view import Probed
from controller.store import deployments, holds
from controller.store.store import Store
from controller.store.stream_leases import StreamLeases
from controller.tasks.idle_reaper import IdleReaper
from tests.support.stores import overtake, unwritable
from tests.tasks.world import Bench, on_bench

IDLE_S = 1800


def reaper(bench: Bench) -> IdleReaper:
    return IdleReaper(
        store=bench.store,
        view=bench.view,
        stream_leases=bench.leases,
        policy=bench.policy,
        models={"qwen": bench.model},
    )


@pytest.mark.parametrize(("after_s", "phase"), [(IDLE_S - 0.001, Phase.ACTIVE), (IDLE_S, Phase.STOP_REQUIRED)])
@on_bench
async def test_what_never_served_is_idle_so_long_after_it_was_ready(bench: Bench, after_s: float, phase: Phase) -> None:
    await bench.serve()
    task = reaper(bench)
    await bench.move(after_s)
    await task.run_pass()
    assert bench.record().phase is phase


@on_bench
async def test_what_is_idle_is_owed_its_stop_where_nothing_can_be_written_too(bench: Bench) -> None:
    record = await bench.serve()
    task = reaper(bench)
    await bench.move(IDLE_S)
    with unwritable(bench.folder):
        await task.run_pass()
        assert (bench.record().reason, bench.duty(record).due) == (StopReason.IDLE, True)
        assert bench.record().drain_until == bench.clock.now() + bench.model.drain_limit


@on_bench
async def test_what_somebody_else_wrote_meanwhile_puts_the_stop_off_to_the_next_pass(bench: Bench) -> None:
    await bench.serve()
    task = reaper(bench)
    await bench.move(IDLE_S)
    overtake(bench.folder)
    await task.run_pass()
    assert bench.record().phase is Phase.ACTIVE
    await task.run_pass()
    assert bench.record().reason is StopReason.IDLE


@on_bench
async def test_a_request_that_comes_while_the_store_refuses_an_idle_stop_keeps_the_machine(bench: Bench) -> None:
    record = await bench.serve()
    task = reaper(bench)
    await bench.move(IDLE_S)
    bench.lock_store(meanwhile=lambda: bench.use(record))
    await task.run_pass()
    assert bench.record().phase is Phase.ACTIVE


@pytest.mark.parametrize(("after_s", "phase"), [(IDLE_S - 0.001, Phase.ACTIVE), (IDLE_S, Phase.STOP_REQUIRED)])
@on_bench
async def test_idle_time_counts_from_the_stored_last_byte(bench: Bench, after_s: float, phase: Phase) -> None:
    record = await bench.serve()
    task = reaper(bench)
    await bench.move(1000)
    now = bench.clock.now()
    await bench.store.write(lambda tx: deployments.record_last_byte(tx, record.id, at=now))
    await bench.move(after_s)
    await task.run_pass()
    assert bench.record().phase is phase


@on_bench
async def test_last_bytes_that_a_locked_store_did_not_take_are_stored_once_it_does(bench: Bench) -> None:
    record = await bench.serve()
    task = reaper(bench)
    await bench.move(1000)
    bench.leases.keep({record.id: bench.clock.now()})
    bench.store.unwritable_since = bench.clock.now()
    await task.run_pass()
    assert bench.record().last_byte_at is None
    bench.store.unwritable_since = None
    await task.run_pass()
    assert (bench.record().last_byte_at, bench.leases.unsaved) == (bench.clock.now(), {})


@pytest.mark.parametrize(("after_s", "phase"), [(3599.999, Phase.ACTIVE), (3600, Phase.STOP_REQUIRED)])
@on_bench
async def test_what_its_schedule_keeps_warm_is_idle_from_the_window_s_end_on(
    bench: Bench, after_s: float, phase: Phase
) -> None:
    begun = bench.clock.now()
    ends = (begun - begun.replace(hour=0, minute=0)) // timedelta(minutes=1) + 60
    window = Window(days=frozenset(range(7)), begin_minute=0, end_minute=ends)
    bench.model = replace(bench.model, schedule=Schedule(warm=(window,)))
    await bench.serve()
    task = reaper(bench)
    await bench.move(after_s)
    await task.run_pass()
    assert bench.record().phase is phase


@on_bench
async def test_a_pass_says_when_the_stop_falls_due(bench: Bench) -> None:
    await bench.serve()
    assert await reaper(bench).run_pass() == bench.clock.now() + timedelta(seconds=IDLE_S)


@on_bench
async def test_a_live_stream_lease_keeps_it_and_a_lapsed_one_does_not(bench: Bench) -> None:
    record = await bench.serve()
    task = reaper(bench)
    await bench.move(IDLE_S)
    bench.use(record)
    assert await task.run_pass() == bench.clock.now() + timedelta(seconds=30, milliseconds=1)
    await bench.move(30)
    await task.run_pass()
    assert bench.record().phase is Phase.ACTIVE
    for _ in range(59):
        assert bench.record().phase is Phase.ACTIVE
        await bench.move(30)
        await task.run_pass()
    assert (bench.record().phase, bench.record().reason) == (Phase.STOP_REQUIRED, StopReason.IDLE)


@on_bench
async def test_a_lease_without_open_requests_is_use_until_it_is_renewed_no_more(bench: Bench) -> None:
    record = await bench.serve()
    task = reaper(bench)
    await bench.move(IDLE_S)
    bench.use(record, open_requests=0)
    await task.run_pass()
    assert bench.record().phase is Phase.ACTIVE


@on_bench
async def test_a_request_between_decision_and_write_wins(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    record = await bench.serve()
    task, write = reaper(bench), bench.store.write
    await bench.move(IDLE_S)

    async def overtaken(store: Store, work: object) -> object:
        bench.use(record)
        return await write(work)  # type: ignore[arg-type]  # a transaction function, passed on

    monkeypatch.setattr(Store, "write", overtaken)
    await task.run_pass()
    monkeypatch.undo()
    assert bench.record().phase is Phase.ACTIVE


@on_bench
async def test_a_request_sent_on_just_before_the_stop_may_end(bench: Bench) -> None:
    await bench.serve()
    task = reaper(bench)
    await bench.move(IDLE_S)
    await task.run_pass()
    assert bench.record().drain_until == bench.clock.now() + bench.model.drain_limit


@pytest.mark.parametrize(("after_s", "phase"), [(29.999, Phase.ACTIVE), (30, Phase.STOP_REQUIRED)])
@on_bench
async def test_after_a_restart_gateways_have_one_lease_lifetime_to_speak(
    bench: Bench, after_s: float, phase: Phase
) -> None:
    await bench.serve()
    await bench.move(IDLE_S)
    await bench.restart()
    task = reaper(bench)
    await bench.move(after_s)
    await task.run_pass()
    assert bench.record().phase is phase


@pytest.mark.parametrize(("after_s", "phase"), [(29.999, Phase.ACTIVE), (30, Phase.STOP_REQUIRED)])
@on_bench
async def test_after_a_pause_of_ours_gateways_have_one_lease_lifetime_to_speak(
    bench: Bench, after_s: float, phase: Phase
) -> None:
    """B40: the process was stopped, or the machine slept, and the stream leases ran out meanwhile."""
    await bench.serve()
    task = reaper(bench)
    bench.store.clock.beat()
    bench.clock.suspend(timedelta(seconds=IDLE_S))
    await task.run_pass()
    await bench.look()
    for _ in range(2):
        await bench.move(after_s / 2)
        bench.store.clock.beat()
    await task.run_pass()
    assert bench.record().phase is phase


@pytest.mark.parametrize(("looked", "phase"), [(False, Phase.ACTIVE), (True, Phase.STOP_REQUIRED)])
@on_bench
async def test_after_a_pause_of_ours_nothing_is_idled_out_before_a_look_begun_since(
    bench: Bench, looked: bool, phase: Phase
) -> None:
    await bench.serve()
    task = reaper(bench)
    bench.store.clock.beat()
    bench.clock.suspend(timedelta(seconds=IDLE_S))
    bench.store.clock.beat()
    if looked:
        await bench.look()
    for _ in range(20):
        await bench.move(20)
        bench.store.clock.beat()
    await task.run_pass()
    assert bench.record().phase is phase


@on_bench
async def test_a_stream_that_goes_on_after_a_pause_of_ours_keeps_its_machine(bench: Bench) -> None:
    record = await bench.serve()
    task = reaper(bench)
    bench.store.clock.beat()
    bench.use(record)
    bench.clock.suspend(timedelta(hours=1))
    await task.run_pass()
    await bench.look()
    bench.use(record)  # its gateway renews
    await bench.move(30)
    await task.run_pass()
    assert bench.record().phase is Phase.ACTIVE


@on_bench
async def test_a_daemon_that_restarts_every_twenty_minutes_still_reaps(bench: Bench) -> None:
    await bench.serve()
    for _ in range(3):
        await bench.restart()
        task = reaper(bench)
        await bench.move(600)
        await task.run_pass()
        await bench.move(600)
    assert bench.record().phase is Phase.STOP_REQUIRED


@pytest.mark.parametrize(("after_s", "phase"), [(2399.999, Phase.ACTIVE), (2400, Phase.STOP_REQUIRED)])
@on_bench
async def test_it_is_never_reaped_sooner_than_a_cold_start_takes(bench: Bench, after_s: float, phase: Phase) -> None:
    await bench.serve()
    await bench.store.write(lambda tx: holds.note_cold_start(tx, "qwen", took=timedelta(seconds=2400)))
    task = reaper(bench)
    await bench.move(after_s)
    await task.run_pass()
    assert bench.record().phase is phase


@pytest.mark.parametrize("what", ["starting", "not configured", "stopping"])
@on_bench
async def test_what_does_not_serve_is_left_to_others(bench: Bench, what: str) -> None:
    record: Record
    match what:
        case "starting":
            record = await bench.start()
        case "not configured":
            record = await bench.serve("other-1", model="other")
        case _:
            record = await bench.serve()
            await bench.require_stop(record)
    before = bench.record(record.id)
    task = reaper(bench)
    await bench.move(10 * IDLE_S)
    assert await task.run_pass() is None
    assert bench.record(record.id) == before


@on_bench
async def test_the_default_idle_limit_is_finite(bench: Bench) -> None:
    await bench.serve()
    bench.model = replace(bench.model, idle_after=timedelta(hours=24))  # the most that a config may say
    task = reaper(bench)
    await bench.move(24 * 3600)
    await task.run_pass()
    assert bench.record().phase is Phase.STOP_REQUIRED


def witness(bench: Bench, record: Record, scrape: Scrape) -> None:
    """Its server was just asked what it counts."""
    now = bench.clock.now()
    probed = Probed(verdict=Verdict.READY, served=None, detail="", at=now, runtime=Runtime(at=now, scrape=scrape))
    bench.view.publish(replace(bench.view.value, probes={record.id: probed}))


@pytest.mark.parametrize(
    ("scrape", "phase"),
    [
        (Scrape(running=1.0), Phase.ACTIVE),
        (Scrape(running=0.0), Phase.STOP_REQUIRED),
        (Scrape(cache_use=0.5), Phase.STOP_REQUIRED),
    ],
)
@on_bench
async def test_a_server_that_says_it_works_for_somebody_is_a_second_witness(
    bench: Bench, scrape: Scrape, phase: Phase
) -> None:
    record = await bench.serve()
    task = reaper(bench)
    await bench.move(IDLE_S - 10)
    witness(bench, record, scrape)
    await bench.move(10)
    await task.run_pass()
    assert bench.record().phase is phase


@pytest.mark.parametrize(("after_s", "phase"), [(2 * IDLE_S - 0.001, Phase.ACTIVE), (2 * IDLE_S, Phase.STOP_REQUIRED)])
@on_bench
async def test_the_witness_postpones_an_idle_stop_by_one_idle_time_at_most(
    bench: Bench, after_s: float, phase: Phase
) -> None:
    record = await bench.serve()
    task = reaper(bench)
    await bench.move(after_s)
    witness(bench, record, Scrape(running=1.0))
    await task.run_pass()
    assert bench.record().phase is phase


@on_bench
async def test_what_the_server_said_before_the_last_byte_is_no_witness(bench: Bench) -> None:
    record = await bench.serve()
    task = reaper(bench)
    await bench.move(1000)
    witness(bench, record, Scrape(running=1.0))
    now = bench.clock.now()
    await bench.store.write(lambda tx: deployments.record_last_byte(tx, record.id, at=now))
    await bench.move(IDLE_S)
    await task.run_pass()
    assert bench.record().phase is Phase.STOP_REQUIRED


@on_bench
async def test_a_stream_lease_that_lapses_in_the_midst_of_a_pass_fails_no_pass(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.use(await bench.serve())
    monkeypatch.setattr(StreamLeases, "lapses_at", lambda leases, deployment, *, now: None)
    assert await reaper(bench).run_pass() is None
