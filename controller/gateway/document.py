"""What does a request's body ask for, and how does one word of it change without touching the rest?

The body is read once, member by member, at the speed of the standard decoder; where each top-level value stands is
kept, so that a value can be exchanged in place and every other byte stays what the client sent. A key given twice at
the top is refused: two readers could take different ones, and one of them decides what is billed.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii as quoted
from json.scanner import make_scanner
from typing import Any, Final, NoReturn, cast

# What stands between two values, in one look for each member: a search of its own for each sign, and the decoder's own
# way to a name, took more than reading the values did (November 2026). No quantifier gives back what it took, so that
# no body takes more than one look at each character.
_NAME: Final = r'"((?:[^"\\\x00-\x1f]++|\\.)*+)"[ \t\n\r]*+:[ \t\n\r]*+'
_END: Final = r"\}[ \t\n\r]*+\Z"
FIRST: Final = re.compile(rf"[ \t\n\r]*+\{{[ \t\n\r]*+(?:{_NAME}|{_END})")
FOLLOWING: Final = re.compile(rf"[ \t\n\r]*+(?:,[ \t\n\r]*+{_NAME}|{_END})")


MEMBERS_MOST: Final = 1024
"""At the top; no wire has a tenth of it. What else is long is read at the decoder's own speed."""


class Unreadable(ValueError):
    """Not one JSON object in UTF-8."""


def _no_constant(name: str) -> NoReturn:
    raise Unreadable(f"{name} is not JSON")


DECODER: Final = json.JSONDecoder(parse_constant=_no_constant)
READ: Final = make_scanner(cast(Any, DECODER))
"""Reads one value from where it begins; raises StopIteration where none does."""


@dataclass(slots=True)
class Document:
    """Not frozen, for what that costs each request; nobody changes one."""

    text: str
    members: Mapping[str, Any]
    spans: Mapping[str, tuple[int, int]]

    def replaced(self, values: Mapping[str, Any]) -> bytes:
        """The document with these members' values exchanged, or put behind the last one where it has no such member;
        everything else is kept byte for byte."""
        if len(values) == 1:
            (name, value), *_ = values.items()
            if (span := self.spans.get(name)) is not None:
                return f"{self.text[: span[0]]}{_written(value)}{self.text[span[1] :]}".encode()
        pieces: list[str] = []
        done = 0
        for start, end, name in sorted((*self.spans[name], name) for name in values if name in self.spans):
            pieces += (self.text[done:start], _written(values[name]))
            done = end
        if new := [f"{json.dumps(name)}: {json.dumps(values[name])}" for name in values if name not in self.spans]:
            end = self.text.rindex("}")
            pieces += (self.text[done:end], ", " if self.spans else "", ", ".join(new))
            done = end
        pieces.append(self.text[done:])
        return "".join(pieces).encode()


def _written(value: Any) -> str:
    return quoted(value) if isinstance(value, str) else json.dumps(value)


def parse(body: bytes) -> Document:
    """Raises `Unreadable`."""
    try:
        return _object(body.decode())
    except Unreadable:
        raise
    except (ValueError, RecursionError) as error:  # bad UTF-8, bad JSON, a number beyond the decoder, too deep
        raise Unreadable("the body is not readable JSON") from error


def _object(text: str) -> Document:
    members: dict[str, Any] = {}
    spans: dict[str, tuple[int, int]] = {}
    found = FIRST.match(text)
    while found is not None and (name := found[1]) is not None:
        if "\\" in name:
            name = DECODER.decode(f'"{name}"')
        if name in members:
            raise Unreadable(f"the key {name[:64]!r} is given twice")
        start = found.end()
        try:
            members[name], end = READ(text, start)
        except StopIteration:
            raise Unreadable("the body is not readable JSON: a value is missing") from None
        if len(members) > MEMBERS_MOST:
            raise Unreadable(f"the body has more than {MEMBERS_MOST} members")
        spans[name] = (start, end)
        found = FOLLOWING.match(text, end)
    if found is None:
        raise Unreadable("the body is not one JSON object")
    return Document(text, members, spans)
