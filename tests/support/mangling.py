"""What does a document look like after somebody else has spoilt it?

A valid document is a tree of plain values. `mangled` drops, replaces, retypes, doubles or buries a few of its parts;
`written` makes the bytes, with numbers that no JSON library would write, fields that are said twice, and bytes cut off
or overwritten where `torn` asks for it.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from hypothesis import strategies as st

Path = tuple[str | int, ...]
Change = Any


@dataclass(frozen=True)
class Raw:
    """Goes into the document as it is."""

    text: str


@dataclass(frozen=True)
class Twice:
    """A field that is said twice, in two ways."""

    first: Any
    second: Any


class Dropped:
    """The field is not said at all; in a list its place is null."""


ODD: Final = tuple(
    Raw(text)
    for text in (
        *("NaN", "Infinity", "-Infinity", "1e400", "-1e400", "1e-999999", "1e-99999999999", "0.1e99999999999999999999"),
        *("9" * 400, "-" + "9" * 400, "9" * 5000, "1.0", "-0", "0.0", "[" * 2000, '{"a":' * 500 + "1" + "}" * 500),
        *('"\\ud800"', '"\\u0000"', '"a\\nb"', '"' + "x" * 5000 + '"'),
    )
)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(ODD),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=6,
)


def paths(tree: Any, at: Path = ()) -> Iterator[Path]:
    """Where something can be spoilt: every part of the document but the whole."""
    if isinstance(tree, Mapping):
        parts: Any = tree.items()
    else:
        parts = enumerate(tree) if isinstance(tree, list) else ()
    for name, part in parts:
        yield (*at, name)
        yield from paths(part, (*at, name))


def part_of(tree: Any, path: Path) -> Any:
    for name in path:
        tree = tree[name]
    return tree


@st.composite
def mangled(draw: st.DrawFn, tree: Any, *, under: Path = (), changes: int = 2) -> Any:
    """`tree` with one to `changes` of its parts under that path spoilt."""
    there = [(*under, *path) for path in paths(part_of(tree, under))]
    for path in draw(st.lists(st.sampled_from(there), min_size=1, max_size=changes, unique=True)):
        tree = _changed(tree, path, draw(_changes()))
    return tree


def _changes() -> st.SearchStrategy[Change]:
    twice = st.builds(lambda value: lambda part: Twice(part, value), json_values)
    twice_before = st.builds(lambda value: lambda part: Twice(value, part), json_values)
    buried = st.sampled_from([lambda part: [part], lambda part: {"value": part}, lambda part: str(part)])
    instead = st.builds(lambda value: lambda _: value, json_values)
    return st.just(lambda _: Dropped()) | instead | buried | twice | twice_before


def _changed(tree: Any, path: Path, change: Change) -> Any:
    if not path:
        return change(tree)
    name, *rest = path
    if isinstance(tree, dict) and name in tree:
        return tree | {name: _changed(tree[name], tuple(rest), change)}
    if isinstance(tree, list) and isinstance(name, int) and name < len(tree):
        return [*tree[:name], _changed(tree[name], tuple(rest), change), *tree[name + 1 :]]
    return tree  # an earlier change took it away


def written(tree: Any) -> bytes:
    return _text(tree).encode("utf-8", "surrogatepass")


def _text(tree: Any) -> str:
    match tree:
        case Raw():
            return tree.text
        case Dropped():
            return "null"
        case Twice():  # outside an object nothing can be said twice
            return _text(tree.second)
        case Mapping():
            return "{" + ",".join(_fields(tree)) + "}"
        case list():
            return "[" + ",".join(map(_text, tree)) + "]"
        case _:
            return json.dumps(tree)


def _fields(tree: Mapping[str, Any]) -> Iterator[str]:
    for name, value in tree.items():
        if isinstance(value, Dropped):
            continue
        for said in (value.first, value.second) if isinstance(value, Twice) else (value,):
            yield f"{json.dumps(name)}:{_text(said)}"


@st.composite
def torn(draw: st.DrawFn, body: bytes) -> bytes:
    """`body` cut off somewhere, or with bytes in it that are no UTF-8."""
    at = draw(st.integers(0, max(len(body) - 1, 0)))
    return body[:at] + draw(st.sampled_from([b"", b"\xff\xfe" + body[at:], b"\x00" + body[at + 1 :], b"}"]))
