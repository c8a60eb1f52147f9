"""What may a single value in the config be, and what is said when it is not?

Each kind of value has one reader that turns what TOML gave into a value with its unit, inside finite bounds, or raises
an error that carries why and how to mend it. Nothing is coerced: a number is no duration, true is no count, and there
is no word for "unlimited" (B27).
"""

import json
import re
from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

REFUSED: Final = "refused"
"""Type of the errors made here; their context holds `why` and `mend`."""

_SPAN: Final = re.compile(
    r"(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m(?!s))?(?:(\d{1,9})s)?(?:(\d{1,9})ms)?", re.ASCII
)
_SPAN_UNITS: Final = (
    ("d", timedelta(days=1)),
    ("h", timedelta(hours=1)),
    ("m", timedelta(minutes=1)),
    ("s", timedelta(seconds=1)),
    ("ms", timedelta(milliseconds=1)),
)
_SPAN_MEND: Final = 'write a number and a unit, as in "90s", "30m", "1h30m" or "7d"'
_USD_PLACES: Final = 6
"""Money is kept in micro-USD."""


def refused(why: str, mend: str) -> PydanticCustomError:
    return PydanticCustomError(REFUSED, "{why}", {"why": why, "mend": mend})


def parse_span(text: str) -> timedelta | None:
    """The duration that `text` writes, or None."""
    match = _SPAN.fullmatch(text)
    if not text or match is None:
        return None
    return sum(
        (int(count) * unit for count, (_, unit) in zip(match.groups(), _SPAN_UNITS, strict=True) if count),
        timedelta(0),
    )


def write_span(span: timedelta) -> str:
    """The shortest text that `parse_span` reads as `span`, to the millisecond."""
    parts: list[str] = []
    for word, unit in _SPAN_UNITS:
        count, span = divmod(span, unit)
        if count:
            parts.append(f"{count}{word}")
    return "".join(parts) or "0s"


def span(least: str, most: str) -> BeforeValidator:
    """A duration, written as a text; both bounds are allowed."""
    low, high = _bound(least), _bound(most)

    def read(value: object) -> timedelta:
        if isinstance(value, timedelta):
            found: timedelta | None = value
        elif isinstance(value, int | Decimal) and not isinstance(value, bool):
            raise refused("a duration is a text with its unit, not a number", _number_mend(value, low, least, most))
        else:
            found = parse_span(value) if isinstance(value, str) else None
        if found is None:
            raise refused("not a duration", _SPAN_MEND)
        if not low <= found <= high:
            raise refused("out of bounds", f'write a duration from "{least}" to "{most}"')
        return found

    return BeforeValidator(read)


def _bound(text: str) -> timedelta:
    if (found := parse_span(text)) is None:
        raise ValueError(text)
    return found


def _number_mend(value: int | Decimal, low: timedelta, least: str, most: str) -> str:
    if value < low.total_seconds() or value <= 0:
        return f'write a duration from "{least}" to "{most}"'
    return f'write "{value}s" if seconds are meant; {_SPAN_MEND}'


def whole(least: int, most: int) -> BeforeValidator:
    """A whole number; both bounds are allowed."""

    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise refused("not a whole number", f"write a whole number from {least} to {most}, without quotes")
        if not least <= value <= most:
            raise refused("out of bounds", f"write a whole number from {least} to {most}")
        return value

    return BeforeValidator(read)


def fraction(least: str, most: str) -> BeforeValidator:
    """A decimal number; both bounds are allowed."""
    mend = f"write a number from {least} to {most}"

    def read(value: object) -> Decimal:
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            raise refused("not a number", f"{mend}, without quotes")
        if not Decimal(value).is_finite() or not Decimal(least) <= value <= Decimal(most):
            raise refused("out of bounds", mend)
        return Decimal(value)

    return BeforeValidator(read)


def usd(most: int) -> BeforeValidator:
    """An amount of US dollars, more than 0; a number or a text, never a binary fraction."""
    mend = f"write US dollars from 0.000001 to {most}"

    def read(value: object) -> Decimal:
        if isinstance(value, bool) or not isinstance(value, int | str | Decimal):
            raise refused("not an amount of money", mend)
        try:
            amount = Decimal(value)
        except InvalidOperation:
            raise refused("not an amount of money", f"{mend}, as in 40 or 0.79") from None
        if not amount.is_finite() or not 0 < amount <= most:
            raise refused("out of bounds", mend)
        if amount != round(amount, _USD_PLACES):
            raise refused("finer than a micro-dollar", f"{mend}, with at most {_USD_PLACES} decimal places")
        return amount

    return BeforeValidator(read)


def text(pattern: str, mend: str) -> BeforeValidator:
    """A text that matches `pattern` as a whole."""
    shape = re.compile(pattern, re.ASCII)

    def read(value: object) -> str:
        if not isinstance(value, str):
            raise refused("not a text", f"in quotes: {mend}")
        if not shape.fullmatch(value):
            raise refused("not of the right shape", mend)
        return value

    return BeforeValidator(read)


def words(pattern: str, mend: str, *, least: int, most: int) -> BeforeValidator:
    """A list of distinct texts, each of which matches `pattern` as a whole."""
    shape = re.compile(pattern, re.ASCII)

    def read(value: object) -> tuple[str, ...]:
        found = _texts(value, mend)
        if not least <= len(found) <= most:
            raise refused(f"a list of {len(found)}", f"list from {least} to {most} texts: {mend}")
        if len(set(found)) != len(found):
            raise refused("the list names something twice", "name each once")
        for position, entry in enumerate(found, start=1):
            if not shape.fullmatch(entry):
                raise refused(f"entry {position} is not of the right shape", mend)
        return found

    return BeforeValidator(read)


def arguments(most: int) -> BeforeValidator:
    """A list of command-line arguments, which may repeat."""
    mend = 'write a list of texts, as in ["--kv-cache-dtype", "fp8"]'

    def read(value: object) -> tuple[str, ...]:
        found = _texts(value, mend)
        if len(found) > most:
            raise refused(f"a list of {len(found)}", f"list at most {most} texts")
        if not all(1 <= len(entry) <= 256 and entry.isprintable() for entry in found):
            raise refused("an argument is empty, too long or not printable", "each is 1 to 256 printable characters")
        return found

    return BeforeValidator(read)


def _texts(value: object, mend: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(entry, str) for entry in value):
        raise refused("not a list of texts", mend)
    return tuple(value)


def texts_by_name(key: str, entry: str, mend: str, *, most: int) -> BeforeValidator:
    """A table of texts: names match `key`, values match `entry`."""
    key_shape, entry_shape = re.compile(key, re.ASCII), re.compile(entry, re.ASCII)

    def read(value: object) -> dict[str, str]:
        if not isinstance(value, Mapping) or len(value) > most:
            raise refused(f"not a table of at most {most} texts", mend)
        for name, content in value.items():
            if not isinstance(content, str) or not key_shape.fullmatch(name) or not entry_shape.fullmatch(content):
                raise refused(f"entry {str(name)[:64]!r} is not of the right shape", mend)
        return dict(value)

    return BeforeValidator(read)


def _json_object(value: object) -> dict[str, Any]:
    mend = "write a table, as in { temperature = 0.7 }, or the same as JSON in a text"
    if isinstance(value, str):
        try:
            value = json.loads(value, parse_constant=_no_constant)
        except ValueError:
            raise refused("not a JSON object", mend) from None
    if not isinstance(value, Mapping):
        raise refused("not a JSON object", mend)
    try:
        # A model server takes binary fractions; only money needs more.
        found = json.loads(json.dumps(dict(value), default=_plain_number, allow_nan=False))
    except (TypeError, ValueError):
        raise refused("holds what JSON cannot", mend) from None
    return dict(found)


def _no_constant(word: str) -> object:
    raise ValueError(word)


def _plain_number(value: object) -> float:
    if isinstance(value, Decimal) and value.is_finite():
        return float(value)
    raise TypeError


JSON_OBJECT: Final = BeforeValidator(_json_object)


def one_of(*allowed: str) -> BeforeValidator:
    """One of a few words."""
    mend = "write one of " + ", ".join(f'"{word}"' for word in allowed)

    def read(value: object) -> str:
        if not isinstance(value, str) or value not in allowed:
            raise refused("not one of the words allowed here", mend)
        return value

    return BeforeValidator(read)


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise refused("neither true nor false", "write true or false, without quotes")
    return value


FLAG: Final = BeforeValidator(_flag)
