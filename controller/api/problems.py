"""What is said when the daemon does not do what was asked?

`application/problem+json` with one of the fixed codes, for everything that is refused; and the one place where a
request's body and query become values, so that a wrong field is named.
"""

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from controller.core.errors import Code, Refusal
from controller.store.errors import Stale, StoreError

BODY_BYTES_MAX: Final = 4 * 1024 * 1024
WAIT_SECONDS_MAX: Final = 300.0

Json = dict[str, Any]


class Problem(Exception):
    """The request is answered with this, and nothing else happened."""

    def __init__(self, status: int, code: Code, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail


def bad_field(name: str, wanted: str) -> Problem:
    return Problem(400, Code.BAD_REQUEST, f"{name}: {wanted}")


def unknown_model(alias: str) -> Problem:
    return Problem(404, Code.UNKNOWN_MODEL, f"there is no model {alias!r}")


def not_found(what: str) -> Problem:
    return Problem(404, Code.NOT_FOUND, f"there is no {what}")


def refused(detail: str) -> Problem:
    return Problem(409, Code.REFUSED, detail)


def problem_answer(status: int, code: Code, detail: str, **more: object) -> Response:
    content = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "code": code.value,
        **more,
    }
    return JSONResponse(content, status_code=status, media_type="application/problem+json")


async def answer_for(request: Request, error: Exception) -> Response:
    """The answer to each kind of error that an endpoint may raise."""
    match error:
        case Problem():
            return problem_answer(error.status, error.code, error.detail)
        case Stale() | Refusal():
            return problem_answer(409, Code.REFUSED, str(error))
        case StoreError():
            return problem_answer(503, Code.STORE_UNAVAILABLE, str(error))
        case HTTPException(status_code=404):
            return problem_answer(404, Code.NOT_FOUND, f"there is nothing at {request.url.path}")
        case HTTPException():
            return problem_answer(error.status_code, Code.BAD_REQUEST, error.detail)
        case _:
            raise error


ANSWERED: Final = (Problem, Refusal, StoreError, HTTPException)


async def read_body(request: Request) -> Json:
    """The JSON object of the body; an empty body is an empty object."""
    content = b""
    try:
        async for piece in request.stream():
            content += piece
            if len(content) > BODY_BYTES_MAX:
                raise Problem(413, Code.BODY_TOO_LARGE, f"a body has at most {BODY_BYTES_MAX} bytes")
    except ClientDisconnect as gone:
        raise Problem(400, Code.BAD_REQUEST, "the body did not end") from gone
    if not content.strip():
        return {}
    try:
        body = json.loads(content)
    except (ValueError, RecursionError) as problem:
        raise Problem(400, Code.BAD_REQUEST, f"the body is no JSON: {problem}") from problem
    if not isinstance(body, dict):
        raise Problem(400, Code.BAD_REQUEST, "the body is no JSON object")
    return body


def text_in(body: Mapping[str, Any], name: str, *, most: int = 512, default: str | None = None) -> str:
    value = body.get(name, default)
    if not isinstance(value, str) or not 1 <= len(value) <= most or not value.isprintable():
        raise bad_field(name, f"1 to {most} printable characters are wanted")
    return value


def texts_in(body: Mapping[str, Any], name: str) -> list[str]:
    value = body.get(name)
    if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
        raise bad_field(name, "a list of words is wanted")
    return value


def flag_in(body: Mapping[str, Any], name: str) -> bool:
    value = body.get(name, False)
    if not isinstance(value, bool):
        raise bad_field(name, "true or false is wanted")
    return value


def count_in(body: Mapping[str, Any], name: str, *, default: int | None = None) -> int:
    value = body.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**53:
        raise bad_field(name, "a whole number from 0 is wanted")
    return value


def seconds_in(body: Mapping[str, Any], name: str, *, most: float) -> float:
    value = body.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= most:
        raise bad_field(name, f"seconds from 0 to {most:g} are wanted")
    return float(value)


def whole_in_query(request: Request, name: str, *, default: int | None = None) -> int | None:
    text = request.query_params.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise bad_field(name, "a whole number from 0 is wanted")
    return int(text)


def wait_in_query(request: Request) -> float:
    """Seconds that the caller would wait; more than five minutes is five minutes."""
    text = request.query_params.get("wait", "0")
    try:
        wait = float(text)
    except ValueError:
        wait = -1.0
    if not 0 <= wait < float("inf"):
        raise bad_field("wait", "seconds from 0 are wanted")
    return min(wait, WAIT_SECONDS_MAX)
