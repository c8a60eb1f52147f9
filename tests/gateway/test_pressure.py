"""How much does a gateway take in that nobody takes from it? On real sockets: streams, bodies, and callers who wait."""

import asyncio
import json
import socket
import time
from datetime import timedelta

import pytest

from tests.gateway.sockets import eventually, request, served
from tests.gateway.stub_server import event
from tests.gateway.test_endings import HEAD, PLAIN, STREAM, finished, leave
from tests.processes.children import until
from tests.support.fake_daemon import route
from tests.support.raw_server import RawExchange, raw_server

MIB = 1 << 20
KERNEL_BYTES = 256 * 1024
"""What is asked of each socket's buffers; the kernel doubles it."""
HELD_MOST = 24 * MIB
"""Four buffers of the kernel, which grow to some 9 MiB together on loopback, ours, and room."""


async def slow_client(port: int, body: bytes) -> socket.socket:
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, KERNEL_BYTES)
    client.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(client, ("127.0.0.1", port))
    await loop.sock_sendall(client, request(body))
    return client


@pytest.mark.parametrize("body", [STREAM, PLAIN], ids=["stream", "plain"])
async def test_a_client_that_takes_nothing_stops_the_model_server_and_fills_no_memory(body: bytes) -> None:
    written = 0

    async def flood(exchange: RawExchange) -> None:
        nonlocal written
        await exchange.write(HEAD if body is STREAM else HEAD.replace(b"text/event-stream", b"application/json"))
        piece = event("x" * 60_000)
        while True:
            await exchange.chunk(piece)
            written += len(piece)

    async with raw_server(flood) as server, served(server.port) as gateway:
        client = await slow_client(gateway.port, body)
        with client:
            await _until_still(lambda: written)
            held = written
            assert MIB // 8 < held < HELD_MOST
            taken = 0
            while taken < 4 * MIB:  # it goes on as the client does
                taken += len(await asyncio.get_running_loop().sock_recv(client, MIB))
            await eventually(lambda: written > held)
            await _until_still(lambda: written)
            assert written - taken < HELD_MOST
        await eventually(lambda: gateway.gateway.live == 0)


async def _until_still(read: object) -> None:
    """It has not moved for a while."""
    assert callable(read)
    seen, since = None, 0
    for _ in range(400):
        await asyncio.sleep(0.01)
        now = read()
        since = since + 1 if now == seen else 0
        seen = now
        if since >= 30 and now:
            return
    raise AssertionError(f"it does not come to a rest: {seen}")


async def test_a_model_server_that_takes_nothing_holds_up_its_own_request_alone() -> None:
    """A body is bounded, and kept by whoever sends it to a server that does not read."""

    async def deaf(exchange: RawExchange) -> None:
        await asyncio.sleep(60)

    body = json.dumps({"model": "m1", "messages": [{"role": "user", "content": "x" * (8 * MIB)}]}).encode()
    async with raw_server(deaf) as server, served(server.port) as gateway:
        _, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(request(body))
        await writer.drain()
        await eventually(lambda: gateway.pool.open == 1)
        writer.close()
        await eventually(lambda: gateway.pool.open == 0 and gateway.gateway.live == 0)


@pytest.mark.parametrize("reset", [False, True], ids=["FIN", "RST"])
@pytest.mark.parametrize("body", [STREAM, PLAIN], ids=["stream", "plain"])
async def test_a_client_that_leaves_while_it_waits_leaves_the_queue(body: bytes, reset: bool) -> None:
    async with raw_server(finished) as server, served(server.port) as gateway:
        await gateway.change("m1", phase="off", routes=[], queue=1)
        await leave(gateway, body, reset=reset, once=lambda: gateway.gateway.rooms.waiting("m1") == 1)
        await eventually(lambda: gateway.gateway.rooms.waiting("m1") == 0 and gateway.gateway.live == 0)
        await eventually(lambda: len(gateway.daemon.left) == 1)


@pytest.mark.parametrize(("queue", "good"), [(256, 200), (64, 64)])
async def test_two_hundred_cold_callers_on_sockets(queue: int, good: int) -> None:
    told: list[bytes] = []

    async def answer(port: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request(PLAIN))
        head = await reader.readuntil(b"\r\n\r\n")
        writer.close()
        told.append(head)
        return head

    async def serve(exchange: RawExchange) -> None:
        await exchange.write(
            b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 14\r\n\r\n{"choices":[]}'
        )

    async with raw_server(serve) as server, served(server.port) as gateway:
        await gateway.change("m1", phase="off", routes=[], queue=queue)
        began = time.process_time()
        asked = [asyncio.create_task(answer(gateway.port)) for _ in range(200)]
        await until(lambda: len(told) == 200 - good, within=60, what="those who are told that the queue is full")
        cpu_s = time.process_time() - began  # of them and us: another process takes as much of the clock as it likes
        await until(lambda: gateway.gateway.rooms.waiting("m1") == good, within=60, what="those who wait")
        assert [head[9:12] for head in told] == [b"429"] * (200 - good)
        assert all(b"retry-after: " in head for head in told)
        assert cpu_s < 1
        gateway.daemon.change("m1", phase="ready", routes=[route("d1", f"http://127.0.0.1:{server.port}/v1/")])
        answers = await asyncio.gather(*asked)
        statuses = [head[9:12] for head in answers]
        assert (statuses.count(b"200"), statuses.count(b"429")) == (good, 200 - good)
        assert len(gateway.daemon.starts) == 1
        assert len(server.requests) == good


async def test_a_stream_that_falls_silent_is_cut_at_the_config_s_limit_on_a_socket() -> None:
    async def says_one(exchange: RawExchange) -> None:
        await exchange.write(HEAD)
        await exchange.chunk(event("one"))
        await asyncio.sleep(60)

    async with raw_server(says_one) as server, served(server.port, silence_limit=timedelta(seconds=0.2)) as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(request(STREAM))
        raw = await asyncio.wait_for(reader.read(), 5)
        writer.close()
        await eventually(lambda: server.left == 1 and gateway.pool.open == 0)
    assert (raw.count(b"upstream_timeout"), raw.endswith(b"0\r\n\r\n")) == (1, False)
