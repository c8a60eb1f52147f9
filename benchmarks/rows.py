"""What is one line of the result?

A row says what was measured, how much it was, what was aimed at, and whether that holds. Where the measurement could
not be made, `problem` says why, and the run as a whole fails; a target that is missed fails nothing.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measured thing. `ok` is None where nothing was aimed at."""

    what: str
    measured: str = ""
    target: str = ""
    ok: bool | None = None
    values: Mapping[str, float] = field(default_factory=dict)
    """The numbers behind `measured`, each with its unit in its name."""
    problem: str | None = None


def at_most(what: str, value: float, limit: float, unit: str, *, note: str = "", **values: float) -> Row:
    """A row whose value should not be above its limit."""
    return Row(
        what=what,
        measured=f"{number(value)} {unit}{f' ({note})' if note else ''}",
        target=f"≤ {number(limit)} {unit}",
        ok=value <= limit,
        values={"value": value, **values},
    )


def told(what: str, measured: str, **values: float) -> Row:
    """A row for information."""
    return Row(what=what, measured=measured, values=values)


def missing(what: str, problem: str) -> Row:
    """What was to be measured and could not be."""
    return Row(what=what, measured="not measured", problem=problem)


def number(value: float) -> str:
    """Three digits that matter, no more."""
    if value == 0 or abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def p50(values: Sequence[float]) -> float:
    return statistics.median(values)


def spread(values: Sequence[float], *, scale: float = 1.0) -> str:
    """Median and worst, for a note."""
    return f"p50 {number(p50(values) * scale)}, max {number(max(values) * scale)}"
