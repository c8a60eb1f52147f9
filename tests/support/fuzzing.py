"""What could somebody send who read an API's own description, and somebody who did not?

From each operation of an OpenAPI document: values as its schemas say, values of any other kind in their place, members
left out and put in, bodies that are no JSON, names that are no names, headers with odd values. Draws come from
hypothesis, so that a failure shrinks and a run repeats.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from hypothesis import strategies as st

Json = dict[str, Any]

METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS")
ODD = (
    "",
    " ",
    "0",
    "-1",
    "%00",
    "../..",
    "\x00",
    "é",
    "null",
    "x" * 300,
    "1e999",
    "9" * 40,
    "true",
    "{}",
    "m1",
    "qwen",
)
SPOILT = (b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"model":NaN}', b"[" * 2000, b'{"a":1}{"b":2}', b'{"x":"\\ud800"}')


SPOILT_VALUES: tuple[Any, ...] = (None, True, -1, 10**40, "", "\x00", [], [None], [True], [[]], [{}], {}, {"a": []})


def spoilt_by_one(body: Any) -> Iterator[Any]:
    """The body with each of its places in turn left out, or exchanged for each odd value: no draw is left to come upon
    them."""
    yield from SPOILT_VALUES
    places = list(enumerate(body)) if isinstance(body, list) else list(body.items()) if isinstance(body, dict) else []
    for place, value in places:
        for spoilt in spoilt_by_one(value):
            whole = copy(body)
            whole[place] = spoilt
            yield whole
        less = copy(body)
        del less[place]
        yield less


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request, and the operation that it was made from."""

    method: str
    path: str
    """With its query, as it goes over the wire."""
    template: str
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


def anything() -> st.SearchStrategy[Any]:
    plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20)
    return st.recursive(
        plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
    )


PLAIN: Mapping[str, st.SearchStrategy[Any]] = {
    "string": st.text(max_size=30) | st.sampled_from(ODD),
    "integer": st.integers(),
    "number": st.floats(allow_nan=False) | st.integers(),
    "boolean": st.booleans(),
}


def of_schema(schema: Mapping[str, Any], known: Mapping[str, Sequence[Any]], name: str = "") -> st.SearchStrategy[Any]:
    """Values that the schema allows; `known` has good ones by name, which somebody could have read elsewhere."""
    good = st.sampled_from(list(known[name])) if name in known else st.nothing()
    if "enum" in schema:
        return good | st.sampled_from(list(schema["enum"]))
    if "const" in schema:
        return st.just(schema["const"])
    if "anyOf" in schema or "oneOf" in schema:
        return good | st.one_of(*(of_schema(each, known) for each in schema.get("anyOf") or schema["oneOf"]))
    return good | _of_kind(schema, known)


def _of_kind(schema: Mapping[str, Any], known: Mapping[str, Sequence[Any]]) -> st.SearchStrategy[Any]:
    kind = schema.get("type", "")
    if isinstance(kind, list):
        return st.one_of(*(_of_kind({**schema, "type": each}, known) for each in kind))
    if kind == "object":
        members = {key: of_schema(each, known, key) for key, each in schema.get("properties", {}).items()}
        return st.fixed_dictionaries({}, optional=members)
    if kind == "array":
        return st.lists(of_schema(schema.get("items", {}), known), max_size=3)
    return PLAIN[kind] if kind in PLAIN else anything()


def asked(document: Json, known: Mapping[str, Sequence[Any]], headers: Mapping[str, Sequence[bytes]]) -> Any:
    """A strategy over all operations, by their own methods and, sometimes, another."""
    operations = [
        (method.upper(), path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    return st.sampled_from(operations).flatmap(lambda each: _of_operation(each, known, headers))


def _of_operation(
    which: tuple[str, str, Json], known: Mapping[str, Sequence[Any]], headers: Mapping[str, Sequence[bytes]]
) -> st.SearchStrategy[Asked]:
    method, template, operation = which
    parameters = operation.get("parameters", ())
    inside = {each["name"]: _word(each, known) for each in parameters if each["in"] == "path"}
    query = {each["name"]: _word(each, known) for each in parameters if each["in"] == "query"}
    named = [each["name"].lower() for each in parameters if each["in"] == "header"]
    fields = {
        **{name: st.sampled_from(ODD).map(_header) for name in named},
        **{name: st.sampled_from(list(values)) for name, values in headers.items()},
    }
    return st.builds(
        _built,
        st.just(template),
        st.just(method) | st.just(method) | st.sampled_from(METHODS),
        st.fixed_dictionaries(inside),
        st.fixed_dictionaries({}, optional=query),
        st.fixed_dictionaries({}, optional=fields),
        _bodies(operation, known),
    )


def _built(
    template: str, method: str, inside: dict[str, str], query: dict[str, str], fields: dict[str, bytes], body: bytes
) -> Asked:
    path = template
    for name, value in inside.items():
        path = path.replace(f"{{{name}}}", quote(value, safe="") or "%20")
    if query:
        path += "?" + urlencode(query)
    headers = tuple((name.encode(), value) for name, value in fields.items())
    return Asked(method=method, path=path, template=template, headers=headers, body=body)


def _word(parameter: Json, known: Mapping[str, Sequence[Any]]) -> st.SearchStrategy[str]:
    return of_schema(parameter.get("schema", {}), known, parameter["name"]).map(_text) | st.sampled_from(ODD)


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _header(value: str) -> bytes:
    return value.encode("latin-1", "replace").replace(b"\x00", b"")


def _bodies(operation: Json, known: Mapping[str, Sequence[Any]]) -> st.SearchStrategy[bytes]:
    content = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if content is None:
        return st.just(b"") | st.sampled_from(SPOILT)
    schema = content["schema"]
    loose = st.fixed_dictionaries({}, optional=dict.fromkeys(schema.get("properties", {}), anything()))
    fitting = of_schema(schema, known)
    written = (fitting | fitting | loose | anything()).map(lambda value: json.dumps(value).encode())
    return written | written | st.sampled_from(SPOILT)
