"""Is this file of evidence the one that was written, whole and in order?

Each line carries the hash of the line before it and its own, over a canonical form, so that one changed byte, one missing or
one repeated line shows. The first line's `prev` is empty.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


def canonical(line: Mapping[str, Any]) -> str:
    """The one form of a line that is hashed: sorted names, no spaces, no escapes beyond JSON's own."""
    told = {name: value for name, value in line.items() if name != "hash"}
    return json.dumps(told, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest(line: Mapping[str, Any]) -> str:
    return hashlib.sha256(canonical(line).encode()).hexdigest()


def link(line: Mapping[str, Any], prev: str) -> dict[str, Any]:
    """The line with the hash of the one before it, and its own."""
    linked = {**line, "prev": prev}
    return {**linked, "hash": digest(linked)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """The first thing that is wrong: at which `seq` (as far as it can be told), and what."""

    seq: int | None
    problem: str


def verify(lines: Iterable[Mapping[str, Any]]) -> Broken | None:
    """Follow the chain from its first given line on; `None` if every link holds."""
    before: Mapping[str, Any] | None = None
    for line in lines:
        seq = line.get("seq")
        if line.get("hash") != digest(line):
            return Broken(seq=seq, problem="its content does not match its hash")
        if before is not None and line.get("prev") != before.get("hash"):
            return Broken(seq=seq, problem=f"it does not follow line {before.get('seq')}")
        if before is not None and seq != before.get("seq", 0) + 1:
            return Broken(seq=seq, problem=f"line {before.get('seq', 0) + 1} is missing")
        before = line
    return None
