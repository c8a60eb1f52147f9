"""Which tests run one after another in the same worker, and which of these rows are begun first?

A row is a file, or what stands behind the last `@` of a test's name: tests that start real processes are one, wherever
they are. Handing out single tests would cost a worker's look at all that it was ever given, for each of thousands. What
takes longest is begun first, so that nobody waits for it alone in the end.
"""

from typing import Final

ROWS: Final = ("process", "outside", "simulation")
"""Of tests marked `process`: all of them, but for those of the last two folders."""
LONG: Final = (
    "tests/mutation/test_mutation.py",
    "tests/simulation/test_crash_points.py",
    "tests/scenarios/",
)
"""Files that take the longest of all, as they were measured."""


def row_of(name: str) -> str:
    """What pytest-xdist asks of each test; an `@` among parameters is none of ours."""
    if name.rfind("@") > name.rfind("]"):
        return name.rpartition("@")[2]
    return name.partition("::")[0]


def turn(name: str) -> int:
    """When a test's row is begun; those of one turn keep their order."""
    row = row_of(name)
    if row in ROWS:
        return ROWS.index(row)
    found = next((at for at, start in enumerate(LONG) if row.startswith(start)), len(LONG))
    return len(ROWS) + found
