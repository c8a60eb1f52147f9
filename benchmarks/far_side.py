"""What stands behind the gateway while it is measured?

A process of its own with a model server that answers at once, or streams at a rhythm, and a daemon that only says where
that server is. How many events and how many milliseconds apart is up to the question, in two members that mean
something else to others and are passed on by them: `max_tokens` and `seed`. Both are as cheap as they can be, so that
what is measured is the gateway. It ends when its standard input does: whoever started it is gone then.
"""

import argparse
import asyncio
import json
import os
import re
import socket
import sys
from typing import Any, Final, cast

import anyio
import uvloop

from controller.gateway.serve import serve
from tests.support.fake_daemon import FakeDaemon, route

ALIAS: Final = "m1"
EVENTS: Final = 120
"""Events of one stream, the last and its mark included."""
RHYTHM_S: Final = 0.05
LENGTH: Final = re.compile(rb"content-length:\s*(\d+)", re.IGNORECASE)
STREAMED: Final = re.compile(rb'"stream":\s*true')
ASKED: Final = {name: re.compile(rb'"%s":\s*(\d+)' % name) for name in (b"max_tokens", b"seed")}


def _whole_answer() -> bytes:
    """A chat completion of about 1 KB."""
    message = {"role": "assistant", "content": "word " * 140}
    content = {
        "id": "chatcmpl-0123456789abcdef",
        "object": "chat.completion",
        "created": 1796000000,
        "model": "org/m1",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 12, "completion_tokens": 140, "total_tokens": 152},
    }
    body = json.dumps(content).encode()
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)


def _chunk(text: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(text), text)


def _event(delta: dict[str, str], finish: str | None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    content = {"id": "chatcmpl-01", "object": "chat.completion.chunk", "created": 1796000000, "model": "org/m1"}
    return b"data: " + json.dumps({**content, "choices": [choice]}).encode() + b"\n\n"


WHOLE: Final = _whole_answer()
HEAD: Final = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
WORD: Final = _chunk(_event({"content": " word"}, None))
LAST: Final = _chunk(_event({}, "stop")) + _chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"


class ModelServer(asyncio.Protocol):
    """One connection; requests come one after the other."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._received = b""
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._rhythm_s = RHYTHM_S

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's own is not registered as one

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, found, rest = self._received.partition(b"\r\n\r\n")
        length = LENGTH.search(head)
        size = int(length[1]) if length else 0
        if not found or len(rest) < size or self._transport is None:
            return
        self._received = rest[size:]
        if STREAMED.search(rest, 0, size):
            self._transport.write(HEAD)
            events, rhythm_ms = (_asked(name, rest[:size]) for name in ASKED)
            self._rhythm_s = RHYTHM_S if rhythm_ms is None else rhythm_ms / 1000
            self._step((events or EVENTS) - 2, self._loop.time())
        else:
            self._transport.write(WHOLE)

    def _step(self, left: int, at: float) -> None:
        if self._transport is None:
            return
        self._transport.write(WORD if left else LAST)
        if left:
            self._timer = self._loop.call_at(at + self._rhythm_s, self._step, left - 1, at + self._rhythm_s)


def _asked(name: bytes, body: bytes) -> int | None:
    found = ASKED[name].search(body)
    return None if found is None else int(found[1])


def daemon_for(port: int) -> FakeDaemon:
    """Says that the model is ready at that port, and grants every lease."""
    said = FakeDaemon(ALIAS)
    said.change(ALIAS, phase="ready", queue=1024, routes=[route("d1", f"http://127.0.0.1:{port}/v1/")])
    return said


async def _run(path: str) -> None:
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(ModelServer, "127.0.0.1", 0, backlog=1024)
    port = listening.sockets[0].getsockname()[1]
    unix = socket.socket(socket.AF_UNIX)
    unix.bind(path)
    ended = anyio.Event()
    app: Any = daemon_for(port).app
    async with anyio.create_task_group() as group:
        group.start_soon(_until_input_ends, ended)
        group.start_soon(serve, app, [unix], ended)
        print(port, flush=True)
        await ended.wait()
    listening.close()


async def _until_input_ends(ended: anyio.Event) -> None:
    await anyio.wait_readable(sys.stdin.fileno())
    os.read(sys.stdin.fileno(), 1)
    ended.set()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--socket", required=True, help="where the daemon listens")
    uvloop.run(_run(parser.parse_args().socket))
