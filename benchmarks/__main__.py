"""Which measurements are made, and how is the whole run bounded?

Each group is a scene of its own with a limit; one that fails leaves its row as not measured, and the others go on.
Exit 0 when everything was measured, whether the targets were met or not, else 1.
"""

import argparse
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

import anyio

from benchmarks import counting, daemon, fixed_address, many, virtual
from benchmarks.printing import machine, print_json, print_table
from benchmarks.rows import Row, missing


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Some measurements that share a scene; they append their rows as they go."""

    name: str
    limit: timedelta
    measure: Callable[[list[Row]], Awaitable[None]] | None = None
    play: Callable[[list[Row]], None] | None = None
    """On virtual time, which needs a loop of its own."""


GROUPS: tuple[Group, ...] = (
    Group(name="daemon", limit=timedelta(seconds=150), measure=daemon.measure),
    Group(name="gateway", limit=timedelta(seconds=90), measure=fixed_address.measure),
    Group(name="counting", limit=timedelta(seconds=60), play=counting.play),
    Group(name="many", limit=timedelta(seconds=180), measure=many.measure),
    Group(name="virtual", limit=timedelta(seconds=60), play=virtual.play),
)


def run(group: Group) -> list[Row]:
    """The rows of one group; a failure is a row too."""
    rows: list[Row] = []
    try:
        if group.play is not None:
            group.play(rows)
        else:
            anyio.run(_within, group, rows, backend_options={"use_uvloop": True})
    except Exception as failure:  # the others shall be measured all the same
        traceback.print_exception(failure, file=sys.stderr)
        rows.append(missing(group.name, _words(failure)))
    return rows


async def _within(group: Group, rows: list[Row]) -> None:
    assert group.measure is not None
    with anyio.fail_after(group.limit.total_seconds()):
        await group.measure(rows)


def _words(failure: BaseException) -> str:
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    return f"{type(failure).__name__}: {failure}".splitlines()[0]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--only", action="append", choices=[group.name for group in GROUPS], help="only this group")
    chosen = parser.parse_args(arguments)
    began, head = time.monotonic(), machine()
    rows: list[Row] = []
    for group in GROUPS:
        if chosen.only is None or group.name in chosen.only:
            print(f"measuring: {group.name} ...", file=sys.stderr, flush=True)
            rows += run(group)
    shown = print_json if chosen.json else print_table
    shown(head, rows, seconds=time.monotonic() - began)
    return 1 if any(row.problem is not None for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
