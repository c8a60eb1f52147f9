"""Who is speaking: the model server, or the provider's proxy in front of it?

A model server answers in JSON or in events. What a proxy answers in its place (a page that the machine is not up,
that it took too long, that the caller looks like a robot) is never passed on as a model's words, and is no verdict on
the key (RP-8, PF-10).
"""

from typing import Final

from controller.http1 import Headers

JSON: Final = b"application/json"
EVENTS: Final = b"text/event-stream"
ROBOT: Final = b"1010"
PROXY_STATUSES: Final = frozenset({403, 404, 502, 503, 504, 530}) | frozenset(range(520, 528))
NO_BYTE: Final = 524
"""The machine was reached, and said nothing for as long as the proxy waits."""
OVERDUE_STATUSES: Final = frozenset({504, 522, 524})


def content_type(headers: Headers) -> bytes:
    for name, value in headers:
        if name == b"content-type":
            return value.partition(b";")[0].strip().lower()
    return b""


def from_proxy(status: int, headers: Headers) -> bool:
    """Told by the head alone. A 500 in plain text is vLLM's own."""
    return _of_proxy(status, content_type(headers))


def plainly(status: int, headers: Headers) -> bool:
    """A model server's own answer, neither a complaint nor events."""
    kind = content_type(headers)
    return status < 400 and kind != EVENTS and not _of_proxy(status, kind)


def _of_proxy(status: int, kind: bytes) -> bool:
    if kind in (JSON, EVENTS) or kind.endswith(b"+json"):
        return status == NO_BYTE
    return kind == b"text/html" or status in PROXY_STATUSES


def robot_refused(status: int, body: bytes) -> bool:
    return status == 403 and ROBOT in body
