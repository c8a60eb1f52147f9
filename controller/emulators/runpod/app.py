"""How does one ASGI application answer as Runpod's API, its proxy and the tests' own surface?

By the path. Faults are ordered for the first two only. A call that was delayed takes effect at its time though its
client has gone, as at a real provider: that is what makes an unanswered create dangerous.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import anyio
import anyio.lowlevel

from controller.emulators.exchange import (
    Answer,
    App,
    ConnectionCut,
    Exchange,
    Headers,
    Receive,
    Request,
    Scope,
    Send,
    ToClient,
    break_off,
    give,
    read_request,
    while_client_stays,
)
from controller.emulators.runpod import api, proxy
from controller.emulators.runpod.api_call import Ask
from controller.emulators.runpod.echoing import Echoing
from controller.emulators.runpod.emulator import Call, Emulator
from controller.emulators.runpod.faults import Deed
from controller.emulators.runpod.graphql import answer_graphql
from controller.emulators.runpod.logs import LOGS_PATH, stream_logs
from controller.emulators.runpod.spoiling import spoil
from controller.emulators.runpod.surface import PREFIX, control_answer


def build_app(emulator: Emulator) -> App:
    """The ASGI application over this emulator."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"not served: {scope['type']}")
        request = await read_request(scope, receive)
        if request is None:
            return

        deed = None if request.path.startswith(PREFIX) else emulator.take_fault(request)

        async def work() -> None:
            try:
                await _answer(emulator, request, send, deed)
            except ConnectionCut:
                break_off(scope)
                # One turn for the server to notice, or it takes the unfinished answer for a fault of ours.
                await anyio.lowlevel.checkpoint()

        if deed is None and _is_instant(emulator, request):
            await work()
        else:
            await while_client_stays(receive, work)

    return app


def _is_instant(emulator: Emulator, request: Request) -> bool:
    """Nothing on its way waits, so there is no need to watch for a client that leaves meanwhile."""
    if request.path.startswith("/proxy/"):
        return request.method == "GET" and not emulator.settings.exec
    return LOGS_PATH.fullmatch(request.path) is None


async def _answer(emulator: Emulator, request: Request, send: Send, deed: Deed | None) -> None:
    now = emulator.settle()
    if request.path.startswith(PREFIX):
        exchange = ToClient(send, extra=list)
        await give(exchange, control_answer(emulator, request))
        return
    if request.path.startswith("/proxy/"):
        exchange = ToClient(send, extra=lambda: [("server", "cloudflare"), ("date", _date(emulator))])
        await _with_fault(deed, lambda to: proxy.pass_on(emulator, request, to), _told(emulator, request, exchange))
        return
    call = emulator.open_call(request, now)
    request_id = f"req_{emulator.new_id()}"
    exchange = ToClient(send, extra=lambda: _api_headers(emulator, request_id))
    over = None if deed is not None else emulator.counted.used_up(emulator.settings.quotas, now)
    try:
        if over is not None:
            await give(exchange, _too_many(*over))
            return
        await _api(emulator, request, call, deed, _told(emulator, request, exchange))
    finally:
        call.status = exchange.status


def _told(emulator: Emulator, request: Request, exchange: Exchange) -> Exchange:
    return Echoing(exchange, request) if emulator.settings.echo_errors else exchange


async def _with_fault(deed: Deed | None, act: Callable[[Exchange], Any], exchange: Exchange) -> None:
    if deed is None:
        await act(exchange)
        return
    await anyio.sleep(deed.delay)
    await spoil(deed, act, exchange)


async def _api(emulator: Emulator, request: Request, call: Call, deed: Deed | None, exchange: Exchange) -> None:
    bend = deed or Deed()

    def respond(now: float) -> Answer:
        ask = Ask(
            emulator=emulator,
            request=request,
            now=now,
            ignore=bend.ignore,
            omit=bend.omit,
            twice=bend.twice,
            queued=bend.queued,
        )
        answer = answer_graphql(ask) if request.path == "/graphql" else api.respond(ask)
        if answer.effect != "none":
            call.effect, call.pod = answer.effect, answer.pod
        return answer

    async def act(to: Exchange) -> None:
        if LOGS_PATH.fullmatch(request.path) and request.method == "GET":
            await stream_logs(Ask(emulator=emulator, request=request, now=emulator.now()), to)
        else:
            await give(to, respond(emulator.settle()))

    if bend.delay > 0:
        await _wait_or_leave_it_to_happen(emulator, bend, respond)
    await spoil(bend, act, exchange)


def _too_many(window: str, rest: int) -> Answer:
    refusal = api.problem(429, f"rate limit exceeded for the {window} window")
    refusal.headers.append(("retry-after", str(rest)))
    return refusal


async def _wait_or_leave_it_to_happen(emulator: Emulator, deed: Deed, respond: Callable[[float], Answer]) -> None:
    due = emulator.now() + deed.delay
    happens = deed.effect or (deed.answer is None and deed.hang is None and deed.drop != "before")
    try:
        await anyio.sleep(deed.delay)
    except anyio.get_cancelled_exc_class():
        if happens:
            emulator.later(due, lambda at: _discard(respond(at)))
        raise


def _discard(_: Answer) -> None:
    """Nobody is left to hear it."""


def _date(emulator: Emulator) -> str:
    return _date_of(int(emulator.now() + emulator.settings.clock_offset_seconds))


@lru_cache(maxsize=8)
def _date_of(second: int) -> str:
    return time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(second))


def _api_headers(emulator: Emulator, request_id: str) -> Headers:
    return [
        ("date", _date(emulator)),
        ("x-request-id", request_id),
        *emulator.counted.headers(emulator.settings.quotas, emulator.now()),
    ]
