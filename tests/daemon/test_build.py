"""What does a daemon take over when it is built, and what does it do in each mode?"""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import anyio
import pytest

from controller.core.evidence import StopReason
from controller.core.lifecycle import Phase
from controller.core.obligation import Ending
from controller.daemon.built import Daemon, Mode, Seams
from controller.daemon.launches import fleet
from controller.daemon.wiring import Ports, Wiring, wire
from controller.ids import SeededRandomness
from controller.settings import load
from controller.store.elapsed import Ceilings
from tests.daemon.world import built, owe, write_config
from tests.support.loop_clock import HandClock
from tests.tasks.world import Bench, at_once, on_bench

TASKS = {path.stem for path in (Path(__file__).parents[2] / "controller/tasks").glob("*.py")} - {"__init__", "executor"}


async def rebuilt(folder: Path, clock: HandClock, *, extra: str = "") -> tuple[bool, list[str]]:
    """Build once more; returns the account's trust and the alarms that stand."""
    async with built(load(write_config(folder, extra=extra, keys=()), {}), clock=clock) as daemon:
        return daemon.store.book.account.trusted, [name for name, _ in daemon.store.book.alarms]


@pytest.mark.parametrize(("owing", "trusted"), [(True, False), (False, True)])
async def test_a_new_key_is_doubted_only_while_something_is_owed(tmp_path: Path, owing: bool, trusted: bool) -> None:
    clock, config = HandClock(), write_config(tmp_path)
    async with built(load(config, {}), clock=clock) as daemon:
        if owing:
            await owe(daemon)
    (tmp_path / "keys" / "runpod").write_text("another-key")
    assert await rebuilt(tmp_path, clock) == (trusted, [] if trusted else ["account-changed"])


async def test_the_same_key_is_no_news(tmp_path: Path) -> None:
    clock = HandClock()
    async with built(load(write_config(tmp_path), {}), clock=clock) as daemon:
        await owe(daemon)
    assert await rebuilt(tmp_path, clock) == (True, [])


async def test_building_is_told_and_every_task_is_there(tmp_path: Path) -> None:
    async with built(load(write_config(tmp_path), {})) as daemon:
        names = {runner.task.name for runner in daemon.runners}
        assert daemon.store.book.seq_latest == 1
    assert names == TASKS


async def test_time_alone_obliges_before_every_command_of_the_built_daemon(tmp_path: Path) -> None:
    async with built(load(write_config(tmp_path, extra='drain_limit = "4m"'), {})) as daemon:
        assert daemon.store.ceilings == Ceilings(policy=daemon.policy, drain_limits={"qwen": timedelta(minutes=4)})


def daemon_on(bench: Bench, *, mode: Mode) -> Daemon:
    """The whole daemon on the bench's provider."""
    settings = load(write_config(bench.folder), {})
    seams = Seams(clock=bench.clock, randomness=SeededRandomness(5), blocking=at_once)
    ports = Ports(reading=bench.provider, writing=bench.provider, prober=bench.prober)
    wiring = Wiring(
        settings=settings,
        seams=seams,
        mode=mode,
        policy=bench.policy,
        models={"qwen": bench.model},
        run_id=bench.holder,
        fleet=fleet(settings),
    )
    return wire(bench.store, ports, wiring)


@on_bench
async def test_stop_only_it_stops_what_is_due_and_creates_nothing(bench: Bench) -> None:
    await bench.require_stop(await bench.serve())
    daemon = daemon_on(bench, mode=Mode(stop_only=True, config_readable=False))
    bench.group.start_soon(daemon.run)
    for _ in range(20):
        daemon.wants.ask("qwen", now=bench.clock.now())
        daemon.ring()
        await bench.move(10)
    assert bench.duty().ending is Ending.DISCHARGED
    assert bench.provider.calls["create"] == 1  # the set-up's
    assert bench.provider.resources == ()


@on_bench
async def test_in_its_normal_mode_it_starts_serves_and_reaps(bench: Bench) -> None:
    daemon = daemon_on(bench, mode=Mode())
    bench.group.start_soon(daemon.run)
    daemon.wants.ask("qwen", now=bench.clock.now())
    daemon.ring()
    await bench.move(30)
    (record,) = bench.store.book.live()
    assert record.phase is Phase.ACTIVE
    await bench.move(bench.model.idle_after.total_seconds() + 60)
    assert (bench.provider.resources, bench.record(record.id).reason) == ((), StopReason.IDLE)


@on_bench
async def test_a_day_that_cannot_be_paid_for_ends_in_a_stop_and_no_busy_loop(bench: Bench) -> None:
    bench.model = replace(bench.model, idle_after=timedelta(hours=24))
    await bench.serve()
    bench.policy = replace(bench.policy, usd_per_day=Decimal("12.5"))
    daemon = daemon_on(bench, mode=Mode())
    await bench.move(12 * 3600 - 60)
    with anyio.CancelScope() as scope:
        bench.group.start_soon(daemon.run)
        await bench.move(300)
        scope.cancel()
    assert bench.record().reason is StopReason.SPEND
    assert max(pulse.passes for pulse in daemon.pulses) < 400
