"""What JSON is there in these bytes?

Any bytes may come. What is no JSON is `Unreadable`, and a field that contradicts itself says nothing; nothing here
raises. Numbers with a point are Decimal, so that money is never a float.
"""

import json
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, NoReturn


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """It makes no sense; `what` is ours, without a word of the answer."""

    what: str


def document(body: bytes) -> Any:
    """The JSON in `body`, numbers with a point as Decimal; `Unreadable` for anything that is no JSON."""
    try:
        return _DECODER.decode(body.decode(json.detect_encoding(body), "surrogatepass"))
    except (ValueError, ArithmeticError, RecursionError):
        return Unreadable(what="the answer is no JSON")


def _refused(constant: str) -> NoReturn:
    raise ValueError(constant)


def _said_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A field that is said twice in two ways says nothing: the second must not hide what the first showed."""
    found = dict(pairs)
    if len(found) != len(pairs):
        for name, value in pairs:
            if found[name] != value:
                found[name] = None
    return found


_DECODER: Final = json.JSONDecoder(parse_float=Decimal, parse_constant=_refused, object_pairs_hook=_said_once)
"""Made once: one for each answer took as long as a small one takes to read."""
