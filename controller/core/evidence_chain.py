"""Has anything been changed or taken out of the evidence since it was written?

Each line carries the hash of the line before it and its own. A changed line no longer has its hash; a line that was
removed, put in or moved breaks the link to its neighbour. What is missing at either end shows only in comparison with
the store: old files may have been thrown away, and the newest line may still be on its way.

An old copy of the store that is put back knows nothing of the file's newest lines. Its next line follows, in the store,
the last one that the copy holds; in the file it stands after others, and says after which. That break is declared; any
other is a fault.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

BEFORE_THE_FIRST: Final = "0" * 64
"""`prev` of the first line ever written."""
RESTORED: Final = "store.restored"
"""The event of the line that a restored store goes on with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """The first line that does not hold; `position` counts the lines given, from 1."""

    position: int
    seq: int | None
    what: str


def canonical(line: Mapping[str, Any]) -> str:
    """The one way to write a line for hashing, and in the file. Raises ValueError for what JSON has not."""
    return json.dumps(line, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def link(line: Mapping[str, Any], prev: str) -> dict[str, Any]:
    """`line` with `prev` and its own `hash` in it."""
    linked = {**line, "prev": prev}
    linked.pop("hash", None)
    return {**linked, "hash": _digest(linked)}


def verify(lines: Iterable[Mapping[str, Any]], prev: str | None = None) -> Broken | None:
    """The first line that does not hold, or None. `prev` is the hash before the first one, where it is known."""
    seq: int | None = None
    for position, line in enumerate(lines, start=1):
        found = line.get("seq")
        number = found if isinstance(found, int) and not isinstance(found, bool) else None
        if (what := _wrong(line, number, prev=prev, after=seq)) is not None:
            return Broken(position=position, seq=number, what=what)
        prev, seq = str(line["hash"]), number
    return None


def _wrong(line: Mapping[str, Any], seq: int | None, *, prev: str | None, after: int | None) -> str | None:
    if not isinstance(line.get("hash"), str) or not isinstance(line.get("prev"), str):
        return "it carries no hash"
    if line["hash"] != _digest({key: value for key, value in line.items() if key != "hash"}):
        return "its content does not have its hash: it was changed"
    if seq is None:
        return "it carries no seq"
    if prev is not None and follows(line) != prev:
        return "it does not follow the line before: something was removed, put in or moved"
    if after is not None and seq <= after:
        return f"its seq does not come after {after}"
    return None


def follows(line: Mapping[str, Any]) -> object:
    """The hash of the line that this one stands after in the file: its `prev`, unless it declares a break."""
    declared = _part(_part(line, "detail"), "after").get("hash") if line.get("event") == RESTORED else None
    return line.get("prev") if declared is None else declared


def forgotten(line: Mapping[str, Any]) -> range:
    """The numbers before a declared break that the file holds and the restored store does not; none for another
    line."""
    detail = _part(line, "detail") if line.get("event") == RESTORED else {}
    stored, after = _part(detail, "store").get("seq"), _part(detail, "after").get("seq")
    return range(stored + 1, after + 1) if isinstance(stored, int) and isinstance(after, int) else range(0)


def _part(whole: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = whole.get(name)
    return part if isinstance(part, Mapping) else {}


def _digest(line: Mapping[str, Any]) -> str:
    # A lone surrogate can be in a JSON text and not in UTF-8; it must break the hash, not the reader.
    return hashlib.sha256(canonical(line).encode("utf-8", "surrogatepass")).hexdigest()
