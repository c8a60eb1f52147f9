"""How do many seeds run, and what do they come to together?

Each seed has a process of its own, forked from one that has imported everything, and as many run at once as there are
cores. A seed that fails prints the command that replays it, and the last events of its trace.
"""

import gc
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing import connection
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Final

from tests.simulation.machine import fresh_store
from tests.simulation.planted import plant
from tests.simulation.run import Draft, Result, run

SEED_LIMIT_S: Final = 1800
LOOK_EVERY_S: Final = 10
SHOWN: Final = 60
Running = tuple[ForkProcess, Path, float]


@dataclass(frozen=True, kw_only=True)
class Order:
    """What every seed of a campaign is to play. `trace`: a folder for whole traces."""

    draft: Draft
    jobs: int
    trace: Path | None = None
    planted: str | None = None
    """A defect that is to be noticed: `planted` has the list."""


def play(seeds: Iterable[int], order: Order) -> Iterator[Result]:
    """Results as they come. A seed whose process dies is a failed one."""
    waiting = list(seeds)[::-1]
    running: dict[int, Running] = {}
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory(prefix="gpuwarden-campaign-") as folder:
        fresh_store(Path(folder) / "first.db", Path(folder))  # migrated here, once, and not by every child
        gc.freeze()  # what was imported is not looked at again by every child's collector
        while waiting or running:
            while waiting and len(running) < order.jobs:
                seed = waiting.pop()
                into = Path(folder) / f"{seed}.json"
                child = context.Process(target=_child, args=(seed, order, into))
                child.start()
                running[seed] = (child, into, time.monotonic())
            connection.wait([child.sentinel for child, _, _ in running.values()], timeout=LOOK_EVERY_S)
            yield from _finished(running)


def _child(seed: int, order: Order, into: Path) -> None:
    if order.planted is not None:
        plant(order.planted)
    gc.disable()  # a simulated day leaves 20 MB behind, and looking through it costs more than it is worth
    trace = None if order.trace is None else order.trace / f"{seed}.trace"
    into.write_text(json.dumps(run(seed, order.draft, trace=trace).as_json()))
    sys.stdout.flush()
    os._exit(0)  # nothing that died in the simulation may be collected, nor closed


def _finished(running: dict[int, Running]) -> Iterator[Result]:
    for seed, (child, into, begun) in list(running.items()):
        if child.is_alive() and time.monotonic() - begun > SEED_LIMIT_S:
            child.kill()
        if child.is_alive():
            continue
        child.join()
        del running[seed]
        if into.exists():
            yield Result(**json.loads(into.read_text()))
            into.unlink()
        else:
            yield Result(seed=seed, hours=0, digest="", failed=f"its process ended with {child.exitcode}")


@dataclass
class Report:
    """Everything that a campaign counts."""

    mix: str
    began: float = field(default_factory=time.monotonic)
    runs: int = 0
    hours: float = 0.0
    cpu_s: float = 0.0
    failures: list[Result] = field(default_factory=list)
    numbers: Counter[str] = field(default_factory=Counter)
    worst: dict[str, float] = field(default_factory=dict)
    staged: Counter[str] = field(default_factory=Counter)

    def add(self, result: Result) -> None:
        self.runs += 1
        self.hours += result.hours
        self.cpu_s += result.cpu_s
        self.staged.update(result.staged)
        for name, value in result.numbers.items():
            if name in _WORST:
                self.worst[name] = max(self.worst.get(name, 0.0), value)
            else:
                self.numbers[name] += int(value)
        if result.failed:
            self.failures.append(result)

    def words(self) -> list[str]:
        real = max(time.monotonic() - self.began, 0.001)
        lines = [
            f"mix                      {self.mix}",
            f"seeds                    {self.runs}, failed {len(self.failures)}",
            f"simulated hours          {self.hours:.0f} in {real:.0f} s: {self.hours / real * 60:.0f} h a minute",
            f"CPU                      {self.cpu_s:.0f} s: {self.hours / max(self.cpu_s, 0.001) * 60:.0f} h a minute "
            "of one core",
        ]
        lines += [f"{name:<24} {self.numbers[name]}" for name in _COUNTED]
        lines += [f"{name:<24} {self.worst.get(name, 0):.0f}" for name in _WORST]
        lines += ["troubles by kind:"] + [f"  {kind:<28} {count}" for kind, count in sorted(self.staged.items())]
        return lines


_WORST: Final = ("worst due s", "quiet after s")
_COUNTED: Final = (
    "creates",
    "stop calls",
    "queued cancelled",
    "stops for billed-after-stop",
    "stops for multi-card-stall",
    "stops for nccl-stall",
    "stops of live pods",
    "idle stops",
    "stops for abandoned",
    "false stops",
    "unowed resources",
    "owed at the end",
    "epochs repeated",
    "discharged",
    "excusable discharges",
    "leaked s",
    "deaths",
)


def failure(result: Result, replay: Callable[[int], str]) -> list[str]:
    """What a person needs who looks at a failing seed."""
    return [
        "",
        f"seed {result.seed} failed at hour {result.hours:.3f}: {result.failed}",
        *(f"  {event}" for event in result.last[-SHOWN:]),
        f"replay: {replay(result.seed)}",
    ]
