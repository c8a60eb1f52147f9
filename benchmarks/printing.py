"""How is the result shown?

One table for people, with the machine above it, since a number without its machine says little; the same as JSON for
comparisons.
"""

import json
import os
import platform
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.rows import Row

ROOT = Path(__file__).parents[1]
MARKS = {True: "yes", False: "NO", None: ""}


def machine() -> dict[str, str]:
    """Cores that may be used, their kind, the interpreter, the commit, and how busy the machine is."""
    return {
        "cores": str(len(os.sched_getaffinity(0))),
        "processor": _chip(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "commit": _commit(),
        "load": " ".join(f"{load:.1f}" for load in os.getloadavg()),
        "three million additions": f"{_additions_ms():.0f} CPU ms",
    }


def _additions_ms() -> float:
    """How fast a core is just now: the best of some tries at the same small work."""
    took = []
    for _ in range(5):
        began = time.process_time()
        sum(range(3_000_000))
        took.append(time.process_time() - began)
    return min(took) * 1000


def _chip() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())


def _commit() -> str:
    """The commit, with a + when files differ from it; unknown outside a checkout."""
    try:
        asked = ["git", "describe", "--always", "--dirty=+"]
        found = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return found.stdout.strip()


def print_table(head: dict[str, str], rows: Sequence[Row], *, seconds: float) -> None:
    console = Console(width=max(Console().width, 140))
    console.print(", ".join(f"{name} {value}" for name, value in head.items()), highlight=False, soft_wrap=True)
    table = Table(show_edge=False, pad_edge=False)
    table.add_column("what", overflow="fold")
    table.add_column("measured", overflow="fold")
    table.add_column("target", no_wrap=True)
    table.add_column("ok", no_wrap=True)
    for row in rows:
        table.add_row(row.what, row.measured, row.target, "?" if row.problem else MARKS[row.ok])
    console.print(table, highlight=False, markup=False)
    for row in rows:
        if row.problem is not None:
            console.print(f"not measured: {row.what}: {row.problem}", highlight=False, markup=False)
    console.print(f"measured in {seconds:.0f} s", highlight=False)


def print_json(head: dict[str, str], rows: Sequence[Row], *, seconds: float) -> None:
    found = [
        {
            "what": row.what,
            "measured": row.measured,
            "target": row.target,
            "ok": row.ok,
            "values": dict(row.values),
            "problem": row.problem,
        }
        for row in rows
    ]
    print(json.dumps({"schema": 1, "machine": head, "seconds": round(seconds, 1), "rows": found}, indent=2))
