"""What does Ctrl-C in a terminal, or a kill of what stands above, leave behind?

A command that is interrupted says what stays owed and ends with 130; what a killed parent started ends by itself.
"""

import os
import signal

import anyio
import pytest

from tests.processes.box import box
from tests.processes.children import pids_mentioning, until
from tests.processes.test_restarts import Stream
from tests.processes.test_up import children_of, up

pytestmark = pytest.mark.process


async def test_a_stop_that_is_interrupted_says_what_stays_owed() -> None:
    async with box() as world:
        await world.run_daemon()
        await world.serving()
        await world.fault({"ignore": True}, method="DELETE", path="/v2/pods/*")
        command = world.spawn("stop", "stop", "m1", "--now", "--config", str(world.config))
        await until(lambda: "waiting for proof" in command.text(), within=10, what="the wait")
        command.signal(signal.SIGINT)
        assert await command.ended(within=5) == 130
        ((obligation, _),) = world.open_duties()
        assert f"{obligation} stay owed" in command.text()
        assert "Traceback" not in command.text()
        await world.clear_faults()
        await world.all_ended()


async def test_a_stop_that_waits_outlives_a_restart_of_the_daemon() -> None:
    async with box() as world:
        daemon = await world.run_daemon()
        await world.serving()
        await world.fault({"ignore": True}, method="DELETE", path="/v2/pods/*")
        command = world.spawn("stop", "stop", "m1", "--now", "--config", str(world.config))
        await until(lambda: "waiting for proof" in command.text(), within=10, what="the wait")
        await daemon.kill()
        await until(lambda: "the daemon is away" in command.text(), within=5, what="word of its absence")
        await world.clear_faults()
        await world.run_daemon()
        assert await command.ended(within=20) == 0
        assert await world.alive() == []


async def test_following_the_evidence_ends_with_130_and_no_word_more() -> None:
    async with box() as world:
        await world.run_daemon()
        command = world.spawn("evidence", "evidence", "-f", "--config", str(world.config))
        await until(lambda: "daemon.started" in command.text(), within=10, what="the first line")
        command.signal(signal.SIGINT)
        assert await command.ended(within=5) == 130
        assert "Traceback" not in command.text()


async def test_a_second_ctrl_c_of_up_leaves_the_stop_owed_and_ends_with_130() -> None:
    async with box() as world:
        child = await up(world)
        await world.fault({"ignore": True}, method="DELETE", path="/v2/pods/*")
        child.signal(signal.SIGINT)
        await until(lambda: "1 owed" in child.text(), within=10, what="word of the wait")
        child.signal(signal.SIGINT)
        assert await child.ended(within=25) == 130
        assert pids_mentioning(str(world.config)) == []
        assert world.rows("SELECT due_at_ms IS NOT NULL FROM obligations WHERE ended_at_ms IS NULL") == [(1,)]


async def test_up_beside_a_daemon_that_runs_is_refused_and_leaves_that_one_alone() -> None:
    async with box() as world:
        first = await world.run_daemon()
        ran = await world.cli("up", within=30)
        assert (ran.code, str(first.pid) in ran.err) == (6, True), ran.err
        assert (await world.status())["ready"]


async def test_children_of_an_up_that_was_killed_end_in_order_and_keep_the_machine() -> None:
    async with box() as world:
        child = await up(world)
        assert len(children_of(child)) == 2
        await child.kill()
        await until(lambda: not pids_mentioning(str(world.config)), within=20, what="the end of its children")
        assert not (world.state / "api.sock").exists()
        assert len(await world.alive()) == 1 and len(world.open_duties()) == 1
        await world.run_daemon()
        await world.phase("ready")
        assert len(await world.creates()) == 1


async def test_a_daemon_whose_log_nobody_reads_any_more_works_and_ends_in_order() -> None:
    async with box() as world:
        reading, writing = os.pipe()
        daemon = await world.run_daemon(output=writing)
        os.close(writing)
        os.close(reading)
        await world.serving()
        daemon.signal(signal.SIGTERM)
        assert await daemon.ended(within=20) == 0
        assert (await world.cli("evidence", "verify")).code == 3


async def test_the_emulator_ends_when_told() -> None:
    async with box() as world:
        (emulator,) = world.children
        emulator.signal(signal.SIGTERM)
        assert await emulator.ended(within=5) == 0


async def test_a_gateway_that_is_told_to_end_lets_streams_end_then_says_why_it_cuts_them() -> None:
    async with box(token_rate=2) as world:
        await world.run_daemon()
        gateway = await world.run_gateway()
        await world.serving()
        stream = Stream()
        async with anyio.create_task_group() as group:
            group.start_soon(stream.take, world)
            await world.eventually(stream.begun, within=10, what="the stream's begin")
            gateway.signal(signal.SIGTERM)
            asked = anyio.current_time()
            assert await gateway.ended(within=20) == 0
            assert anyio.current_time() - asked < 20
        assert (stream.error, stream.cut) == ("upstream_disconnected", True)
