"""What does `https://{pod}-{port}.proxy.runpod.net` answer?

404 for a port that is not exposed over HTTP, 502 where nothing listens, 403 (`error code: 1010`) for the user agents
of common libraries, 524 after 100 seconds without a byte; else what the model server behind the pod says.
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Final

import anyio

from controller.emulators.exchange import Answer, ConnectionCut, Exchange, Headers, Request, give, in_text
from controller.emulators.runpod import model_server, pods
from controller.emulators.runpod.generation import ServerDied
from controller.emulators.runpod.launch import read_launch
from controller.emulators.runpod.model_server import Served
from controller.emulators.runpod.pods import Pod

if TYPE_CHECKING:
    from controller.emulators.runpod.emulator import Emulator

PATH: Final = re.compile(r"/proxy/([^/]+)/([^/]+)(/.*)?")
SILENCE_SECONDS: Final = 100.0
_DEFAULT_AGENTS: Final = ("python-httpx/", "Python-urllib/", "python-requests/", "aiohttp/", "Python/3")


async def pass_on(emulator: Emulator, request: Request, exchange: Exchange) -> None:
    """Answer one request to the proxy. Raises ConnectionCut where a stream breaks off."""
    match = PATH.fullmatch(request.path)
    pod_id, port, path = match.groups() if match else ("", "", None)
    agent = request.header("user-agent") or ""
    if agent.startswith(_DEFAULT_AGENTS) or "aiohttp" in agent:
        await give(exchange, in_text(403, "error code: 1010"))
        return
    now = emulator.settle()
    pod = emulator.pods.get(pod_id)
    if pod is None or not pod.alive or f"{port}/http" not in pod.ports:
        await give(exchange, in_text(404, "404 page not found"))
        return
    inner = dataclasses.replace(request, path=path or "/")
    watched = _Watched(exchange)
    with anyio.CancelScope() as scope:
        watched.scope = scope
        watched.byte_came()
        try:
            await _reach(emulator, pod, int(port), inner, watched, now)
        except ConnectionCut as cut:
            if isinstance(cut, ServerDied):
                pods.restart_container(pod, emulator.now())
            if watched.started:
                raise
            await give(exchange, _nothing_listens())
    if scope.cancelled_caught:
        if watched.started:
            raise ConnectionCut
        await give(exchange, in_text(524, "error code: 524"))


async def _reach(emulator: Emulator, pod: Pod, port: int, request: Request, exchange: Exchange, now: float) -> None:
    settings = emulator.settings
    program = settings.exec.get(pod.image) or settings.exec.get("*")
    if program is not None:
        await emulator.children.pass_on(emulator, pod, request, exchange)
        return
    launch = read_launch(pod, emulator.secrets())
    phase = pods.model_server(pod, now)
    if launch is None or phase == pods.DOWN or not launch.listens_on(port):
        await give(exchange, _nothing_listens())
        return
    if phase == pods.LOADING:
        await give(exchange, model_server.loading(launch) or _nothing_listens())
        return
    await model_server.answer(
        Served(pod=pod, launch=launch, now=now, token_rate=settings.token_rate), request, exchange
    )


def _nothing_listens() -> Answer:
    return in_text(502, "error code: 502")


class _Watched:
    """An exchange that moves the deadline of silence on with every byte."""

    def __init__(self, inner: Exchange) -> None:
        self._inner = inner
        self.scope = anyio.CancelScope()

    @property
    def started(self) -> bool:
        return self._inner.started

    def byte_came(self) -> None:
        deadline = anyio.current_time() + SILENCE_SECONDS
        if self.scope.deadline != deadline:
            self.scope.deadline = deadline

    async def start(self, status: int, headers: Headers) -> None:
        self.byte_came()
        await self._inner.start(status, headers)

    async def write(self, chunk: bytes) -> None:
        self.byte_came()
        await self._inner.write(chunk)

    async def finish(self, last: bytes = b"") -> None:
        await self._inner.finish(last)
