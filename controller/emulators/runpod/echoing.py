"""What does an answer give away, where a provider or a model server is careless?

Seen in the wild: refusals that quote the request with its URL, headers and body, and programs that print their
arguments and environment when they start. Ordered by `echo_errors`; a caller that stores or logs such words raw has
leaked its own key.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from controller.emulators.exchange import Answer, Exchange, Headers, Kept, Request, give
from controller.emulators.runpod.launch import command, resolve

if TYPE_CHECKING:
    from controller.emulators.runpod.emulator import Emulator
    from controller.emulators.runpod.pods import Pod


class Echoing:
    """An exchange whose refusals quote the request."""

    def __init__(self, inner: Exchange, request: Request) -> None:
        self._inner = inner
        self._request = request
        self._kept: Kept | None = None

    @property
    def started(self) -> bool:
        return self._kept is not None or self._inner.started

    async def start(self, status: int, headers: Headers) -> None:
        if status < 400:
            await self._inner.start(status, headers)
            return
        self._kept = Kept()
        await self._kept.start(status, headers)

    async def write(self, chunk: bytes) -> None:
        await (self._kept or self._inner).write(chunk)

    async def finish(self, last: bytes = b"") -> None:
        if self._kept is None:
            await self._inner.finish(last)
            return
        await self._kept.finish(last)
        refusal = self._kept.answer()
        body = _quoting(refusal.body, self._request)
        await give(self._inner, Answer(status=refusal.status, headers=refusal.headers, body=body))


def _quoting(body: bytes, request: Request) -> bytes:
    url = request.path + (f"?{request.query}" if request.query else "")
    quoted = f"{request.method} {url} {dict(request.headers)} {request.body.decode(errors='replace')}"
    try:
        content = json.loads(body)
    except ValueError:
        return body + quoted.encode()
    if isinstance(content, dict):
        return json.dumps(
            {name: _told(value, quoted) for name, value in content.items()} | {"request": quoted}
        ).encode()
    return body


def _told(value: object, quoted: str) -> object:
    """Wherever words for people are: a problem's detail, an error's message."""
    if isinstance(value, dict):
        return {name: _told(entry, quoted) for name, entry in value.items()}
    return f"{value} ({quoted})" if isinstance(value, str) and " " in value else value


def first_words(emulator: Emulator, pod: Pod) -> list[str]:
    """What a program says that prints how it was started."""
    entrypoint, arguments = command(pod)
    environment = resolve(pod.env, emulator.secrets())
    return [f"arguments {entrypoint + arguments}", f"environment {environment}"]
