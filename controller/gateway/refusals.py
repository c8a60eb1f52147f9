"""How is a client told no?

In the shape that its kind of client reads: OpenAI's is an `error` object with message, type and code, Anthropic's has
a type of its own around one. Both carry all that we have to say. The code is one of the words of `core.errors`; its
HTTP status is fixed here. `Retry-After` never exceeds 60 s, beyond which those clients ignore it.
"""

import json
from collections.abc import Mapping
from datetime import timedelta
from enum import Enum
from math import ceil
from typing import Any, Final

from controller.core.errors import Code

RETRY_MOST: Final = timedelta(seconds=60)
NO_RETRY: Final = (b"x-should-retry", b"false")
"""Heard by OpenAI's and Anthropic's clients, which try a 429 or 503 again at once otherwise."""

STATUS: Final[Mapping[Code, int]] = {
    Code.BAD_REQUEST: 400,
    Code.WRONG_KEY: 401,
    Code.MODEL_NOT_ALLOWED: 403,
    Code.UNKNOWN_MODEL: 404,
    Code.NOT_FOUND: 404,
    Code.BODY_TOO_LARGE: 413,
    Code.QUEUE_FULL: 429,
    Code.RATE_LIMITED: 429,
    Code.UPSTREAM_DISCONNECTED: 502,
    Code.UPSTREAM_TIMEOUT: 504,
}
"""What is not listed is a 503: it may be otherwise later."""

TYPES: Final[Mapping[int, str]] = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
ANTHROPIC_TYPES: Final[Mapping[int, str]] = {
    **TYPES,
    404: "not_found_error",
    413: "request_too_large",
    503: "overloaded_error",
    504: "timeout_error",
}


class Voice(Enum):
    """Whose clients are spoken to. Those of responses are OpenAI's, and read another event in a stream."""

    OPENAI = "openai"
    RESPONSES = "responses"
    ANTHROPIC = "anthropic"


class Refused(Exception):
    """The one answer this request gets."""

    def __init__(
        self,
        code: Code,
        message: str,
        *,
        status: int | None = None,
        retry_after: timedelta | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status or STATUS.get(code, 503)
        self.retry_after = None if retry_after is None else min(retry_after, RETRY_MOST)
        self.extra = extra or {}

    def body(self, voice: Voice = Voice.OPENAI) -> bytes:
        return json.dumps(self._said(voice)).encode()

    def event(self, voice: Voice = Voice.OPENAI) -> bytes:
        """As the last event of a stream."""
        said = self._said(voice)
        if voice is Voice.OPENAI:
            return b"data: %s\n\n" % json.dumps(said).encode()
        if voice is Voice.RESPONSES:
            # The event's own members, for those who read types; `error` beside them is what OpenAI's client raises for.
            own = {"code": self.code.value, "message": self.message, "param": None, "sequence_number": 0}
            said = {"type": "error", **own, **said}
        return b"event: error\ndata: %s\n\n" % json.dumps(said).encode()

    def _said(self, voice: Voice) -> dict[str, Any]:
        named = {"code": self.code.value, **self.extra}
        asked_wrongly = self.status < 500
        if voice is not Voice.ANTHROPIC:
            kind = TYPES.get(self.status, "invalid_request_error" if asked_wrongly else "server_error")
            return {"error": {"message": self.message, "type": kind, "param": None, **named}}
        kind = ANTHROPIC_TYPES.get(self.status, "invalid_request_error" if asked_wrongly else "api_error")
        return {"type": "error", "error": {"type": kind, "message": self.message, **named}}

    def headers(self) -> list[tuple[bytes, bytes]]:
        headers = []
        if self.retry_after is not None:
            headers.append((b"retry-after", b"%d" % max(1, ceil(self.retry_after.total_seconds()))))
        if self.status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        return headers


def not_served(status: int = 404) -> Refused:
    return Refused(Code.NOT_SERVED, "this address does not serve that", status=status)


def bad_request(message: str) -> Refused:
    return Refused(Code.BAD_REQUEST, message)


def unknown_model(name: str) -> Refused:
    return Refused(Code.UNKNOWN_MODEL, f"there is no model {name[:128]!r}")
