"""python -m tests.simulation: run a campaign, or replay one seed."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.simulation.campaign import Order, Report, failure, play
from tests.simulation.plan import KINDS, RHYTHMS
from tests.simulation.planted import PLANTED
from tests.simulation.run import Draft


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    draft = Draft(hours=options.hours, mix=options.mix, only=tuple(options.only), without=tuple(options.without))
    seeds = range(options.first, options.first + options.seeds)
    report = Report(mix=options.mix)
    digests: dict[int, set[str]] = {}
    order = Order(draft=draft, jobs=options.jobs, trace=options.trace, planted=options.plant)
    for _ in range(options.twice + 1):
        for result in play(seeds, order):
            report.add(result)
            digests.setdefault(result.seed, set()).add(result.digest)
            if result.failed:
                _say(failure(result, lambda seed: _replay(seed, options)))
            elif options.verbose:
                _say([f"seed {result.seed}: {result.hours:.1f} h, {result.cpu_s:.1f} s, {result.digest[:16]}"])
    _say(report.words())
    differing = [seed for seed, found in digests.items() if len(found) > 1]
    if options.twice:
        _say([f"seeds that ran differently the second time: {differing or 'none'}"])
    return 1 if report.failures or differing else 0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--hours", type=float, default=24.0, help="simulated hours a seed")
    parser.add_argument("--mix", choices=sorted(RHYTHMS), default="standard")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        choices=sorted(KINDS),
        metavar="KIND",
        help="stage these kinds of trouble alone",
    )
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        choices=sorted(KINDS),
        metavar="KIND",
        help="do not stage these kinds of trouble",
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--twice", action="store_true", help="run each seed twice and compare the traces")
    parser.add_argument("--trace", type=Path, help="a folder that gets the whole trace of each seed")
    parser.add_argument("--plant", choices=sorted(PLANTED), metavar="DEFECT", help="make the daemon wrong first")
    parser.add_argument("--verbose", action="store_true", help="a line for each seed")
    return parser.parse_args(arguments)


def _replay(seed: int, options: argparse.Namespace) -> str:
    words = [f"make simulate FIRST={seed} SEEDS=1 HOURS={options.hours:g}"]
    extra = [f"--mix {options.mix}"] if options.mix != "standard" else []
    extra += [f"--only {kind}" for kind in options.only] + [f"--without {kind}" for kind in options.without]
    extra += [f"--plant {options.plant}"] if options.plant else []
    return " ".join(words + ([f"ARGS='{' '.join(extra)}'"] if extra else []))


def _say(lines: Sequence[str]) -> None:
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":
        # Sets of texts are walked in an order of their own in each process otherwise.
        os.execve(
            sys.executable,
            [sys.executable, "-m", "tests.simulation", *sys.argv[1:]],
            os.environ | {"PYTHONHASHSEED": "0"},
        )
    sys.exit(main(sys.argv[1:]))
