"""How do bytes get from a program behind a pod to the client, unchanged and at once?

A small HTTP/1.1 client: one connection per request, the answer handed on as it comes. Cancelling it closes the
connection in the same turn of the loop, which is what tells the program that its client has gone.
"""

from __future__ import annotations

from urllib.parse import quote

import anyio
import anyio.abc
import httptools

from controller.emulators.exchange import ConnectionCut, Exchange, Headers, Request

_LEFT_OUT = ("host", "connection", "keep-alive", "transfer-encoding", "content-length", "te", "upgrade", "expect")
_READ_BYTES = 65_536


class NothingListens(Exception):
    """No program answers on this port."""


class _Reader:
    """Collects what the parser finds in the bytes it was fed."""

    def __init__(self) -> None:
        self.headers: Headers = []
        self.chunks: list[bytes] = []
        self.head_done = False
        self.done = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.decode("latin-1").lower(), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        self.head_done = True

    def on_body(self, body: bytes) -> None:
        self.chunks.append(body)

    def on_message_complete(self) -> None:
        self.done = True

    def ends_with_connection(self) -> bool:
        framed = {"content-length", "transfer-encoding"} & {name for name, _ in self.headers}
        return self.head_done and not framed


async def relay(port: int, request: Request, exchange: Exchange) -> None:
    """Raises NothingListens before anything was sent, ConnectionCut if the program breaks off."""
    try:
        connection = await anyio.connect_tcp("127.0.0.1", port)
    except OSError:
        raise NothingListens from None
    try:
        await connection.send(_head(port, request) + request.body)
        await _hand_on(connection, request, exchange)
    except (anyio.BrokenResourceError, httptools.HttpParserError):
        raise ConnectionCut from None
    finally:
        await anyio.aclose_forcefully(connection)


async def _hand_on(connection: anyio.abc.ByteReceiveStream, request: Request, exchange: Exchange) -> None:
    reader = _Reader()
    parser = httptools.HttpResponseParser(reader)
    while not reader.done:
        try:
            parser.feed_data(await connection.receive(_READ_BYTES))
        except anyio.EndOfStream:
            if not reader.ends_with_connection():
                raise ConnectionCut from None
            break
        if reader.head_done and not exchange.started:
            kept = [(name, value) for name, value in reader.headers if name not in ("connection", "transfer-encoding")]
            await exchange.start(parser.get_status_code(), kept)
        chunks, reader.chunks = reader.chunks, []
        for chunk in chunks:
            await exchange.write(chunk)
        if reader.head_done and request.method == "HEAD":
            break
    await exchange.finish()


def _head(port: int, request: Request) -> bytes:
    target = quote(request.path, safe="/%:@!$&'()*+,;=~-._") + (f"?{request.query}" if request.query else "")
    lines = [f"{request.method} {target} HTTP/1.1", f"Host: 127.0.0.1:{port}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in request.headers if name not in _LEFT_OUT]
    if request.body or request.method in ("POST", "PUT", "PATCH"):
        lines.append(f"Content-Length: {len(request.body)}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
