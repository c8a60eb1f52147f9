"""Does the file that operators tail say what the store says, line by line, and no secret?

Read at the full looks, rotations and all, and held against the lines of the store: in order, each once, none missing
but the newest while they are on their way. What an old copy of the store forgot stays in the file in front of the line
that declares the break.
"""

import json
from pathlib import Path
from typing import Any, Final

from tests.simulation.machine import Machine

NAME: Final = "evidence.jsonl"
RESTORED: Final = "store.restored"


def lines_of(machine: Machine) -> list[str]:
    """Every whole line, oldest first. Here rotations are numbered as they come."""
    rotated = [path for path in machine.state.glob(f"{NAME}.*") if path.suffix[1:].isdigit()]
    paths = [*sorted(rotated, key=lambda path: int(path.suffix[1:])), machine.state / NAME]
    texts = [path.read_text() for path in paths if path.exists()]
    return [line for text in texts for line in text[: text.rfind("\n") + 1].splitlines()]


def problems_in(filed: list[str], stored: list[str]) -> list[str]:
    """What invariant 8 forbids, in words."""
    read = [json.loads(line) for line in filed]
    begins = _begins(read)
    if not read[begins:]:
        return []
    first = int(read[begins]["seq"])
    expected = [line for line in stored if json.loads(line)["seq"] >= first]
    if begins == 0 and len(expected) != len(stored):
        return [f"the file begins with line {first}, and the store with an earlier one"]
    return _differences(filed[begins:], expected)


def missing_from(filed: list[str], stored: list[str]) -> int:
    """How many of the store's newest lines are not in the file yet."""
    last = filed[-1] if filed else None
    return len(stored) - stored.index(last) - 1 if last in stored else len(stored)


def secrets_in(machine: Machine, secrets: tuple[str, ...]) -> list[str]:
    """Files of this machine's state that hold one of them (invariant 7)."""
    wanted = [secret.encode() for secret in secrets]
    files = [path for path in machine.state.iterdir() if path.is_file() and path.suffix != ".key"]
    return [path.name for path in files if _holds(path, wanted)]


def _holds(path: Path, secrets: list[bytes]) -> bool:
    data = path.read_bytes()
    return any(secret in data for secret in secrets)


def _begins(read: list[dict[str, Any]]) -> int:
    """The place of the latest break that was declared; 0 where there was none."""
    return max((place for place, line in enumerate(read) if line["event"] == RESTORED), default=0)


def _differences(filed: list[str], expected: list[str]) -> list[str]:
    for place, line in enumerate(filed):
        if place >= len(expected):
            return [f"the file goes on past the store: {line:.120}"]
        if line != expected[place]:
            return [f"where the store has {expected[place]:.120} the file has {line:.120}"]
    return []
