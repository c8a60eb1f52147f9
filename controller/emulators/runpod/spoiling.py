"""How is an ordered fault done to a call?

The call itself is `act`, which answers to whatever exchange it is given; a fault delays it, gives its answer to
nobody, to the client slowly, or to the client spoilt. What was done stays done: only the answer suffers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import anyio

from controller.emulators.exchange import Answer, ConnectionCut, Exchange, Headers, Kept, give
from controller.emulators.runpod.api import problem
from controller.emulators.runpod.faults import Deed

Act = Callable[[Exchange], Awaitable[None]]

_HUGE_BYTES: Final = 32 * 1024 * 1024
_HTML: Final = b"<!DOCTYPE html><html><head><title>Just a moment...</title></head><body>Please wait.</body></html>"


async def spoil(deed: Deed, act: Act, exchange: Exchange) -> None:
    """Do the call with the fault. Raises ConnectionCut where the connection is to be reset."""
    if deed.answer is not None:
        await _do_unheard(deed, act)
        await give(exchange, _ordered(deed, deed.answer))
    elif deed.drop is not None:
        if deed.drop == "after":
            await act(Kept())
        raise ConnectionCut
    elif deed.hang is not None:
        await _do_unheard(deed, act)
        await anyio.sleep(deed.hang)
        raise ConnectionCut
    elif deed.malformed is not None:
        await _answer_malformed(deed, deed.malformed, act, exchange)
    else:
        await act(exchange if deed.drip is None else _Dripping(exchange, deed.drip))


async def _do_unheard(deed: Deed, act: Act) -> None:
    if deed.effect:
        await act(Kept())


def _ordered(deed: Deed, status: int) -> Answer:
    if deed.body is None:
        plain = problem(status, "rate limit exceeded for the minute window" if status == 429 else "ordered by a test")
        return Answer(status=status, headers=_over(plain.headers, deed.headers), body=plain.body)
    return Answer(status=status, headers=_over([("content-type", "application/json")], deed.headers), body=deed.body)


def _over(headers: Headers, own: Headers) -> Headers:
    names = {name for name, _ in own}
    return [entry for entry in headers if entry[0] not in names] + own


async def _answer_malformed(deed: Deed, kind: str, act: Act, exchange: Exchange) -> None:
    kept = Kept()
    if deed.effect:
        await act(kept)
    real = kept.answer() if kept.started else Answer(status=200, headers=[("content-type", "application/json")])
    status = 200 if real.status == 204 else real.status
    if kind == "truncated":
        await _send_half(status, real, exchange)
    await give(exchange, _malformed(kind, status, real))


async def _send_half(status: int, real: Answer, exchange: Exchange) -> None:
    body = real.body or b'{"pods": []}'
    await exchange.start(status, [*real.headers, ("content-length", str(len(body)))])
    await exchange.write(body[: len(body) // 2])
    raise ConnectionCut


def _malformed(kind: str, status: int, real: Answer) -> Answer:
    in_json = _over(real.headers, [("content-type", "application/json")])
    if kind == "html":
        return Answer(status=200, headers=_over(real.headers, [("content-type", "text/html")]), body=_HTML)
    if kind == "null":
        return Answer(status=status, headers=in_json, body=b"null")
    if kind == "empty":
        return Answer(status=status, headers=in_json)
    if kind == "wrong-type":
        wrong = b'{"pods":{"id":7},"pagination":"no","id":7,"status":null,"env":[],"gpus":"none"}'
        return Answer(status=status, headers=in_json, body=wrong)
    return Answer(status=status, headers=in_json, body=b'{"filler":"' + b"x" * _HUGE_BYTES + b'"}')


class _Dripping:
    """An exchange that lets so many bytes through in a second."""

    def __init__(self, inner: Exchange, rate: float) -> None:
        self._inner = inner
        self._rate = rate
        self._step = max(1, int(rate))

    @property
    def started(self) -> bool:
        return self._inner.started

    async def start(self, status: int, headers: Headers) -> None:
        await self._inner.start(status, headers)

    async def write(self, chunk: bytes) -> None:
        for at in range(0, len(chunk), self._step):
            piece = chunk[at : at + self._step]
            await anyio.sleep(len(piece) / self._rate)
            await self._inner.write(piece)

    async def finish(self, last: bytes = b"") -> None:
        await self.write(last)
        await self._inner.finish()
