"""What does an installation take while nobody asks for anything?

The time from a daemon's start to its word that it is ready, on a new store and on one that is there; then, with the
rhythms of a real config, the memory of daemon and gateway and the processor time that both use in some seconds of
rest.
"""

from typing import Final

import anyio

from benchmarks.consumption import cpu_seconds, resident_mib
from benchmarks.rows import Row, at_most, number, p50, spread
from benchmarks.scene import Scene

STARTS: Final = 3
SETTLES_S: Final = 3.0
REST_S: Final = 15.0

READY_S: Final = 2.0
DAEMON_MIB: Final = 90.0
GATEWAY_MIB: Final = 60.0
IDLE_PERCENT: Final = 0.5


async def measure(stage: Scene) -> list[Row]:
    """Leaves neither daemon nor gateway behind."""
    daemon, first = await stage.begin_daemon()
    used, again = [cpu_seconds(daemon.process.pid)], list[float]()
    for _ in range(STARTS):
        await stage.running.end(daemon)
        daemon, took = await stage.begin_daemon()
        again.append(took)
        used.append(cpu_seconds(daemon.process.pid))
    gateway = await stage.begin_gateway()
    await anyio.sleep(SETTLES_S)
    children = {"daemon": daemon.process.pid, "gateway": gateway.process.pid}
    before = {name: cpu_seconds(number) for name, number in children.items()}
    await anyio.sleep(REST_S)
    share = {name: (cpu_seconds(number) - before[name]) / REST_S * 100 for name, number in children.items()}
    memory = {name: resident_mib(number) for name, number in children.items()}
    await stage.running.end(gateway)
    await stage.running.end(daemon)
    return [
        _ready(first, again, used),
        at_most("daemon at rest: memory", memory["daemon"], DAEMON_MIB, "MiB"),
        at_most("gateway at rest: memory", memory["gateway"], GATEWAY_MIB, "MiB"),
        at_most("daemon at rest: processor", share["daemon"], IDLE_PERCENT, "% of a core", note=f"{REST_S:.0f} s"),
        at_most("gateway at rest: processor", share["gateway"], IDLE_PERCENT, "% of a core", note=f"{REST_S:.0f} s"),
    ]


def _ready(first: float, again: list[float], used: list[float]) -> Row:
    """`used` is the processor time of each start, the one on a new store first."""
    note = (
        f"new store {number(first)}, {number(used[0])} of it CPU; "
        f"then {spread(again)}, p50 {number(p50(used[1:]))} of it CPU"
    )
    what = "daemon: start → ready, the slowest"
    return at_most(
        what, max(first, *again), READY_S, "s", note=note, new_store_s=first, p50_s=p50(again), p50_cpu_s=p50(used[1:])
    )
