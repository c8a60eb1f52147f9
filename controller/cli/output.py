"""How is something printed, for people and for scripts?

Tables are plain text in columns, without colour, so that they look the same in a pipe, under NO_COLOR and in a log.
Progress is one line on stderr that is written over, and only where somebody is watching.
"""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TextIO

_CELL_MAX: Final = 160
_FACT_MAX: Final = 1000
"""What stands alone in its line, as an alarm with its mend, is not cut where a table's cell is."""


def show_json(value: Mapping[str, Any]) -> None:
    """One object a call, with its schema."""
    print(json.dumps({"schema": 1, **value}, ensure_ascii=False), flush=True)


def show_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    cells = [tuple(header), *(tuple(cell(value) for value in row) for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    for row in cells:
        print("  ".join(value.ljust(width) for value, width in zip(row, widths, strict=True)).rstrip())
    sys.stdout.flush()


def show_facts(facts: Iterable[tuple[str, object]]) -> None:
    """Name and value, one a line."""
    known = [(name, cell(value, most=_FACT_MAX)) for name, value in facts]
    width = max((len(name) for name, _ in known), default=0)
    for name, value in known:
        print(f"{name.ljust(width)}  {value}")
    sys.stdout.flush()


def cell(value: object, *, most: int = _CELL_MAX) -> str:
    """A value in one line; what is unknown is `-`, and nothing from outside can move the cursor."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(cell(entry) for entry in value) or "-"
    text = printable(str(value))
    return text if len(text) <= most else f"{text[: most - 1]}…"


def printable(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)


def say(words: str) -> None:
    """For people, on stderr."""
    print(words, file=sys.stderr, flush=True)


def usd(amount: object) -> str | None:
    return None if amount is None else f"${amount}"


def instant(at: datetime) -> str:
    """As the API writes it."""
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def age(instant: object, now: datetime) -> str | None:
    """How long ago, or how long until, a time of the wire is."""
    if not isinstance(instant, str):
        return None
    try:
        found = datetime.fromisoformat(instant)
    except ValueError:
        return None
    seconds = int((now - found.replace(tzinfo=found.tzinfo or UTC)).total_seconds())
    return f"{span_words(seconds)} ago" if seconds >= 0 else f"in {span_words(-seconds)}"


def span_words(seconds: float) -> str:
    whole = int(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min"
    if whole < 172800:
        return f"{whole // 3600} h"
    return f"{whole // 86400} d"


class Progress:
    """The last word on what is being waited for: one living line on a terminal, one line a change elsewhere."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._living = self._stream.isatty()
        self._last = ""
        self._subject = ""

    def tell(self, words: str, *, subject: str | None = None) -> None:
        """`subject` is what a log should say once; by default the words themselves."""
        line = printable(words)
        if self._living and line != self._last:
            self._stream.write(f"\r\x1b[2K{line[:_CELL_MAX]}")
        elif not self._living and (subject or line) != self._subject:
            self._stream.write(f"{line}\n")
        self._last, self._subject = line, subject or line
        self._stream.flush()

    def end(self) -> None:
        if self._living and self._last:
            self._stream.write("\r\x1b[2K")
            self._stream.flush()
        self._last = self._subject = ""
