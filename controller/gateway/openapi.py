"""How is the fixed address described to machines?

Made from the table of wires and the table of refusals, so that it names what is there and nothing else. Bodies belong
to the model servers; of them only what the gateway itself reads is described.
"""

from collections.abc import Iterable
from typing import Any, Final

from controller.core.errors import Code
from controller.gateway.refusals import STATUS, Voice
from controller.gateway.wires import BY_PATH, Shape

Json = dict[str, Any]

JSON: Final = "application/json"
UNLISTED: Final = 503
NEVER_HERE: Final = frozenset({Code.NOT_FOUND})
NOT_SERVED: Final = (400, 404, 503)
"""By a wire that the model lacks, by a path that there is not, and by what wakes nothing where nothing runs."""
SECURED: Final[list[Json]] = [{"bearer": []}, {"header": []}, {}]

_OPENAI: Final[Json] = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": "null"},
                "code": {"enum": [code.value for code in Code]},
            },
            "required": ["message", "type", "code"],
        }
    },
    "required": ["error"],
}
_ANTHROPIC: Final[Json] = {
    "type": "object",
    "properties": {
        "type": {"const": "error"},
        "error": {
            "type": "object",
            "properties": {
                "type": {"type": "string"},
                "message": {"type": "string"},
                "code": {"enum": [code.value for code in Code]},
            },
            "required": ["type", "message", "code"],
        },
    },
    "required": ["type", "error"],
}


def document(version: str) -> Json:
    return {
        "openapi": "3.1.0",
        "info": {"title": "gpuwarden, the fixed address", "version": version, "license": {"name": "Apache-2.0"}},
        "security": SECURED,
        "paths": {
            **{path: {"post": _passed_on(shape)} for path, shape in BY_PATH.items()},
            "/v1/models": {"get": _small("the models that this key may use", JSON, (401,))},
            "/v1/models/{model}": {
                "get": {
                    **_small("one of them, or one of their adapters as ALIAS:ADAPTER", JSON, (401, 404)),
                    "parameters": [{"name": "model", "in": "path", "required": True, "schema": {"type": "string"}}],
                }
            },
            "/healthz": {"get": _small("the process answers", JSON, ())},
            "/metrics": {"get": _small("for Prometheus; from loopback without a key", "text/plain", (401,))},
            "/openapi.json": {"get": _small("this", JSON, ())},
        },
        "components": {
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "header": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            },
            "schemas": {"OpenAIError": _OPENAI, "AnthropicError": _ANTHROPIC},
        },
    }


def codes_by_status() -> dict[int, list[str]]:
    """Which words come with which status."""
    found: dict[int, list[str]] = {}
    for code in Code:
        if code is Code.NOT_SERVED:
            for status in NOT_SERVED:
                found.setdefault(status, []).append(code.value)
        elif code not in NEVER_HERE:
            found.setdefault(STATUS.get(code, UNLISTED), []).append(code.value)
    return found


def _passed_on(shape: Shape) -> Json:
    properties: Json = {"model": {"type": "string", "description": "ALIAS, or ALIAS:ADAPTER"}}
    answers: Json = {JSON: {}}
    if shape.signs is not None:
        properties["stream"] = {"type": "boolean"}
        answers["text/event-stream"] = {}
    if shape.conversation:
        properties[shape.conversation] = {}
    schema = {"type": "object", "properties": properties, "required": ["model"]}
    otherwise = "which is started if there is none" if shape.inference else "if one runs: this starts nothing"
    wait = {"name": "Prefer", "in": "header", "schema": {"type": "string"}, "description": "wait=SECONDS"}
    return {
        "summary": f"passed to the model's own server, {otherwise} ({shape.name})",
        "parameters": [wait] if shape.inference else [],
        "requestBody": {"required": True, "content": {JSON: {"schema": schema}}},
        "responses": {
            "200": {"description": "the server's own answer", "content": answers},
            **_refusals(codes_by_status(), anthropic=shape.voice is Voice.ANTHROPIC),
            "default": {"description": "the server's own complaint", "content": {JSON: {}}},
        },
    }


def _small(summary: str, kind: str, refused: Iterable[int]) -> Json:
    found = {status: codes for status, codes in codes_by_status().items() if status in refused}
    return {
        "summary": summary,
        "responses": {"200": {"description": "it is", "content": {kind: {}}}, **_refusals(found, anthropic=False)},
    }


def _refusals(codes: dict[int, list[str]], *, anthropic: bool) -> Json:
    """A client that sends Anthropic's header is told in Anthropic's shape where nothing else says whose it is."""
    reference = {"$ref": f"#/components/schemas/{'AnthropicError' if anthropic else 'OpenAIError'}"}
    return {
        str(status): {
            "description": f"refused: {', '.join(words)}",
            "content": {JSON: {"schema": reference}},
            "x-codes": words,
        }
        for status, words in sorted(codes.items())
    }
