"""What is told of an answer for which no task waits?"""

import asyncio

import pytest

from controller.http1 import Outgoing, Pool, WireError
from controller.http1.pool import Answer
from tests.gateway.sockets import eventually
from tests.support.raw_server import RawExchange, RawServer, Script, raw_server

HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"


class Told:
    def __init__(self) -> None:
        self.count = 0
        self._rang = asyncio.Event()

    def __call__(self) -> None:
        self.count += 1
        self._rang.set()

    async def again(self) -> None:
        await asyncio.wait_for(self._rang.wait(), 5)
        self._rang.clear()


def post(server: RawServer) -> Outgoing:
    return Outgoing(method="POST", url=f"http://127.0.0.1:{server.port}/a")


async def begun(pool: Pool, server: RawServer, told: Told) -> Answer:
    """The second request on one connection."""
    first = await pool.send(post(server).carrying(b"first"))
    await first.read(2)
    answer = pool.kept(post(server).url)
    assert answer is not None
    answer.write(post(server), b"second", told)
    return answer


async def whole(exchange: RawExchange) -> None:
    await exchange.write(HEAD + b"{}")


def by_halves(go_on: asyncio.Event) -> Script:
    """What answers the second request does so by halves, with this between them."""

    async def answer(exchange: RawExchange) -> None:
        await exchange.write(HEAD)
        if b"second" in exchange.request:
            await go_on.wait()
        await exchange.write(b"{}")

    return answer


async def test_each_of_its_pieces_until_it_is_whole() -> None:
    go_on = asyncio.Event()
    async with raw_server(by_halves(go_on)) as server:
        pool, told = Pool(), Told()
        answer = await begun(pool, server, told)
        assert (answer.status, answer.ended_well(), answer.still_short) == (0, False, True)
        await told.again()
        assert (answer.ended_well(), answer.still_short) == (False, True)
        go_on.set()
        await told.again()
        assert (answer.ended_well(), answer.still_short) == (True, False)
        assert (answer.status, answer.headers, answer.taken()) == (200, ((b"content-length", b"2"),), b"{}")
        answer.close()
        assert (pool.open, told.count) == (0, 2)
        pool.close()


async def test_that_it_ended_early() -> None:
    async def cut(exchange: RawExchange) -> None:
        await exchange.write(HEAD)
        if b"second" in exchange.request:
            return exchange.end()
        await exchange.write(b"{}")

    async with raw_server(cut) as server:
        pool, told = Pool(), Told()
        answer = await begun(pool, server, told)
        while answer.still_short:
            await told.again()
        assert not answer.ended_well()
        with pytest.raises(WireError):
            await answer.read(10)
        answer.close()
        assert pool.open == 0


async def test_nothing_once_it_is_closed_whatever_becomes_of_the_connection() -> None:
    closed = asyncio.Event()

    async def last(exchange: RawExchange) -> None:
        await whole(exchange)
        if b"second" in exchange.request:
            await closed.wait()
            exchange.end()

    async with raw_server(last) as server:
        pool, told = Pool(), Told()
        answer = await begun(pool, server, told)
        connection = answer._open()
        while not answer.ended_well():
            await told.again()
        answer.taken()
        answer.close()
        before = told.count
        closed.set()
        await eventually(lambda: not connection.usable)
        assert (told.count, pool.kept(post(server).url)) == (before, None)


async def test_nothing_once_a_task_goes_on_with_it() -> None:
    go_on = asyncio.Event()
    async with raw_server(by_halves(go_on)) as server:
        pool, told = Pool(), Told()
        answer = await begun(pool, server, told)
        await told.again()
        await answer.head()
        go_on.set()
        await eventually(answer.ended_well)
        assert await answer.read(2) == b"{}"
        assert told.count == 1
        pool.close()


async def test_a_closed_one_can_be_asked_nothing() -> None:
    async with raw_server(whole) as server:
        pool, told = Pool(), Told()
        answer = await begun(pool, server, told)
        answer.close()
        assert (answer.ended_well(), answer.still_short) == (False, False)
        with pytest.raises(RuntimeError, match="closed"):
            answer.taken()
        assert (pool.open, told.count) == (0, 0)


async def test_a_connection_that_was_taken_and_not_written_on_is_kept() -> None:
    async with raw_server(whole) as server:
        pool = Pool()
        await (await pool.send(post(server).carrying(b"first"))).read(2)
        answer = pool.kept(post(server).url)
        assert answer is not None
        assert (pool.open, pool.kept(post(server).url)) == (1, None)
        connection = answer._open()
        until = connection._deadline
        answer.close()
        answer.close()
        assert pool.open == 0
        assert connection._deadline == until  # its server counts from the exchange before, and closes soon after
        assert pool.kept(post(server).url) is not None
        assert server.connections == 1
        pool.close()
