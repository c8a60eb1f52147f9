"""How an answer ends on a real socket: whole, with an error and a cut, or because the client left (B47, B49)."""

import asyncio
import json
import socket
import struct
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import anyio
import pytest

from controller.gateway.proxy import KEPT_BYTES
from tests.gateway.sockets import Served, eventually, request, served
from tests.gateway.stub_server import DONE, event
from tests.support.fake_daemon import route
from tests.support.raw_server import RawExchange, RawServer, Script, raw_server

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
STREAM = b'{"model":"m1","stream":true,"messages":[]}'
PLAIN = b'{"model":"m1","messages":[]}'


@pytest.fixture(scope="module", params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """Both loops: they write, close and reset in ways of their own."""
    return "asyncio", {"use_uvloop": request.param}


async def exchange_with(port: int, body: bytes, *, limit_s: float = 5) -> bytes:
    """Everything the gateway sends for one request, until it ends the connection or falls silent."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request(body))
    received = b""
    with anyio.move_on_after(limit_s):
        while data := await reader.read(65_536):
            received += data
            if received.endswith((b"\r\n0\r\n\r\n", b"}}")):
                break
    writer.close()
    return received


def payload(raw: bytes) -> bytes:
    """The chunks' content, as far as they are whole."""
    body = raw.partition(b"\r\n\r\n")[2]
    content = b""
    while body:
        size, _, rest = body.partition(b"\r\n")
        content += rest[: int(size, 16)]
        body = rest[int(size, 16) + 2 :]
    return content


async def finished(exchange: RawExchange) -> None:
    await exchange.write(HEAD)
    for piece in (event("one"), event("two", "stop"), DONE):
        await exchange.chunk(piece)
    await exchange.write(b"0\r\n\r\n")


async def test_a_whole_stream_ends_with_its_last_chunk() -> None:
    async with raw_server(finished) as server, served(server.port) as gateway:
        raw = await exchange_with(gateway.port, STREAM)
    assert raw.startswith(b"HTTP/1.1 200 OK\r\n")
    assert raw.endswith(b"\r\n0\r\n\r\n")
    assert payload(raw) == event("one") + event("two", "stop") + DONE


async def five_events(exchange: RawExchange) -> None:
    await exchange.write(HEAD)
    for number in range(5):
        await exchange.chunk(event(str(number)))
    await asyncio.sleep(0.05)


async def reset_after(exchange: RawExchange) -> None:
    await five_events(exchange)
    exchange.reset()


async def end_after(exchange: RawExchange) -> None:
    await five_events(exchange)
    exchange.end()


async def malformed_after(exchange: RawExchange) -> None:
    await five_events(exchange)
    await exchange.write(b"xyz\r\n\r\n")


async def well_formed_end_after(exchange: RawExchange) -> None:
    """Of the transport: the last event is missing."""
    await five_events(exchange)
    await exchange.write(b"0\r\n\r\n")


async def error_event_after(exchange: RawExchange) -> None:
    await five_events(exchange)
    await exchange.chunk(b'data: {"error":{"message":"EngineCore died","type":"InternalServerError"}}\n\n')
    await exchange.chunk(DONE)
    await exchange.write(b"0\r\n\r\n")


async def abort_after(exchange: RawExchange) -> None:
    await five_events(exchange)
    await exchange.chunk(event("", "abort") + DONE)
    await exchange.write(b"0\r\n\r\n")


@pytest.mark.parametrize(
    "script",
    [reset_after, end_after, malformed_after, well_formed_end_after, error_event_after, abort_after],
)
async def test_an_upstream_that_dies_in_its_stream_leaves_one_error_and_no_last_chunk(script: Script) -> None:
    async with raw_server(script) as server, served(server.port) as gateway:
        raw = await exchange_with(gateway.port, STREAM)
        await eventually(lambda: (gateway.pool.open, gateway.gateway.leases.open_requests) == (0, 0))
    events = [part for part in payload(raw).split(b"\n\n") if part]
    assert len(events) == 6
    assert json.loads(events[5].removeprefix(b"data: "))["error"]["code"] == "upstream_disconnected"
    assert not raw.endswith(b"0\r\n\r\n")
    assert b"[DONE]" not in raw
    assert b'"finish_reason":"stop"' not in raw
    assert len(server.requests) == 1


async def reset_before(exchange: RawExchange) -> None:
    exchange.reset()


async def reset_after_head(exchange: RawExchange) -> None:
    await exchange.write(HEAD)
    await asyncio.sleep(0.02)
    exchange.reset()


@pytest.mark.parametrize("script", [reset_before, reset_after_head])
@pytest.mark.parametrize("body", [STREAM, PLAIN])
async def test_an_upstream_that_dies_before_its_first_byte_is_a_502(script: Script, body: bytes) -> None:
    """And no other one is asked: this one may have begun to compute."""
    async with raw_server(script) as server, served(server.port) as gateway:
        routes = [route(name, f"http://127.0.0.1:{server.port}/v1/") for name in ("d1", "d2")]
        await gateway.change("m1", routes=routes)
        raw = await exchange_with(gateway.port, body)
    assert raw.startswith(b"HTTP/1.1 502 ")
    assert json.loads(raw.partition(b"\r\n\r\n")[2])["error"]["code"] == "upstream_disconnected"
    assert len(server.requests) == 1


def announced(size: int) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % size


async def test_a_plain_answer_that_is_cut_short_is_a_502() -> None:
    async def short(exchange: RawExchange) -> None:
        await exchange.write(announced(100) + b"{")
        await asyncio.sleep(0.02)
        exchange.end()

    async with raw_server(short) as server, served(server.port) as gateway:
        raw = await exchange_with(gateway.port, PLAIN)
    assert raw.startswith(b"HTTP/1.1 502 ")
    assert json.loads(raw.partition(b"\r\n\r\n")[2])["error"]["code"] == "upstream_disconnected"


LONG = b"x" * (KEPT_BYTES + 1)
UNANNOUNCED = HEAD.replace(b"text/event-stream", b"application/json")


@pytest.mark.parametrize("begin", [announced(2 * KEPT_BYTES) + LONG, UNANNOUNCED + b"%x\r\n%s\r\n" % (len(LONG), LONG)])
async def test_a_plain_answer_that_is_too_long_to_be_kept_is_cut_where_the_upstream_was(begin: bytes) -> None:
    async def short(exchange: RawExchange) -> None:
        await exchange.write(begin)
        await asyncio.sleep(0.1)
        exchange.end()

    async with raw_server(short) as server, served(server.port) as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(request(PLAIN))
        raw = await asyncio.wait_for(reader.read(), 5)
        writer.close()
    assert raw.startswith(b"HTTP/1.1 200 ")
    assert raw.count(b"x") >= len(LONG) and not raw.endswith(b"0\r\n\r\n")


async def endless(exchange: RawExchange) -> None:
    await exchange.write(HEAD)
    while True:
        await exchange.chunk(event("x"))
        await asyncio.sleep(0.01)


async def silent(exchange: RawExchange) -> None:
    await asyncio.sleep(60)


async def leave(gateway: Served, body: bytes, *, reset: bool, once: Callable[[], bool], seen: bytes = b"") -> None:
    """A client that goes once its request is where it is meant to be, and it has read so much of the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(request(body))
    await eventually(once)
    if seen:
        await asyncio.wait_for(reader.readuntil(seen), 60)
    end(writer, reset=reset)


def end(writer: asyncio.StreamWriter, *, reset: bool) -> None:
    if reset:
        sock: socket.socket = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
    else:
        writer.close()


def nothing_open(gateway: Served) -> bool:
    return (gateway.pool.open, gateway.gateway.leases.open_requests, gateway.gateway.live) == (0, 0, 0)


async def until_left(server: RawServer, count: int) -> None:
    await eventually(lambda: server.left >= count)


@pytest.mark.parametrize("reset", [False, True], ids=["FIN", "RST"])
@pytest.mark.parametrize(
    ("script", "body", "seen"), [(endless, STREAM, event("x")), (silent, STREAM, b""), (silent, PLAIN, b"")]
)
async def test_a_client_that_leaves_takes_the_upstream_with_it(
    script: Script, body: bytes, seen: bytes, reset: bool
) -> None:
    async with raw_server(script) as server, served(server.port) as gateway:
        await leave(gateway, body, reset=reset, once=lambda: bool(server.requests), seen=seen)
        await until_left(server, 1)
        await eventually(lambda: nothing_open(gateway) and not server.open)


async def test_a_client_that_stops_reading_without_leaving_is_let_go() -> None:
    async def flood(exchange: RawExchange) -> None:
        await exchange.write(HEAD)
        while True:
            await exchange.chunk(event("x" * 50_000))

    limit = timedelta(seconds=0.3)
    async with raw_server(flood) as server, served(server.port, client_limit=limit) as gateway:
        with socket.socket() as client:
            client.setblocking(False)
            await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", gateway.port))
            await asyncio.get_running_loop().sock_sendall(client, request(STREAM))
            await until_left(server, 1)
            await eventually(lambda: nothing_open(gateway))


@pytest.mark.process
async def test_a_thousand_clients_that_leave_leave_no_socket_behind() -> None:
    leaving = True

    async def script(exchange: RawExchange) -> None:
        await (endless if leaving else finished)(exchange)

    async with raw_server(script) as server, served(server.port) as gateway:
        for _ in range(20):
            async with anyio.create_task_group() as group:
                for number in range(50):
                    group.start_soon(_leave_alternately, gateway, number)
        await eventually(lambda: not server.open and not gateway.pool.open)
        assert server.left > 600
        leaving = False
        # On a busy machine most of them still stand in the queue of the listening socket: this one comes behind them.
        await exchange_with(gateway.port, STREAM, limit_s=60)
        raw = await exchange_with(gateway.port, STREAM)
        await eventually(lambda: nothing_open(gateway))
    assert payload(raw).endswith(DONE)


async def _leave_alternately(gateway: Served, number: int) -> None:
    """One of three after a few moments, wherever its request stands; the others once they have an event."""
    body, reset = STREAM if number % 3 else PLAIN, number % 2 == 0
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(request(body))
    if number % 3 == 1:
        await asyncio.sleep(number / 1000)
    else:
        await asyncio.wait_for(reader.readuntil(event("x")), 60)
    end(writer, reset=reset)


async def test_a_refused_request_leaves_the_connection_usable() -> None:
    async with raw_server(finished) as server, served(server.port, body_limit=100) as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        statuses = []
        for body in (b"x" * 5000, STREAM):
            writer.write(request(body))
            statuses.append((await reader.readuntil(b"\r\n\r\n"))[9:12])
            if body is not STREAM:
                await reader.readuntil(b"}}")
        writer.close()
    assert statuses == [b"413", b"200"]
