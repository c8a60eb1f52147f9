"""What do the figures of a comparison come to, and which targets do they meet?

Each figure is the median of its rounds. Delays are told as what was added to the direct way in the same run; targets
are those of the design, and most of them ratios, since a core of one day is not that of another.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from rich.console import Console
from rich.table import Table

from benchmarks.printing import MARKS
from benchmarks.rows import Row, at_most, number

Figures = Mapping[str, Mapping[str, float]]
"""By name of who was measured."""

DIRECT: Final = "direct"
OURS: Final = "gateway"

ADDED_MS: Final = 0.5
TIMES_NGINX_CPU: Final = 8.0
TIMES_LESS_THAN_LITELLM: Final = 100.0
PART_OF_NGINX: Final = 0.2
EVENT_US: Final = 70.0
IDLE_MIB: Final = 60.0


def middle(found: Mapping[str, Sequence[float]]) -> dict[str, float]:
    return {what: statistics.median(values) for what, values in found.items()}


def lines(figures: Figures) -> list[tuple[str, list[str]]]:
    """One line of the table for each figure, with a cell for each who was measured."""
    names = list(figures)

    def row(what: str, key: str, show: Callable[[str, float], str]) -> tuple[str, list[str]]:
        return what, [show(name, figures[name][key]) if key in figures[name] else "" for name in names]

    def plain(_: str, value: float) -> str:
        return number(value)

    def own(name: str, value: float) -> str:
        return "" if name == DIRECT else number(value)

    found = []
    for count in (1, 32, 256):
        for part in ("p50", "p99"):
            key = f"{part}_ms_{count}"

            def over(name: str, value: float, key: str = key) -> str:
                direct = figures[DIRECT][key]
                return number(direct) if name == DIRECT else f"+{number(value - direct)}"

            found.append(row(f"{part}, {count} connections, ms (direct; added)", key, over))
        found.append(row(f"requests/s, {count} connections", f"rps_{count}", plain))
        found.append(row(f"CPU µs a request, {count} connections", f"cpu_us_request_{count}", own))
    found.append(row("SSE events/s, 32 streams without a pause", "events_per_s", plain))
    found.append(row("CPU µs an event, 256 streams, 20 events/s each", "cpu_us_event", own))
    found.append(row("memory at rest, MiB", "idle_mib", own))
    found.append(row("memory, 256 open streams, MiB", "open_mib", own))
    return found


def targets(figures: Figures) -> list[Row]:
    """Those that can be told: some need a peer."""
    ours = figures[OURS]
    added = ours["p50_ms_1"] - figures[DIRECT]["p50_ms_1"]
    found = [at_most("p50 added, 1 connection", added, ADDED_MS, "ms")]
    used = ours["cpu_us_request_32"]
    if (nginx := figures.get("nginx")) is not None:
        times = used / nginx["cpu_us_request_32"]
        found.append(at_most("CPU of a request at 32 connections, × nginx's", times, TIMES_NGINX_CPU, "×"))
        part = ours["rps_32"] / nginx["rps_32"]
        found.append(_at_least("requests/s at 32 connections, part of nginx's", part, PART_OF_NGINX, ""))
    if (litellm := figures.get("litellm")) is not None:
        less = litellm["cpu_us_request_32"] / used
        what = "CPU of a request at 32 connections, times less than LiteLLM's"
        found.append(_at_least(what, less, TIMES_LESS_THAN_LITELLM, "×"))
    found.append(at_most("CPU of an event, 256 streams", ours["cpu_us_event"], EVENT_US, "µs"))
    found.append(at_most("memory at rest", ours["idle_mib"], IDLE_MIB, "MiB"))
    return found


def _at_least(what: str, value: float, limit: float, unit: str) -> Row:
    measured, target = f"{number(value)} {unit}".strip(), f"≥ {number(limit)} {unit}".strip()
    return Row(what=what, measured=measured, target=target, ok=value >= limit, values={"value": value})


def show(head: Mapping[str, str], figures: Figures, *, seconds: float) -> None:
    console = Console(width=max(Console().width, 120))
    console.print(", ".join(f"{name} {value}" for name, value in head.items()), highlight=False, soft_wrap=True)
    table = Table(show_edge=False, pad_edge=False)
    table.add_column("medians of the rounds")
    for name in figures:
        table.add_column(name, justify="right")
    for what, cells in lines(figures):
        table.add_row(what, *cells)
    console.print(table, highlight=False, markup=False)
    against = Table(show_edge=False, pad_edge=False)
    for title in ("target", "measured", "aimed at", "ok"):
        against.add_column(title)
    for row in targets(figures):
        against.add_row(row.what, row.measured, row.target, MARKS[row.ok])
    console.print(against, highlight=False, markup=False)
    console.print(f"measured in {seconds:.0f} s", highlight=False)
