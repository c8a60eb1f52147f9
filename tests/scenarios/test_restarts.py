"""What survives a restart, a kill or a pause?

Waiters, duties, epochs and evidence do; leases are taken anew, and nothing is stopped for our own absence.
"""

import json

import anyio

from controller.core.lifecycle import Phase
from tests.scenarios.world import Pending, World, sabotage, scenario, seconds


def test_restart_in_the_middle_of_a_cold_start_loses_no_waiter_and_starts_nothing_twice() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        asked: list[Pending] = []
        async with world.front("m1") as front:
            for crash in (True, False, True):
                async with world.box(front=front, crash=crash) as box:
                    if world.runs == 1:
                        asked = [world.soon(box.chat(world)) for _ in range(10)]
                    await world.at(world.now_s + 5)
                await world.at(world.now_s + 3)
            async with world.box(front=front):
                await world.until(lambda: all(pending.done for pending in asked), within=100)
                assert {pending.got.status for pending in asked} == {200}
                assert len(world.creates()) == 1
                assert world.deletes() == []

    scenario(play)


def test_epochs_only_rise_and_every_line_is_told_once_over_many_restarts() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        epochs = []
        async with world.front("m1") as front:
            for crash in (False, True, True, False, True, False):
                async with world.box(front=front, crash=crash) as box:
                    assert (await box.chat(world)).status == 200
                    (record,) = box.daemon.store.book.live()
                    epochs.append(record.epoch)
                    await world.at(world.now_s + 7)
        assert epochs == sorted(set(epochs))
        assert len(world.events("daemon.started")) == 6
        assert len(world.creates()) == 1

    scenario(play)


def test_stop_that_was_in_flight_at_a_kill_is_sent_again_within_five_seconds_of_the_restart() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        deed = {"hang": 20.0}
        world.emulator.add_faults([{"match": {"method": "DELETE"}, "times": 1, "do": deed}])
        async with world.box(crash=True) as box:
            await box.chat(world)
            await world.until(lambda: bool(world.deletes()), within=310)
        await world.at(world.now_s + 7200)
        began_at = world.now_s
        async with world.box() as box:
            await world.until(lambda: not world.alive(), within=10)
            assert world.now_s - began_at <= 6
            await world.until(lambda: not box.daemon.store.book.owed(), within=60)

    scenario(play)


def test_deadline_that_passed_while_the_daemon_was_down_is_acted_on_within_a_minute() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            await box.chat(world)
        await world.at(7200)
        async with world.box():
            await world.until(lambda: not world.alive(), within=60)
            assert world.now_s >= 7230  # gateways have one stream lease's time to speak first

    scenario(play)


def test_pause_longer_than_the_lease_ends_in_new_leases_and_no_stop() -> None:
    async def play(world: World) -> None:
        world.configure("m1", "m2")
        async with world.box() as box:
            asked = [world.soon(box.chat(world, alias)) for alias in ("m1", "m2")]
            await world.until(lambda: all(pending.done for pending in asked), within=100)
            before = {record.id: record.epoch for record in box.daemon.store.book.live()}
            streaming = [world.soon(box.chat(world, alias, stream=True, max_tokens=300)) for alias in ("m1", "m2")]
            await world.at(100)
            world.clock.suspend(seconds(400))
            await anyio.sleep(70)
            after = {record.id: record.epoch for record in box.daemon.store.book.live()}
            assert after.keys() == before.keys()
            assert all(after[name] > before[name] for name in before)
            assert world.deletes() == []
            await world.until(lambda: all(pending.done for pending in streaming), within=400)
            assert {pending.got.status for pending in streaming} == {200}
            assert world.deletes() == []
            await world.until(lambda: not world.alive(), within=400)

    scenario(play, token_rate=1)


def test_stop_that_fell_due_in_a_pause_leaves_under_a_new_lease_only() -> None:
    """The lease keeper fails for a while after the pause: until it has been, no stop may leave."""

    async def play(world: World) -> None:
        world.configure("m1", extra='max_lifetime = "600s"')
        async with world.box() as box:
            await box.chat(world)
            await world.at(100)
            (record,) = box.daemon.store.book.live()
            sabotage(box.daemon, "lease_keeper", times=4, error=lambda: RuntimeError("planted"))
            world.clock.suspend(seconds(600))
            await world.until(lambda: not world.alive(), within=120)
            await anyio.sleep(1)
            assert {line["reason"] for line in world.events("obligation.due")} == {"lifetime-exceeded"}
            assert [line["epoch"] > record.epoch for line in world.events("stop.submitted")] == [True]

    scenario(play)


def test_restart_with_a_lease_of_the_former_run_still_live_takes_it_over() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box(crash=True) as box:
            await box.chat(world)
            former = box.daemon.run_id
        async with world.box() as box:
            (lease,) = box.daemon.store.book.leases.values()
            assert (lease.holder, lease.epoch) == (box.daemon.run_id, 2)
            assert lease.holder != former
            assert [record.phase for record in box.daemon.store.book.live()] == [Phase.ACTIVE]
            await world.at(world.now_s + 60)
            assert world.deletes() == []

    scenario(play)


def test_a_lifetime_that_ended_while_we_were_away_is_acted_on_within_a_minute_of_our_return() -> None:
    """Case B23: no bound of ours rests on a timer of the provider's, and none is asked for."""

    async def play(world: World) -> None:
        config = world.configure("m1", extra='max_lifetime = "3600s"')
        config.write_text(config.read_text().replace('idle_after = "300s"', 'idle_after = "4h"'))
        async with world.box(crash=True) as box:
            await box.chat(world)
            await world.at(3000)
        (body,) = [json.loads(call.body) for call in world.emulator.calls if call.body is not None]
        assert not {"terminateAfter", "stopAfter", "queue"} & set(body)
        await world.at(10_200)
        assert len(world.alive()) == 1
        async with world.box():
            await world.until(lambda: not world.alive(), within=60)
            assert len(world.deletes()) == 1

    scenario(play)
