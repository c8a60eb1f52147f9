"""What does a model say to one question, asked as any client would?

Through the gateway's fixed address, as a stream: the answer goes to stdout as it comes, and what is being waited for to
stderr. A cold model starts, and that is paid for.
"""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import timedelta
from typing import Any, Final

from controller.cli.exits import Exit, Failure, exit_of
from controller.cli.output import Progress
from controller.http1 import Incoming, Outgoing, Pool, Wire, WireError
from controller.settings import Settings

_HEAD_LIMIT: Final = timedelta(minutes=32)
"""Longer than the longest that a gateway can hold a caller."""
_SILENCE_LIMIT: Final = timedelta(minutes=5)
_REFUSAL_BYTES_MAX: Final = 1 << 20


async def chat(settings: Settings, *, alias: str, text: str, key: str | None, wire: Wire | None = None) -> Exit:
    """`key` is a client's key, where the gateway wants one."""
    if alias not in (known := _names(settings)):
        raise Failure(Exit.NOT_FOUND, f"no model {alias}; there are: {', '.join(known) or 'none'}")
    root = gateway_root(settings.written.gateway.listen)
    headers = [(b"content-type", b"application/json"), (b"accept", b"text/event-stream")]
    if key:
        headers.append((b"authorization", f"Bearer {key}".encode()))
    body = {"model": alias, "stream": True, "messages": [{"role": "user", "content": text}]}
    request = Outgoing(
        method="POST",
        url=f"{root}/v1/chat/completions",
        headers=tuple(headers),
        body=json.dumps(body).encode(),
        head_limit=_HEAD_LIMIT,
        silence_limit=_SILENCE_LIMIT,
    )
    if wire is not None:
        return await _asked(wire, request, root)
    with closing(Pool()) as pool:
        return await _asked(pool, request, root)


def _names(settings: Settings) -> list[str]:
    """Each model, and behind it its adapters."""
    return [
        name
        for alias, section in settings.models.items()
        for name in (alias, *(f"{alias}:{adapter}" for adapter in section.adapters))
    ]


async def _asked(wire: Wire, request: Outgoing, root: str) -> Exit:
    progress = Progress()
    progress.tell("asked the gateway")
    try:
        answer = await wire.send(request)
    except WireError as error:
        progress.end()
        raise Failure(Exit.UNREACHABLE, f"the gateway does not answer at {root}: {error}") from error
    try:
        return await _told(answer, progress)
    except WireError as error:
        raise Failure(Exit.FAILED, f"the answer broke off: {error}") from error
    finally:
        progress.end()
        answer.close()


def gateway_root(listen: str) -> str:
    """The address to call for one that is listened on."""
    host, _, port = listen.rpartition(":")
    reached = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(host, host)  # noqa: S104 - listened on, not bound here
    return f"http://{reached}:{port}"


async def _told(answer: Incoming, progress: Progress) -> Exit:
    if answer.status != 200:
        raise _refusal(await answer.read(_REFUSAL_BYTES_MAX), f"status {answer.status}")
    said = False
    async for line in _lines(answer):
        if line.startswith(":"):
            progress.tell(line[1:].strip())
        elif line.startswith("data:") and (words := _words(line[5:].strip())):
            progress.end()
            said = True
            sys.stdout.write(words)
            sys.stdout.flush()
    if said:
        sys.stdout.write("\n")
        sys.stdout.flush()
    return Exit.OK


async def _lines(answer: Incoming) -> AsyncIterator[str]:
    partial = b""
    async for piece in answer.chunks():
        *whole, partial = (partial + piece).split(b"\n")
        for line in whole:
            yield line.decode("utf-8", "replace").rstrip("\r")


def _words(data: str) -> str:
    """What a piece of the stream adds to the answer. Raises Failure when it is an error instead."""
    try:
        piece: Any = json.loads(data)
    except ValueError:
        return ""  # [DONE], and what a server may invent
    if not isinstance(piece, dict):
        return ""
    if piece.get("error"):
        raise _refusal(data.encode(), "an error")
    choices = piece.get("choices") or [{}]
    return str((choices[0].get("delta") or {}).get("content") or "")


def _refusal(content: bytes, otherwise: str) -> Failure:
    try:
        error = json.loads(content)["error"]
        code, message = str(error.get("code")), str(error.get("message"))
    except (ValueError, KeyError, TypeError, AttributeError):
        return Failure(Exit.FAILED, f"the gateway answered with {otherwise}")
    return Failure(exit_of(code), f"{code}: {message}")
