"""Does everything hold wherever the daemon ends?

Each main story is first played without a crash, and what its daemon does is counted: each commit, each file write, each
call, before, during and after. Then it is played once for each of these points, with the daemon's end exactly there.
The points come from the running code, so a new await is visited on the day it is written. Each play has a process of
its own, forked from one that has loaded everything: what a crash leaves suspended is never collected.
"""

import atexit
import json
import os
import shutil
import tempfile
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from tests.simulation.crash_stage import Point, Stage
from tests.simulation.crash_verdict import play, require
from tests.simulation.machine import fresh_store
from tests.simulation.playing import playing
from tests.simulation.stories import STORIES

SEED: Final = 11
MEMORY: Final = "/dev/shm"
"""A disk would be waited for at each commit; what a crash leaves is decided by the program's death, not by the disk."""
JOBS: Final = 2
EVENTS_SHOWN: Final = 60


@dataclass(frozen=True, slots=True)
class Plan:
    """One play: of which story, and what happens to its daemon where."""

    story: str
    ends: tuple[int, ...] = ()
    stops: tuple[int, ...] = ()

    @property
    def word(self) -> str:
        return ":".join([self.story, *map(str, self.ends), *(f"stop{number}" for number in self.stops)])

    @classmethod
    def read(cls, word: str) -> "Plan":
        story, *numbers = word.split(":")
        stops = tuple(int(number.removeprefix("stop")) for number in numbers if number.startswith("stop"))
        return cls(story, tuple(int(number) for number in numbers if not number.startswith("stop")), stops)


@dataclass(slots=True)
class Played:
    """What came of it. `told` is how many points the story itself had."""

    plan: Plan
    points: list[Point] = field(default_factory=list)
    told: int = 0
    problem: str = ""
    last: list[str] = field(default_factory=list)
    digest: str = ""
    hours: float = 0.0

    def as_json(self) -> str:
        points = [[point.number, point.at, point.who, point.what] for point in self.points]
        return json.dumps([points, self.told, self.problem, self.last, self.digest, self.hours])

    @classmethod
    def read(cls, plan: Plan, text: str) -> "Played":
        points, *rest = json.loads(text)
        return cls(plan, [Point(*point) for point in points], *rest)


def played(plan: Plan, folder: Path) -> Played:
    """Play one plan in this process, which then is good for nothing else."""
    story, result = STORIES[plan.story], Played(plan)
    with playing():
        stage = Stage(folder, seed=SEED, ends=plan.ends, stops=plan.stops, **story.settings)
        try:
            result.told = play(story, stage)
            require(stage)
            missed = len(plan.ends) + len(plan.stops) - len(stage.ended_at)
            assert not missed, f"{missed} of the points never came"
        except BaseException as problem:
            result.problem = "".join(traceback.format_exception(problem)[-4:])
    result.points, result.digest = stage.points, stage.kernel.trace.digest
    result.last = [str(event) for event in list(stage.kernel.trace.last)[-EVENTS_SHOWN:]]
    result.hours = stage.kernel.time / 3600
    return result


def play_all(plans: Iterable[Plan], *, jobs: int = JOBS) -> Iterator[Played]:
    """Play each in a child of its own, some at a time; in whatever order they end."""
    running: dict[int, tuple[Plan, Path]] = {}
    try:
        for plan in plans:
            if len(running) == jobs:
                yield _next_of(running)
            folder = Path(tempfile.mkdtemp(dir=_scratch()))
            running[_forked(plan, folder)] = plan, folder
        while running:
            yield _next_of(running)
    finally:
        while running:
            _next_of(running)


@cache
def _scratch() -> Path:
    """Where all plays are; a store is migrated there once, for the children to copy."""
    folder = Path(tempfile.mkdtemp(prefix="gpuwarden-points-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    fresh_store(folder / "made" / "gpuwarden.db", folder)
    return folder


def _next_of(running: dict[int, tuple[Plan, Path]]) -> Played:
    child, code = os.wait()
    plan, folder = running.pop(child)
    answer = folder / "played.json"
    result = Played.read(plan, answer.read_text()) if answer.exists() else Played(plan)
    if not answer.exists():
        result.problem = f"the process ended with {code}"
    shutil.rmtree(folder, ignore_errors=True)
    return result


def _forked(plan: Plan, folder: Path) -> int:
    child = os.fork()
    if child:
        return child
    try:
        answer = played(plan, folder).as_json()
        (folder / "written").write_text(answer)
        (folder / "written").rename(folder / "played.json")
    finally:
        os._exit(0)
