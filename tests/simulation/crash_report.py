"""Which crash points are visited, and how is it told?

`make crash-points` plays every story at every point that writes, costs or stops, and at each third of those that only
look; some stories with a second end in the recovery from the first, some with the daemon stopped instead of ended while
another takes its store over. A point that does not hold is told with the command that plays exactly it, and what
happened last.
"""

import argparse
import os
import random
import resource
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from tests.simulation.crash_points import SEED, Plan, Played, play_all
from tests.simulation.crash_stage import Point
from tests.simulation.planted_crashes import PLANTED
from tests.simulation.stories import STORIES

HASH_SEED: Final = "0"
COMMAND: Final = "PYTHONHASHSEED=0 .venv/bin/python -m tests.simulation.crash_report"
LOOKS_EVERY: Final = 3
TWICE: Final = ("start", "stop-now")
TWICE_EVERY: Final = 6
"""Of the second ends in one recovery, each so manyth is visited."""
STOPPED: Final = ("start", "stop-now")
SHORT: Final = "idle-stop"
SHORT_LOOKS: Final = 8
SHORT_SEED: Final = 2611


class Enough(Exception):
    """One that does not hold was all that was asked for."""


@dataclass(slots=True)
class Report:
    """What was visited, and what did not hold."""

    kinds: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    visited: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    failed: list[Played] = field(default_factory=list)
    hours: float = 0.0
    first: bool = False
    """Is the first that does not hold enough?"""

    def take(self, done: Played, what: str) -> None:
        self.hours += done.hours
        self.visited[what] += 1
        if done.problem:
            self.failed.append(done)
            _tell_failure(done)
            if self.first:
                raise Enough


def _tell_failure(done: Played) -> None:
    print("\n".join(done.last))
    print(done.problem)
    print(f"does not hold: {done.plan.word}\nreplay: {COMMAND} --play {done.plan.word}\n", flush=True)


def eligible(points: Iterable[Point], *, looks_every: int) -> list[Point]:
    """All that write, cost or stop; of those that only look, each so manyth."""
    looks = count()
    return [point for point in points if point.always or next(looks) % looks_every == 0]


def without_crash(report: Report, stories: Iterable[str]) -> dict[str, list[Point]]:
    """The points of each story, from the running code."""
    found: dict[str, list[Point]] = {}
    for done in play_all(Plan(story) for story in stories):
        report.take(done, "without a crash")
        found[done.plan.story] = done.points[: done.told]
    return found


def once(report: Report, story: str, points: list[Point]) -> dict[int, list[Point]]:
    """End at each of these points; returns what the daemon did afterwards, by point."""
    after: dict[int, list[Point]] = {}
    for done in play_all(Plan(story, ends=(point.number,)) for point in points):
        report.take(done, "one end")
        (number,) = done.plan.ends
        after[number] = done.points[number:]
    for point in points:
        report.kinds[story][point.kind] += 1
    return after


def twice(report: Report, story: str, after: dict[int, list[Point]]) -> None:
    """End again while the daemon recovers."""
    second = count()
    plans = [
        Plan(story, ends=(first, point.number))
        for first, points in sorted(after.items())
        for point in points
        if point.always and next(second) % TWICE_EVERY == 0
    ]
    for done in play_all(plans):
        report.take(done, "two ends")


def stopped(report: Report, story: str, points: list[Point]) -> None:
    """Stop it instead, let another take its store over, and go on. While it is in a transaction nobody can."""
    plans = [Plan(story, stops=(point.number,)) for point in points if point.what != "before commit"]
    for done in play_all(plans):
        report.take(done, "stopped, and taken over")


def full(report: Report, stories: list[str], *, looks_every: int, kinds: str = "") -> None:
    found = without_crash(report, stories)
    for story in stories:
        named = [point for point in found[story] if kinds in point.kind]
        points = eligible(named, looks_every=looks_every)
        report.skipped[story] = len(found[story]) - len(points)
        after = once(report, story, points)
        _tell(report, story, len(points))
        if story in TWICE and not report.first:
            twice(report, story, after)
        if story in STOPPED and not report.first:
            stopped(report, story, points)


def short(report: Report) -> None:
    """All that write, cost or stop from a cold request to an idle stop's proof, and a few looks, the same each time."""
    points = without_crash(report, [SHORT])[SHORT]
    whole = [point for point in points if point.always]
    looks = [point for point in points if not point.always]
    drawn = random.Random(SHORT_SEED).sample(looks, SHORT_LOOKS)
    report.skipped[SHORT] = len(looks) - SHORT_LOOKS
    once(report, SHORT, whole + drawn)
    _tell(report, SHORT, len(whole) + SHORT_LOOKS)


def _tell(report: Report, story: str, visited: int) -> None:
    kinds = ", ".join(f"{number} × {kind}" for kind, number in sorted(report.kinds[story].items()))
    print(f"{story}: {visited} points ({report.skipped[story]} looks left out): {kinds}", flush=True)


def _tell_all(report: Report) -> None:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = used.ru_utime + used.ru_stime
    print(", ".join(f"{number} plays {what}" for what, number in report.visited.items()))
    print(f"{len(report.kinds)} stories, {report.hours:.1f} simulated hours, {spent:.0f} s of CPU, seed {SEED}")
    for done in report.failed:
        print(f"does not hold: {COMMAND} --play {done.plan.word}")
    print("all hold" if not report.failed else f"{len(report.failed)} do not hold")


def _play(report: Report, given: argparse.Namespace) -> None:
    if given.play:
        for done in play_all([Plan.read(given.play)]):
            print("\n".join(done.last))
            report.take(done, "asked for")
            print(f"trace {done.digest}")
    elif given.short:
        short(report)
    else:
        full(report, given.stories, looks_every=given.looks_every, kinds=given.kinds)


def main() -> int:
    parser = argparse.ArgumentParser(description="End the daemon at every point of its main stories.")
    parser.add_argument("--stories", nargs="+", default=list(STORIES), choices=list(STORIES))
    parser.add_argument("--looks-every", type=int, default=LOOKS_EVERY, help="visit each so manyth of the mere looks")
    parser.add_argument("--short", action="store_true", help="one story only, as in the tests")
    parser.add_argument("--kinds", default="", metavar="WORDS", help="only points that have these words, as `POST`")
    parser.add_argument("--first", action="store_true", help="end at the first that does not hold")
    parser.add_argument("--play", metavar="STORY:POINT", help="one play, with what happened in it")
    parser.add_argument("--plant", choices=list(PLANTED), help="with this defect, which must be caught")
    given = parser.parse_args()
    if given.plant:
        PLANTED[given.plant]()
    report = Report(first=given.first)
    try:
        _play(report, given)
    except Enough:
        print("the first is enough")
    _tell_all(report)
    return 1 if report.failed else 0


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != HASH_SEED:
        os.execve(
            sys.executable,
            [sys.executable, "-m", "tests.simulation.crash_report", *sys.argv[1:]],
            os.environ | {"PYTHONHASHSEED": HASH_SEED},
        )
    sys.exit(main())
