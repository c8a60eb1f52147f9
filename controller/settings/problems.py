"""What is wrong with the config, where, and how is it mended?

All problems are told at once. A value is repeated only where it cannot be a secret.
"""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

_SECRET_WORDS: Final = ("key", "secret", "token", "password", "credential", "webhook", "auth")
_SECRET_PREFIXES: Final = ("rpa_", "hf_", "sk-", "Bearer ")
_VALUE_SHOWN: Final = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One fault. `line` is None where there is no line; `value` where there is none, or it may be a secret."""

    file: str
    line: int | None
    key: str
    value: str | None
    why: str
    mend: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        subject = self.key if self.value is None else f"{self.key} = {self.value}"
        parts = [place, subject, f"{self.why}; {self.mend}"] if self.key else [place, f"{self.why}; {self.mend}"]
        return ": ".join(parts)


class ConfigProblems(Exception):
    """The config cannot be taken. Raised with everything that was found."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


def shown(key: str, value: object) -> str | None:
    """`value` as it may be printed beside `key`, or None."""
    last = key.rpartition(".")[2].lower()
    if isinstance(value, bool | int | float | Decimal):
        return _written(value)
    if any(word in last for word in _SECRET_WORDS):
        return None
    if isinstance(value, dict) or value is None:
        return None
    found = _written(value)
    if any(prefix in found for prefix in _SECRET_PREFIXES):
        return None
    return found if len(found) <= _VALUE_SHOWN else f"{found[:_VALUE_SHOWN]}…"


def _written(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return '"' + "".join(char if char.isprintable() else "?" for char in value) + '"'
        case int() | float() | Decimal():
            return str(value)
        case list() | tuple():
            return f"[{', '.join(_written(entry) for entry in value)}]"
        case _:
            return str(value)


def nearest(word: str, known: Iterable[str]) -> str:
    """How to mend a key that does not exist."""
    names = sorted(known)
    found = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    # Who writes a key where its file is meant is closer to that than the letters are.
    found = found or [name for name in names if name.startswith(f"{word}_")]
    if not found:
        return f"remove it; known here: {', '.join(names)}" if len(names) <= 12 else "remove it"
    return f"did you mean {' or '.join(found)}?"
