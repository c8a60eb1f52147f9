"""What does a request's body ask for, and how does one word of it change without touching the rest?

The body is read once, member by member, at the speed of the standard decoder; where each top-level value stands is
kept, so that a value can be exchanged in place and every other byte stays what the client sent. A key given twice at
the top is refused: two readers could take different ones, and one of them decides what is billed.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

OPENING: Final = re.compile(r"[ \t\n\r]*(\{(?:[ \t\n\r]*\})?)[ \t\n\r]*")
COLON: Final = re.compile(r"[ \t\n\r]*(:)[ \t\n\r]*")
NEXT: Final = re.compile(r"[ \t\n\r]*([,}])[ \t\n\r]*")


class Unreadable(ValueError):
    """Not one JSON object in UTF-8."""


def _no_constant(name: str) -> NoReturn:
    raise Unreadable(f"{name} is not JSON")


DECODER: Final = json.JSONDecoder(parse_constant=_no_constant)


@dataclass(frozen=True, slots=True)
class Document:
    text: str
    members: Mapping[str, Any]
    spans: Mapping[str, tuple[int, int]]

    def replaced(self, values: Mapping[str, Any]) -> bytes:
        """The document with these members' values exchanged, or put behind the last one where it has no such member;
        everything else is kept byte for byte."""
        pieces: list[str] = []
        done = 0
        for name in sorted(values.keys() & self.spans.keys(), key=lambda name: self.spans[name]):
            start, end = self.spans[name]
            pieces += (self.text[done:start], json.dumps(values[name]))
            done = end
        if new := [f"{json.dumps(name)}: {json.dumps(values[name])}" for name in values if name not in self.spans]:
            end = self.text.rindex("}")
            pieces += (self.text[done:end], ", " if self.spans else "", ", ".join(new))
            done = end
        pieces.append(self.text[done:])
        return "".join(pieces).encode()


def parse(body: bytes) -> Document:
    """Raises `Unreadable`."""
    try:
        text = body.decode()
        return _object(text)
    except Unreadable:
        raise
    except (ValueError, RecursionError) as error:  # bad UTF-8, bad JSON, a number beyond the decoder, too deep
        raise Unreadable("the body is not readable JSON") from error


def _object(text: str) -> Document:
    members: dict[str, Any] = {}
    spans: dict[str, tuple[int, int]] = {}
    at, sign = _sign(OPENING, text, 0)
    if sign != "{":
        return _ended(text, at, Document(text, members, spans))
    while True:
        if not text.startswith('"', at):
            raise Unreadable("the body is not readable JSON: a name in quotes is missing")
        name, at = DECODER.raw_decode(text, at)
        if name in members:
            raise Unreadable(f"the key {name[:64]!r} is given twice")
        start, _ = _sign(COLON, text, at)
        members[name], end = DECODER.raw_decode(text, start)
        spans[name] = (start, end)
        at, sign = _sign(NEXT, text, end)
        if sign == "}":
            return _ended(text, at, Document(text, members, spans))


def _ended(text: str, at: int, document: Document) -> Document:
    if at != len(text):
        raise Unreadable("something follows the JSON object")
    return document


def _sign(pattern: re.Pattern[str], text: str, at: int) -> tuple[int, str]:
    """Where the next thing begins, and which sign was passed."""
    found = pattern.match(text, at)
    if found is None:
        raise Unreadable("the body is not one JSON object")
    return found.end(), found[1]
