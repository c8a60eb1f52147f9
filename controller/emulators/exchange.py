"""How does an emulator read a request and write its answer, or break off in the middle?

A thin layer over ASGI. A client that goes away cancels the work on its request within one turn of the loop, as a
model server notices a closed connection. Breaking a connection needs the server's help: it puts a callable under
`scope["extensions"]["gpuwarden.abort"]`; without one, the answer is left unfinished.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol
from urllib.parse import parse_qsl

import anyio

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = list[tuple[str, str]]

ABORT = "gpuwarden.abort"


class ConnectionCut(Exception):
    """The answer ends here: the connection is reset without finishing it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the client asked, its body read to the end. Header names are in lower case."""

    method: str
    path: str
    query: str = ""
    headers: Headers = field(default_factory=list)
    body: bytes = b""
    client: str | None = None

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name), None)

    def parameters(self) -> dict[str, str]:
        return dict(parse_qsl(self.query, keep_blank_values=True))

    def bearer(self) -> str | None:
        kind, _, key = (self.header("authorization") or "").partition(" ")
        return key.strip() if kind.lower() == "bearer" and key.strip() else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A whole answer. `effect` says what really happened, for the record that only tests read."""

    status: int
    headers: Headers = field(default_factory=list)
    body: bytes = b""
    effect: str = "none"
    pod: str | None = None


def in_json(status: int, content: object, *, kind: str = "application/json", headers: Headers | None = None) -> Answer:
    return Answer(status=status, headers=[("content-type", kind), *(headers or [])], body=compact(content))


def in_text(status: int, text: str, *, kind: str = "text/plain; charset=utf-8") -> Answer:
    return Answer(status=status, headers=[("content-type", kind)], body=text.encode())


def compact(content: object) -> bytes:
    return _COMPACT.encode(content).encode()


_COMPACT: Final = json.JSONEncoder(separators=(",", ":"))


class Exchange(Protocol):
    """Where an answer goes: to the client, slowed down, kept back or thrown away."""

    @property
    def started(self) -> bool: ...

    async def start(self, status: int, headers: Headers) -> None: ...

    async def write(self, chunk: bytes) -> None: ...

    async def finish(self, last: bytes = b"") -> None: ...


async def give(exchange: Exchange, answer: Answer) -> None:
    headers = answer.headers if answer.status == 204 else [*answer.headers, ("content-length", str(len(answer.body)))]
    await exchange.start(answer.status, headers)
    await exchange.finish(answer.body)


class ToClient:
    """Writes to the client. `extra` headers are added to every answer."""

    def __init__(self, send: Send, *, extra: Callable[[], Headers]) -> None:
        self._send = send
        self._extra = extra
        self.status: int | None = None

    @property
    def started(self) -> bool:
        return self.status is not None

    async def start(self, status: int, headers: Headers) -> None:
        named = {name for name, _ in headers}
        every = headers + [(name, value) for name, value in self._extra() if name not in named]
        self.status = status
        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in every]
        await self._send({"type": "http.response.start", "status": status, "headers": raw})

    async def write(self, chunk: bytes) -> None:
        await self._send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def finish(self, last: bytes = b"") -> None:
        await self._send({"type": "http.response.body", "body": last, "more_body": False})


class Kept:
    """Keeps an answer instead of sending it: to be changed and sent, or thrown away."""

    def __init__(self) -> None:
        self.status: int | None = None
        self.headers: Headers = []
        self.body = b""

    @property
    def started(self) -> bool:
        return self.status is not None

    async def start(self, status: int, headers: Headers) -> None:
        self.status, self.headers = status, headers

    async def write(self, chunk: bytes) -> None:
        self.body += chunk

    async def finish(self, last: bytes = b"") -> None:
        self.body += last

    def answer(self) -> Answer:
        plain = [(name, value) for name, value in self.headers if name != "content-length"]
        return Answer(status=self.status or 500, headers=plain, body=self.body)


async def read_request(scope: Scope, receive: Receive) -> Request | None:
    """The request with its whole body, or None if the client left before sending all of it."""
    body = b""
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        more = message.get("more_body", False)
    client = scope.get("client")
    return Request(
        method=scope["method"],
        path=scope["path"],
        query=scope.get("query_string", b"").decode("latin-1"),
        headers=[(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in scope["headers"]],
        body=body,
        client=client[0] if client else None,
    )


async def while_client_stays(receive: Receive, work: Callable[[], Awaitable[None]]) -> None:
    """Run `work`; cancel it as soon as the client has gone."""

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(watch)
        await work()
        group.cancel_scope.cancel()


def break_off(scope: Scope) -> None:
    abort = (scope.get("extensions") or {}).get(ABORT)
    if abort is not None:
        abort()
