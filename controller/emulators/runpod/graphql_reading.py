"""What does a GraphQL document ask for?

As much of the language as Runpod's clients use: one operation, its fields with their arguments and what is wanted of
each. Variables, fragments and directives are not read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

_TOKEN: Final = re.compile(
    r'[\s,]+|#[^\n]*|(?P<text>"(?:[^"\\\n]|\\.)*")|(?P<number>-?\d+(?:\.\d+)?)|(?P<name>[A-Za-z_]\w*)|(?P<mark>[{}()\[\]:])'
)
_WORDS: Final[dict[str, object]] = {"true": True, "false": False, "null": None}


class Unreadable(Exception):
    """The document is not one that we read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One field: its arguments, and which fields of it."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    fields: tuple[Wanted, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """`kind` is `query` or `mutation`."""

    kind: str
    fields: tuple[Wanted, ...]


def read_operation(document: str) -> Operation:
    """Raises Unreadable."""
    words = _Words(_tokens(document))
    kind = words.take() if words.next in ("query", "mutation") else "query"
    if words.next is not None and words.next.isidentifier():
        words.take()  # the operation's own name
    found = Operation(kind=kind, fields=_fields(words))
    if words.next is not None:
        raise Unreadable(f"unexpected {words.next}")
    return found


def _tokens(document: str) -> list[str]:
    found, at = [], 0
    while at < len(document):
        match = _TOKEN.match(document, at)
        if match is None:
            raise Unreadable(f"unexpected character {document[at]!r}")
        at = match.end()
        if match.lastgroup is not None:
            found.append(match.group())
    return found


class _Words:
    """The tokens, taken one after another."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._at = 0

    @property
    def next(self) -> str | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def take(self, wanted: str | None = None) -> str:
        found = self.next
        if found is None or (wanted is not None and found != wanted):
            raise Unreadable(f"expected {wanted or 'more'}, found {found or 'the end'}")
        self._at += 1
        return found


def _fields(words: _Words) -> tuple[Wanted, ...]:
    words.take("{")
    found = []
    while words.next != "}":
        name = words.take()
        if not name.isidentifier():
            raise Unreadable(f"expected a name, found {name}")
        arguments = _entries(words, "(", ")") if words.next == "(" else {}
        found.append(Wanted(name=name, arguments=arguments, fields=_fields(words) if words.next == "{" else ()))
    words.take("}")
    return tuple(found)


def _entries(words: _Words, begin: str, end: str) -> dict[str, Any]:
    words.take(begin)
    found: dict[str, Any] = {}
    while words.next != end:
        name = words.take()
        words.take(":")
        found[name] = _value(words)
    words.take(end)
    return found


def _value(words: _Words) -> Any:
    if words.next == "{":
        return _entries(words, "{", "}")
    if words.next == "[":
        words.take()
        found = []
        while words.next != "]":
            found.append(_value(words))
        words.take()
        return found
    return _plain(words.take())


def _plain(word: str) -> object:
    if word.startswith('"'):
        return re.sub(r"\\(.)", lambda match: {"n": "\n", "t": "\t"}.get(match[1], match[1]), word[1:-1])
    if word[0].isdigit() or word[0] == "-":
        return float(word) if "." in word else int(word)
    if word in _WORDS:
        return _WORDS[word]
    if not word.isidentifier():
        raise Unreadable(f"expected a value, found {word}")
    return word  # an enum's
