"""What may Runpod's API answer, by its document of August 2026 and by what was seen of it since?

`document.yaml` has the facts in short: for each operation the shape of each answer, for each shape its properties.
`name?` may be absent; `text`, `whole`, `number`, `flag`, `moment` and `null` are kinds; `[X]` is a list, `{X}` a map,
`X or Y` either, `X + Y` both. What later pages added is kept apart, with the day on which it was seen. Nothing else
may be in an answer: a property that we made up is a fault of the emulator.
"""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

_READ: Final[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("document.yaml").read_text())


Answers = Mapping[str, str]
"""Of one operation: the shape of its answer by status; `default` is every status that is not named."""
PROBLEM: Final = "problem"


def _answers(told: Mapping[int | str, str]) -> Answers:
    refusals = dict.fromkeys([*str(told[PROBLEM]).split(), "default"], PROBLEM)
    return {str(status): shape for status, shape in told.items() if status != PROBLEM} | refusals


SHAPES: Final[Mapping[str, Mapping[str, str]]] = _READ["shapes"]
WORDS: Final[Mapping[str, list[str]]] = _READ["words"]
OPERATIONS: Final[Mapping[str, Answers]] = {name: _answers(told) for name, told in _READ["operations"].items()}
LATER: Final[Mapping[str, Answers]] = {name: _answers(told) for name, told in _READ["later"]["operations"].items()}
_KINDS: Final[Mapping[str, dict[str, Any]]] = {
    "text": {"type": "string"},
    "whole": {"type": "integer"},
    "number": {"type": "number"},
    "flag": {"type": "boolean"},
    "null": {"type": "null"},
    "moment": {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$"},
}


def operation_of(method: str, path: str) -> str | None:
    """Which operation a request is."""
    asked = path.split("/")
    for name in (*OPERATIONS, *LATER):
        verb, _, template = name.partition(" ")
        steps = template.split("/")
        fits = len(steps) == len(asked) and all(a == b or a[0:1] == "{" for a, b in zip(steps, asked, strict=True))
        if verb == method and fits:
            return name
    return None


def answers_of(operation: str) -> Answers:
    return OPERATIONS[operation] if operation in OPERATIONS else LATER[operation]


def faults_in(method: str, path: str, status: int, kind: str, body: bytes) -> list[str]:
    """What is wrong with one answer of the API, whatever was asked."""
    operation = operation_of(method, path)
    told = answers_of(operation) if operation is not None else {"default": PROBLEM}
    shape = told.get(str(status), told["default"])
    if shape == PROBLEM and status < 400:
        return [f"{status} is no answer to {operation}"]
    if shape == "nothing":
        return ["a 204 with a body"] if body else []
    wanted = {"events": "text/event-stream", PROBLEM: "application/problem+json"}.get(shape, "application/json")
    if kind.partition(";")[0] != wanted:
        return [f"{kind} in place of {wanted}"]
    return [] if shape == "events" else faults_of(shape, json.loads(body))


def faults_of(shape: str, content: object) -> list[str]:
    """What is wrong with an answer of this shape, overlay included."""
    return [f"{error.json_path}: {error.message}" for error in _validator(shape).iter_errors(content)]


@cache
def _validator(shape: str) -> Draft202012Validator:
    return Draft202012Validator(_schema(shape))


def _schema(written: str) -> dict[str, Any]:
    if " or " in written:
        return {"anyOf": [_schema(part) for part in written.split(" or ")]}
    if written[0] in "[{":
        inner = _schema(written[1:-1])
        kind, each = ("array", "items") if written[0] == "[" else ("object", "additionalProperties")
        return {"type": kind, each: inner}
    if ": " in written:
        return _record(dict(part.split(": ") for part in written.split(", ")))
    return dict(_KINDS[written]) if written in _KINDS else _named(written)


def _named(written: str) -> dict[str, Any]:
    """Of words, or of one shape or several together, with all that was added to it."""
    if said := [*WORDS.get(written, ()), *_READ["later"]["words"].get(written, ())]:
        return {"enum": said}
    merged: dict[str, str] = {}
    for name in ("ErrorResponse" if written == PROBLEM else written).split(" + "):
        found = [SHAPES.get(name, {}), *(added["shapes"].get(name, {}) for added in _READ["later"]["shapes"])]
        assert any(found), f"no shape {name}"
        for properties in found:
            merged |= properties
    return _record(merged)


def _record(properties: Mapping[str, str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name.removesuffix("?"): _schema(value) for name, value in properties.items()},
        "required": [name for name in properties if not name.endswith("?")],
        "additionalProperties": False,
    }
