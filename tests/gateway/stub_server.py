"""What can a model server do to a request? A stand-in whose next answers are set by the test."""

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import anyio

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

JSON = [(b"content-type", b"application/json")]
EVENTS = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"server", b"uvicorn"), (b"set-cookie", b"a=b")]


def event(text: str, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    return b"data: " + json.dumps({"choices": [choice]}, separators=(",", ":")).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"
SAID = [{"index": 0, "message": {"content": "hello"}}]
PLAIN: dict[str, dict[str, Any]] = {
    "chat/completions": {"choices": SAID},
    "completions": {"choices": SAID},
    "embeddings": {"data": SAID},
    "rerank": {"results": SAID},
    "responses": {"object": "response", "status": "completed", "output": SAID},
    "messages": {"type": "message", "stop_reason": "end_turn", "content": SAID},
    "messages/count_tokens": {"input_tokens": 3},
}


class StubServer:
    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.headers: list[dict[bytes, bytes]] = []
        self.proofs = 0
        self.aborted = 0
        self.open = 0
        self.status = 200
        self.complaint: tuple[list[tuple[bytes, bytes]], bytes] = (JSON, b'{"error":{"message":"no"}}')
        self.pieces: list[bytes] = [event("one"), event("two", "stop"), DONE]
        self.plain: dict[str, Any] | None = None
        """In place of the answer that the path has."""
        self.think_s = 0.0
        """Before the head."""
        self.streams_as = EVENTS
        """The head of a stream."""
        self.first_word_s = 0.0
        """Between the head of a stream and its first piece."""
        self.gap_s = 0.0
        self.cut = False
        """After the pieces, instead of an end."""
        self.silent = False
        """After the pieces, nothing more."""

    @property
    def asked(self) -> list[dict[str, Any]]:
        return [json.loads(body) for body in self.bodies]

    async def app(self, scope: Message, receive: Receive, send: Send) -> None:
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body", False):
                break
        asked = json.loads(body)
        if asked.get("max_tokens") == 1 or "hi" in (asked.get("input"), asked.get("query")):
            self.proofs += 1
        else:
            self.bodies.append(body)
            self.headers.append(dict(scope["headers"]))
        self.open += 1
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._watch, receive, group.cancel_scope)
                await self._answer(scope, asked, send)
                group.cancel_scope.cancel()
        finally:
            self.open -= 1

    async def _watch(self, receive: Receive, scope: anyio.CancelScope) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.aborted += 1
        scope.cancel()

    async def _answer(self, scope: Message, asked: dict[str, Any], send: Send) -> None:
        await asyncio.sleep(self.think_s)
        if self.status != 200:
            headers, body = self.complaint
            await send({"type": "http.response.start", "status": self.status, "headers": headers})
            await send({"type": "http.response.body", "body": body, "more_body": False})
        elif asked.get("stream") and "query" not in asked:
            await self._stream(scope, send)
        else:
            answer = json.dumps(self.plain or PLAIN[scope["path"].removeprefix("/v1/")]).encode()
            headers = [*JSON, (b"content-length", b"%d" % len(answer))]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": answer, "more_body": False})

    async def _stream(self, scope: Message, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.streams_as})
        await asyncio.sleep(self.first_word_s)
        for piece in self.pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            await asyncio.sleep(self.gap_s)
        if self.silent:
            await anyio.sleep_forever()
        if self.cut:
            scope["extensions"]["gpuwarden.abort"]()
            return
        await send({"type": "http.response.body", "body": b"", "more_body": False})
