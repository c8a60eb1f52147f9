"""Is the model server let go within two seconds of its client's leaving, wherever the request stands (B49)?

On real sockets, measured from the moment at which the client ends its connection. Streams that flow and answers of
which nothing came yet are in `test_endings`.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from controller.gateway.proxy import KEPT_BYTES
from tests.gateway.sockets import Served, eventually, request, served
from tests.gateway.stub_server import event
from tests.gateway.test_endings import HEAD, PLAIN, STREAM, announced, silent
from tests.support.fake_daemon import route
from tests.support.raw_server import RawExchange, RawServer, Script, raw_server

WITHIN_S = 2.0


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": True}


async def head_alone(exchange: RawExchange) -> None:
    await exchange.write(HEAD)
    await asyncio.sleep(60)


async def stalled(exchange: RawExchange) -> None:
    await exchange.write(HEAD)
    await exchange.chunk(event("one"))
    await asyncio.sleep(60)


async def stalled_in_an_event(exchange: RawExchange) -> None:
    await exchange.write(HEAD)
    await exchange.chunk(event("one") + b'data: {"choices"')
    await asyncio.sleep(60)


async def half_an_answer(exchange: RawExchange) -> None:
    await exchange.write(announced(100) + b'{"choices":')
    await asyncio.sleep(60)


async def half_a_long_answer(exchange: RawExchange) -> None:
    await exchange.write(announced(2 * KEPT_BYTES) + b"x" * (KEPT_BYTES + 1))
    await asyncio.sleep(60)


COUNT = request(PLAIN).replace(b"/v1/chat/completions", b"/v1/messages/count_tokens")


@asynccontextmanager
async def asked(gateway: Served, sent: bytes) -> AsyncIterator[asyncio.StreamWriter]:
    """A client that has sent this, and leaves at the end of the block at the latest."""
    _, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(sent)
    try:
        yield writer
    finally:
        writer.close()


async def require_soon(happened: Callable[[], bool]) -> None:
    began = anyio.current_time()
    await eventually(happened)
    assert anyio.current_time() - began < WITHIN_S


def nothing_left(gateway: Served, server: RawServer) -> Callable[[], bool]:
    def left() -> bool:
        held = gateway.gateway.leases.open_requests, gateway.gateway.live, gateway.gateway.proxy.open
        return (server.open, gateway.pool.open, *held) == (0, 0, 0, 0, 0)

    return left


@pytest.mark.parametrize(
    ("script", "sent"),
    [
        (head_alone, request(STREAM)),
        (stalled, request(STREAM)),
        (stalled_in_an_event, request(STREAM)),
        (half_an_answer, request(PLAIN)),
        (half_a_long_answer, request(PLAIN)),
        (silent, COUNT),
    ],
)
async def test_a_client_that_leaves_in_a_silence_takes_the_upstream_with_it(script: Script, sent: bytes) -> None:
    async with raw_server(script) as server, served(server.port) as gateway:
        async with asked(gateway, sent) as writer:
            await eventually(lambda: len(server.requests) == 1)
            await asyncio.sleep(0.05)  # what there is to be had came
            assert gateway.gateway.live == 1
            writer.close()
            await require_soon(nothing_left(gateway, server))
        assert server.left == 1


async def test_a_client_that_leaves_before_its_body_is_whole_wakes_nothing() -> None:
    async with raw_server(silent) as server, served(server.port) as gateway:
        async with asked(gateway, request(PLAIN)[:-5]):
            await eventually(lambda: bool(gateway.gateway._inference.reading))
        await require_soon(lambda: not gateway.gateway._inference.reading)
        assert (server.requests, gateway.daemon.starts, gateway.daemon.leases) == ([], [], [])


@pytest.mark.parametrize("sent", [request(STREAM), request(PLAIN)], ids=["stream", "plain"])
async def test_a_client_that_leaves_while_the_daemon_is_asked_for_a_lease_reaches_no_machine(sent: bytes) -> None:
    async with raw_server(silent) as server, served(server.port) as gateway:
        gateway.daemon.lease_answer_s = 0.4
        async with asked(gateway, sent):
            await eventually(lambda: gateway.gateway.leases.open_requests == 1)
        await require_soon(nothing_left(gateway, server))
        await eventually(lambda: gateway.daemon.listed.get("d1", {}).get("open") == 1)
        await asyncio.sleep(0.5)  # and the answer came
        assert (server.requests, gateway.gateway.leases.open_requests) == ([], 0)


@pytest.mark.parametrize("sent", [request(STREAM), request(PLAIN)], ids=["stream", "plain"])
async def test_a_client_that_leaves_while_the_machine_is_being_proven_leaves_its_place_and_the_proof(
    sent: bytes,
) -> None:
    """The proof is everybody's: it ends within its own limit, and nobody's request follows it."""
    async with raw_server(silent) as server, served(server.port) as gateway:
        proofs: list[bytes] = server.requests
        await gateway.change("m1", routes=[])
        async with asked(gateway, sent):
            await eventually(lambda: gateway.gateway.rooms.waiting("m1") == 1)
            gateway.daemon.change("m1", routes=[route("d2", f"http://127.0.0.1:{server.port}/v1/", proven=False)])
            await eventually(lambda: len(proofs) == 1)
        await require_soon(lambda: (gateway.gateway.live, gateway.gateway.rooms.waiting("m1")) == (0, 0))
        gateway.daemon.change("m1", phase="off", routes=[])
    assert len(proofs) == 1 and b'"max_tokens": 1' in proofs[0]
