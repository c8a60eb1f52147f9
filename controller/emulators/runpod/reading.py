"""Is this piece of a control call what it should be?

Readers that return the value or name the key at fault. They are for the tests' own surface; what clients send is
checked in `bodies`, in Runpod's words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class BadControl(Exception):
    """A control call names something that does not exist or has the wrong shape."""

    def __init__(self, *, key: str, why: str) -> None:
        super().__init__(f"{key}: {why}")
        self.key = key
        self.why = why


def number(key: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadControl(key=key, why="must be a number")
    return float(value)


def not_negative(key: str, value: object) -> float:
    if (read := number(key, value)) < 0:
        raise BadControl(key=key, why="must not be negative")
    return read


def positive(key: str, value: object) -> float:
    if (read := number(key, value)) <= 0:
        raise BadControl(key=key, why="must be more than 0")
    return read


def flag(key: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise BadControl(key=key, why="must be true or false")
    return value


def text(key: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise BadControl(key=key, why="must be a text")
    return value


def table(key: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadControl(key=key, why="must be an object")
    return value


def texts(key: str, value: object) -> dict[str, str]:
    read = table(key, value)
    if not all(isinstance(entry, str) for entry in read.values()):
        raise BadControl(key=key, why="must hold texts")
    return read


def word_of(words: tuple[str, ...]) -> Callable[[str, object], str]:
    def read(key: str, value: object) -> str:
        if value not in words:
            raise BadControl(key=key, why=f"must be one of {', '.join(words)}")
        return str(value)

    return read


def whole(key: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise BadControl(key=key, why="must be a whole number, not negative")
    return value
