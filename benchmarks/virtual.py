"""What takes hours, played on virtual time?

The whole daemon against the emulator in process, with the real numbers: how late an orphan's stop is, and how many
hours one core simulates in a minute. The clock is the loop's, so delays are exact and owe nothing to this machine;
only the speed is the machine's.
"""

import time
from datetime import timedelta
from typing import Final

import anyio

from benchmarks.rows import Row, at_most, p50, spread, told
from controller.core.identity import DeploymentId
from controller.core.lifecycle import Phase
from controller.daemon.built import Daemon
from controller.emulators.runpod.control import put_pod
from controller.store.stream_leases import StreamLease
from tests.scenarios.world import World, scenario

ORPHANS: Final = 12
GRACE_S: Final = 180.0
LATE_S: Final = 15.0
ROUNDS: Final = 6
LULL: Final = timedelta(hours=2)
USE: Final = timedelta(minutes=10)


def play(rows: list[Row]) -> None:
    rows.append(_orphans())
    rows.append(_speed())


def _orphans() -> Row:
    late: list[float] = []

    async def story(world: World) -> None:
        world.configure("m1")
        async with world.daemon() as daemon:
            await world.at(30)
            made = await _strays(world, daemon)
            await world.until(lambda: len(world.deletes()) >= ORPHANS, within=GRACE_S + 120)
            asked = {call["pod"]: call["s"] for call in reversed(world.deletes())}
            late.extend(asked[stray] - at - GRACE_S for stray, at in made.items())

    scenario(story, seed=1)
    note = f"{spread(late)}; {ORPHANS} of them, virtual time"
    return at_most("orphan out of grace → stop submitted", max(late), LATE_S, "s", note=note, p50_s=p50(late))


async def _strays(world: World, daemon: Daemon) -> dict[str, float]:
    """Machines that carry our tags and that no record holds, a few seconds apart; when each came to be."""
    owner, made = daemon.store.book.owner, {}
    for at in range(ORPHANS):
        tags = {
            "GPUWARDEN_OWNER": owner.name,
            "GPUWARDEN_INSTALLATION": owner.installation,
            "GPUWARDEN_EPOCH": "1",
            "GPUWARDEN_REQUEST": f"r{at:016x}",
        }
        stray = {"name": f"gpuwarden-m1-stray{at}", "env": tags}
        made[put_pod(world.emulator, stray, world.clock.now().timestamp())] = world.now_s
        await anyio.sleep(3.7)
    return made


def _speed() -> Row:
    began, hours = time.process_time(), []

    async def story(world: World) -> None:
        world.configure("m1")
        async with world.daemon() as daemon:
            for _ in range(ROUNDS):
                await _one_use(world, daemon)
                await anyio.sleep(LULL.total_seconds())
            hours.append(world.now_s / 3600)
        if len(world.creates()) != ROUNDS or world.alive():
            raise RuntimeError("the story did not go as planned")

    scenario(story, seed=1)
    minutes = (time.process_time() - began) / 60
    speed = hours[0] / minutes
    text = f"{speed:.0f} h a minute of one core ({hours[0]:.1f} h: {ROUNDS} starts, uses, idle stops and lulls)"
    return told("virtual time: the plain story", text, hours_per_minute=speed, hours=hours[0])


async def _one_use(world: World, daemon: Daemon) -> None:
    """Asked for, started, used for a while, idle, stopped, proven."""
    daemon.wants.ask("m1", now=daemon.clock.now())
    daemon.ring()
    await world.until(lambda: any(record.phase is Phase.ACTIVE for record in daemon.store.book.live()), within=900)
    record = daemon.store.book.live()[0]
    ends = world.now_s + USE.total_seconds()
    while world.now_s < ends:
        lease = StreamLease(
            deployment=DeploymentId(record.id), epoch=record.epoch, open_requests=1, last_byte_at=daemon.clock.now()
        )
        daemon.stream_leases.put("g-1", [lease], now=daemon.clock.now())
        daemon.ring()
        await anyio.sleep(10)
    daemon.stream_leases.put("g-1", [], now=daemon.clock.now())
    daemon.ring()
    await world.until(lambda: not daemon.store.book.live() and not daemon.store.book.owed(), within=3600)
