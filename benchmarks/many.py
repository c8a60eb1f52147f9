"""What does one pass over ten thousand resources cost?

An account with 10,000 machines, 1,000 of them ours, on record and ready, listed in no order; the others are somebody
else's. Provider and model servers are plain Python here, so that what is measured is our own part: the look, the rules
for each record, orphans, obligations. Once the first passes wrote down what was new nothing changes any more, and the
same passes may write nothing.
"""

import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Final

from benchmarks.consumption import resident_mib
from benchmarks.fleet import MINE, OTHERS, Fleet, open_fleet
from benchmarks.rows import Row, at_most, number, told
from controller.core.lifecycle import Phase

PASSES: Final = (
    "observer",
    "account_guard",
    "reconciler",
    "idle_reaper",
    "crash_loop_detector",
    "orphan_sweeper",
    "obligation_settler",
)
LOOKING: Final = ("observer", "orphan_sweeper")
SETTLING: Final = 2
"""Passes until all of ours is written down: seen, then ready."""
PORTION: Final = 1500
SIGHTINGS: Final = 2
"""So often a machine that is not ours is written down."""
FAST_GAP: Final = timedelta(seconds=16)
"""Longer than the fast rhythm, which lasts some minutes after a start."""
GAP: Final = timedelta(seconds=61)
"""Longer than the steady rhythm: a listing and every probe are due."""
MEMORY_DISK: Final = Path("/dev/shm")

PASS_S: Final = 2.0


async def measure(rows: list[Row]) -> None:
    where = MEMORY_DISK if MEMORY_DISK.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="gpuwarden-bench-", dir=where) as folder:
        async with open_fleet(Path(folder)) as fleet:
            settling = await _settle(fleet)
            _check_ready(fleet)
            rows += await _quiet(fleet)
            rows.append(told("the passes before it, which write all of it down", f"{number(settling)} CPU s"))


async def _settle(fleet: Fleet) -> float:
    """Let everything be seen and written down; the CPU seconds that it took.

    The others come in portions: what is written of a look goes into one transaction, and the writer's limit is a wall.
    """
    used = 0.0
    await fleet.add_ours()
    for _ in range(SETTLING):
        used += sum((await _passes(fleet, PASSES)).values())
        fleet.clock.advance(GAP)
    for begin in range(0, OTHERS, PORTION):
        fleet.add_others(range(begin, min(begin + PORTION, OTHERS)))
        for _ in range(SIGHTINGS):
            used += sum((await _passes(fleet, LOOKING)).values())
            fleet.clock.advance(FAST_GAP)
    fleet.clock.advance(GAP)
    fleet.account.mixed = True
    return used


async def _passes(fleet: Fleet, names: tuple[str, ...]) -> dict[str, float]:
    """CPU seconds of one pass of each task, in the order of their data."""
    tasks = {runner.task.name: runner.task for runner in fleet.daemon.runners}
    used = {}
    for name in names:
        began = time.process_time()
        await tasks[name].run_pass()
        used[name] = time.process_time() - began
    return used


def _check_ready(fleet: Fleet) -> None:
    ready = sum(record.phase is Phase.ACTIVE for record in fleet.daemon.store.book.live())
    if ready != MINE or fleet.provider.calls["stop"] or fleet.provider.calls["create"]:
        raise RuntimeError(f"{ready} of {MINE} are ready, {dict(fleet.provider.calls)}")


async def _quiet(fleet: Fleet) -> list[Row]:
    """One pass of everything while nothing changes."""
    before, probes = fleet.rows_written, fleet.prober.probes
    used = await _passes(fleet, PASSES)
    written, asked = fleet.rows_written - before, fleet.prober.probes - probes
    dearest = sorted(used.items(), key=lambda item: -item[1])
    note = ", ".join(f"{name} {number(seconds)}" for name, seconds in dearest[:4])
    what = f"one pass over {MINE + OTHERS:,} resources, {MINE:,} of them ours"
    listed = len(fleet.daemon.view.value.listing.resources) if fleet.daemon.view.value.listing is not None else 0
    if listed != MINE + OTHERS or asked != MINE:
        raise RuntimeError(f"{listed} were listed and {asked} probed")
    return [
        at_most(what, sum(used.values()), PASS_S, "CPU s", note=note, **{f"{name}_s": s for name, s in used.items()}),
        Row(
            what="rows written by it, as nothing changed",
            measured=str(written),
            target="0",
            ok=written == 0,
            values={"rows": written},
        ),
        told("memory of that process", f"{number(resident_mib(_me()))} MiB"),
    ]


def _me() -> int:
    return int(Path("/proc/self").readlink().name)
