"""How does a test come to a request that is under way on a connection that was kept?"""

import asyncio
import hashlib
import re

from controller.gateway.shortcut import Shortcut
from tests.gateway.sockets import Served, eventually, request
from tests.gateway.test_endings import announced
from tests.gateway.world import CLIENT_KEY
from tests.support.raw_server import RawExchange, RawServer, Script

CLIENT_DIGEST = hashlib.sha256(CLIENT_KEY.encode()).hexdigest()
PLAIN = b'{"model":"m1","messages":[]}'
STREAM = PLAIN.replace(b"}", b',"stream":true}')
WHOLE = b'{"choices":[{"message":{"content":"hi"}}]}'


async def whole(exchange: RawExchange) -> None:
    await exchange.write(announced(len(WHOLE)) + WHOLE)


def after_one(script: Script) -> Script:
    """The first request is answered: afterwards a connection to the model server is kept."""
    asked = 0

    async def answer(exchange: RawExchange) -> None:
        nonlocal asked
        asked += 1
        await (whole if asked == 1 else script)(exchange)

    return answer


async def silent(exchange: RawExchange) -> None:
    await asyncio.sleep(60)


async def told(reader: asyncio.StreamReader) -> bytes:
    """One answer, or what came of it before the connection ended; without what differs each time."""
    head = b""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        if length is not None:
            head += await reader.readexactly(int(length[1]))
        elif b"chunked" in head:
            head += await reader.readuntil(b"\r\n0\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        head += error.partial
    return re.sub(rb"x-request-id: \S+", b"x-request-id: x", head)


async def three_after_another(gateway: Served) -> list[int]:
    """The statuses of as many answers on one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    statuses = []
    for _ in range(3):
        writer.write(request(PLAIN))
        statuses.append(int((await told(reader))[9:12]))
    writer.close()
    return statuses


async def asked_twice(gateway: Served) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """The first was answered, the second is on its way without a task."""
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(request(PLAIN))
    await told(reader)
    writer.write(request(PLAIN))
    await eventually(lambda: gateway.gateway.live == 1 and gateway.pool.open == 1)
    (exchange,) = gateway.gateway._inference.live
    assert isinstance(exchange._scope, Shortcut)
    return reader, writer


def left(gateway: Served, server: RawServer) -> tuple[int, ...]:
    inside = gateway.gateway
    return server.open, gateway.pool.open, inside.leases.open_requests, inside.live, inside.proxy.open
