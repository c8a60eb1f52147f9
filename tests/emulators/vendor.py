"""Does our table of Runpod's answers still say what the vendor's own document says?

The document is the vendor's text and is not kept here: `document.yaml` has the facts of it, in a notation of ours.
`python -m tests.emulators.vendor FILE` holds the two against each other, without what later pages added to ours, and
names every difference; with a newer document it says what there is to do.
"""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from tests.emulators.document import OPERATIONS, SHAPES, WORDS

Document = Mapping[str, Any]
_VERBS: Final = ("get", "post", "put", "patch", "delete")
_KINDS: Final = {"string": "text", "integer": "whole", "number": "number", "boolean": "flag", "null": "null"}


def differences(document: Document) -> list[str]:
    """What ours lacks, has too much, or says otherwise."""
    return [
        *_compared("operation", dict(operations(document)), OPERATIONS),
        *_compared("shape", {name: shape(document, name) for name in SHAPES}, SHAPES),
        *_compared("words", {name: words(document, name) for name in WORDS}, WORDS),
    ]


def _compared(what: str, theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> Iterator[str]:
    for name in sorted({*theirs, *ours}):
        if theirs.get(name) != ours.get(name):
            yield f"{what} {name}: theirs {theirs.get(name)}, ours {ours.get(name)}"


def operations(document: Document) -> Iterator[tuple[str, dict[str, str]]]:
    """Method and path, and for each status the shape of its answer; `default` stands for every other status."""
    for path, found in document["paths"].items():
        for verb in _VERBS:
            if verb in found:
                answers = found[verb]["responses"]
                yield f"{verb.upper()} {path}", {str(code): _body(document, told) for code, told in answers.items()}


def _body(document: Document, answer: Any) -> str:
    told = _followed(document, answer)
    for kind, content in told.get("content", {}).items():
        written = _written(document, content.get("schema", {}))
        return written if kind == "application/json" else "problem" if "problem" in kind else "events"
    return "nothing"


def shape(document: Document, name: str) -> dict[str, str]:
    """Each property in our notation; one that may be absent has a question mark."""
    found = document["components"]["schemas"].get(name)
    return {} if found is None else _properties(document, found)


def _properties(document: Document, schema: Any) -> dict[str, str]:
    told: dict[str, Any] = {}
    required: set[str] = set()
    for part in _parts(document, schema):
        told |= part.get("properties", {})
        required |= set(part.get("required", ()))
    return {name if name in required else f"{name}?": _written(document, entry) for name, entry in told.items()}


def _parts(document: Document, schema: Any) -> Iterator[Any]:
    followed = _followed(document, schema)
    yield followed
    for part in followed.get("allOf", ()):
        yield from _parts(document, part)


def words(document: Document, name: str) -> list[str]:
    return list(document["components"]["schemas"].get(name, {}).get("enum", ()))


def _written(document: Document, schema: Any) -> str:
    """One property's value in our notation."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "allOf" in schema:
        return " + ".join(_written(document, part) for part in schema["allOf"])
    if "anyOf" in schema:
        return " or ".join(_written(document, part) for part in schema["anyOf"])
    kinds = schema.get("type", "object")
    return " or ".join(_plain(document, kind, schema) for kind in ([kinds] if isinstance(kinds, str) else kinds))


def _plain(document: Document, kind: str, schema: Any) -> str:
    if kind == "array":
        return f"[{_written(document, schema['items'])}]"
    if kind == "object":
        if "properties" in schema:
            return ", ".join(f"{name}: {told}" for name, told in _properties(document, schema).items())
        return f"{{{_written(document, schema['additionalProperties'])}}}"
    return "moment" if schema.get("format") == "date-time" and kind == "string" else _KINDS[kind]


def _followed(document: Document, schema: Any) -> Any:
    if "$ref" not in schema:
        return schema
    found: Any = document
    for step in str(schema["$ref"]).removeprefix("#/").split("/"):
        found = found[step]
    return found


if __name__ == "__main__":
    told = differences(yaml.safe_load(Path(sys.argv[1]).read_text()))
    print("\n".join(told) or "the same")
    sys.exit(bool(told))
