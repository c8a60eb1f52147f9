"""python -m tests.simulation.sensitivity: after how many seeds does the simulation notice each planted defect?"""

import argparse
import os
import sys
from collections.abc import Sequence

from tests.simulation.campaign import Order, play
from tests.simulation.planted import PLANTED
from tests.simulation.run import Draft, Result


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.sensitivity", description=__doc__)
    parser.add_argument("--most", type=int, default=40, help="seeds that are tried for each defect")
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("defects", nargs="*", metavar="DEFECT", help=", ".join(sorted(PLANTED)))
    options = parser.parse_args(arguments)
    missed = 0
    for name in options.defects or sorted(PLANTED):
        found = _first(name, options)
        missed += found is None
        _say(name, found)
    return 1 if missed else 0


def _first(name: str, options: argparse.Namespace) -> Result | None:
    """The failing run with the lowest seed; batches of as many seeds as run at once, so that the lowest is known."""
    order = Order(draft=Draft(hours=options.hours), jobs=options.jobs, planted=name)
    for first in range(1, options.most + 1, options.jobs):
        seeds = range(first, min(first + options.jobs, options.most + 1))
        failed = [result for result in play(seeds, order) if result.failed]
        if failed:
            return min(failed, key=lambda result: result.seed)
    return None


def _say(name: str, found: Result | None) -> None:
    meaning = PLANTED[name].meaning
    if found is None:
        words = f"{name:<20} NOT NOTICED  {meaning}"
    else:
        what = str(found.failed).strip().rpartition("\n")[2]
        words = f"{name:<20} seed {found.seed:>3}, hour {found.hours:>5.1f}  {meaning}  -  {what}"
    sys.stdout.write(words + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":
        command = [sys.executable, "-m", "tests.simulation.sensitivity", *sys.argv[1:]]
        os.execve(sys.executable, command, os.environ | {"PYTHONHASHSEED": "0"})
    sys.exit(main(sys.argv[1:]))
