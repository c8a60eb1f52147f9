"""How is the operators' API described to machines?

Made from the table that the routes are made from, so that it cannot name what is not there. Bodies are described as far
as they can be wrong; answers are additive JSON objects with `"schema": 1`.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

Json = dict[str, Any]

_OBJECT: Final = {"type": "object", "properties": {"schema": {"const": 1}}, "required": ["schema"]}
_PROBLEM: Final = {
    "type": "object",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "code": {"type": "string"},
    },
    "required": ["type", "title", "status", "detail", "code"],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """One operation of the API."""

    method: str
    path: str
    summary: str
    success: int = 200
    body: Mapping[str, Any] | None = None
    query: Mapping[str, Any] | None = None
    media_type: str = "application/json"


def document(operations: Iterable[Described], *, version: str) -> Json:
    paths: dict[str, Json] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "gpuwarden, operators' API", "version": version, "license": {"name": "Apache-2.0"}},
        "paths": paths,
        "components": {"schemas": {"Object": _OBJECT, "Problem": _PROBLEM}},
    }


def _operation(operation: Described) -> Json:
    schema: Json = (
        {"$ref": "#/components/schemas/Object"} if operation.media_type.endswith("json") else {"type": "string"}
    )
    described: Json = {
        "summary": operation.summary,
        "responses": {
            str(operation.success): {
                "description": "done",
                "content": {operation.media_type: {"schema": schema}},
            },
            "default": {
                "description": "refused, with a fixed code",
                "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
            },
        },
    }
    if parameters := [*_in_path(operation.path), *_in_query(operation.query or {})]:
        described["parameters"] = parameters
    if operation.body is not None:
        schema = {"type": "object", "properties": dict(operation.body)}
        described["requestBody"] = {"content": {"application/json": {"schema": schema}}}
    return described


def _in_path(path: str) -> list[Json]:
    names = re.findall(r"{(\w+)}", path)
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]


def _in_query(query: Mapping[str, Any]) -> list[Json]:
    return [{"name": name, "in": "query", "schema": schema} for name, schema in query.items()]
