"""An app on our own server: on loopback sockets, or on no socket at all, with what it wrote and how it ended."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, cast

import anyio

from controller.http1 import server
from controller.http1.accepted import Accepted, Door, Limits
from controller.http1.asked import App, Receive, Scope, Send

SECONDS = timedelta(seconds=1)
JSON = [(b"content-type", b"application/json")]
GET = b"GET /a HTTP/1.1\r\nhost: x\r\n\r\n"
LAST = b"GET /last HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
POST = b"POST /a HTTP/1.1\r\nhost: x\r\n"


def words(status: int, why: str) -> tuple[list[tuple[bytes, bytes]], bytes]:
    return JSON, json.dumps({"error": {"status": status, "message": why}}).encode()


async def body_of(receive: Receive) -> bytes | None:
    """The whole body, or None if its client left before."""
    pieces: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        pieces.append(message["body"])
        if not message["more_body"]:
            return b"".join(pieces)


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """What was asked, as JSON. `/length` tells its length beforehand, all else leaves that to the server."""
    body = await body_of(receive)
    if body is None:
        return
    told = {
        "method": scope["method"],
        "path": scope["path"],
        "query": scope["query_string"].decode("latin-1"),
        "headers": [[name.decode("latin-1"), value.decode("latin-1")] for name, value in scope["headers"]],
        "body": body.decode("latin-1"),
    }
    await answer(send, json.dumps(told).encode(), length=scope["path"] == "/length")


async def answer(send: Send, body: bytes, *, status: int = 200, length: bool = True) -> None:
    headers = [*JSON, (b"content-length", b"%d" % len(body))] if length else JSON
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


@dataclass
class Standing:
    port: int
    stopped: anyio.Event
    ended: anyio.Event = field(default_factory=anyio.Event)
    failed: list[AssertionError] = field(default_factory=list)
    """What the app minded: its client would see a broken answer only."""


@asynccontextmanager
async def standing(
    app: App, *, limits: Limits = server.DEFAULTS, graceful: timedelta = SECONDS
) -> AsyncIterator[Standing]:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(128)
    found = Standing(listener.getsockname()[1], anyio.Event())

    async def watched(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await app(scope, receive, send)
        except AssertionError as failure:
            found.failed.append(failure)
            raise

    async def serve() -> None:
        await server.serve(watched, [listener], found.stopped, words=words, limits=replace(limits, graceful=graceful))
        found.ended.set()

    async with anyio.create_task_group() as group:
        group.start_soon(serve)
        yield found
        found.stopped.set()
    assert not found.failed


async def said(port: int, *parts: bytes, limit_s: float = 5) -> bytes:
    """All that is answered to these bytes until the connection ends, or falls silent for so long."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    received = bytearray()
    try:
        for part in parts:
            writer.write(part)
            await asyncio.sleep(0.01)
        with anyio.move_on_after(limit_s):
            while data := await reader.read(65_536):
                received += data
    except ConnectionError:
        received += b"(reset)"
    finally:
        writer.close()
    return bytes(received)


def answers(raw: bytes) -> list[tuple[int, dict[str, str], bytes]]:
    """Each whole answer: status, headers, body."""
    found = []
    while raw:
        head, separated, raw = raw.partition(b"\r\n\r\n")
        assert separated, head
        line, *rest = head.decode().split("\r\n")
        headers = {name: value for name, _, value in (each.partition(": ") for each in rest)}
        if "content-length" in headers:
            size = int(headers["content-length"])
            body, raw = raw[:size], raw[size:]
        elif "transfer-encoding" in headers:
            body, raw = _chunks(raw)
        elif "connection" in headers:
            body, raw = raw, b""
        else:
            body = b""
        found.append((int(line.split()[1]), headers, body))
    return found


def _chunks(raw: bytes) -> tuple[bytes, bytes]:
    body = b""
    while True:
        size, _, raw = raw.partition(b"\r\n")
        length = int(size, 16)
        body, raw = body + raw[:length], raw[length + 2 :]
        if not length:
            return body, raw


def asked(raw: bytes) -> list[dict[str, Any]]:
    """What the echoing app was asked."""
    return [json.loads(body) for _, _, body in answers(raw)]


class Tap(asyncio.Transport):
    """A transport on no socket, that takes everything at once."""

    def __init__(self, client: Accepted) -> None:
        super().__init__()
        self.client = client
        self.written = b""
        self.reading = True
        self.closed = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def write(self, data: Any) -> None:
        assert not self.closed, "written after the end"
        self.written += data

    def write_eof(self) -> None:
        """The client closes as soon as it sees that."""
        self.close()

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            asyncio.get_running_loop().call_soon(self.client.connection_lost, None)

    abort = close

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True


class SlowTap(Tap):
    """Its client takes a hundred bytes a second of what was written, and from some time on nothing more."""

    def __init__(self, client: Accepted, *, until_s: float) -> None:
        super().__init__(client)
        self.until_s = until_s

    def get_write_buffer_size(self) -> int:
        return max(len(self.written) - int(100 * min(asyncio.get_running_loop().time(), self.until_s)), 0)


async def tapped(
    app: App,
    segments: Sequence[bytes],
    *,
    wait_s: float = 1,
    pause_s: float = 0,
    limits: Limits = server.DEFAULTS,
    taking: Callable[[Accepted], Tap] = Tap,
) -> tuple[bytes, bool]:
    """What is written in answer to these segments, and whether the server ended the connection within `wait_s` after
    the last. A segment comes `pause_s` after the former, and only when there is somebody to read it."""
    door = Door(app, words, limits)
    client = Accepted(door)
    tap = taking(client)
    client.connection_made(cast(asyncio.BaseTransport, tap))
    for segment in segments:
        await _until_read(tap)
        if tap.closed:
            break
        client.data_received(segment)
        await asyncio.sleep(pause_s)
    await _until_read(tap)
    await asyncio.sleep(wait_s)
    ended = tap.closed
    tap.close()
    await door.none_left.wait()
    return tap.written, ended


async def _until_read(tap: Tap) -> None:
    for _ in range(100_000):
        if tap.reading or tap.closed:
            return
        await asyncio.sleep(0)
    raise AssertionError("nothing is read any more")
