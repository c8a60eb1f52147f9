"""What of a body comes into a sink, when, and what ends the pouring?"""

import asyncio
from typing import Any

import anyio
import pytest

from controller.http1 import Disconnected, Later, Pool
from controller.http1.connection import BUFFER_BYTES
from tests.support.raw_server import RawExchange, raw_server
from tests.test_http1 import CHUNKED, post


@pytest.fixture(scope="module", params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": request.param}


async def some_pieces(exchange: RawExchange) -> None:
    await exchange.write(CHUNKED)
    for number in range(20):
        await exchange.chunk(b"%d," % number)
        await asyncio.sleep(0.001)
    await exchange.write(b"0\r\n\r\n")


WHOLE = b"".join(b"%d," % number for number in range(20))


async def test_all_pieces_come_in_order_and_the_connection_is_used_again() -> None:
    async with raw_server(some_pieces) as server:
        pool, taken = Pool(), list[bytes]()
        for _ in range(2):
            answer = await pool.send(post(server))
            await answer.pour(taken.append)
            answer.close()
    assert (b"".join(taken), server.connections, pool.open) == (WHOLE * 2, 1, 0)


async def test_a_sink_that_asks_for_time_gets_no_piece_meanwhile_and_loses_none() -> None:
    taken, busy = list[bytes](), False

    async def rest() -> None:
        nonlocal busy
        busy = True
        await asyncio.sleep(0.004)
        busy = False

    def sink(piece: bytes) -> Later | None:
        assert not busy
        taken.append(piece)
        return rest if len(taken) % 2 else None

    async with raw_server(some_pieces) as server:
        await (await Pool().send(post(server))).pour(sink)
    assert b"".join(taken) == WHOLE


async def test_a_sink_that_takes_its_time_stops_the_server() -> None:
    written = 0

    async def flood(exchange: RawExchange) -> None:
        nonlocal written
        await exchange.write(CHUNKED)
        while True:
            await exchange.chunk(b"x" * 60_000)
            written += 60_000

    async with raw_server(flood) as server:
        answer = await Pool().send(post(server))
        with anyio.move_on_after(0.3):
            await answer.pour(lambda piece: anyio.sleep_forever)
        stopped_at = written
        await asyncio.sleep(0.05)
        assert written == stopped_at < 12_000_000 + BUFFER_BYTES
        answer.close()


async def test_what_a_sink_raises_ends_the_pouring() -> None:
    taken = list[bytes]()

    def sink(piece: bytes) -> None:
        taken.append(piece)
        if b"7," in piece:
            raise ValueError("enough")

    async with raw_server(some_pieces) as server:
        pool = Pool()
        answer = await pool.send(post(server))
        with pytest.raises(ValueError, match="enough"):
            await answer.pour(sink)
        had = len(taken)
        await asyncio.sleep(0.01)
        answer.close()
        assert (len(taken), pool.open) == (had, 0)


async def test_a_body_that_breaks_off_comes_as_far_as_it_got() -> None:
    async def broken(exchange: RawExchange) -> None:
        await exchange.write(CHUNKED)
        await exchange.chunk(b"one")
        await asyncio.sleep(0.01)
        await exchange.write(b"3\r\ntwo\r\nnonsense\r\n")

    taken = list[bytes]()
    async with raw_server(broken) as server:
        answer = await Pool().send(post(server))
        with pytest.raises(Disconnected):
            await answer.pour(taken.append)
        answer.close()
    assert b"".join(taken) == b"onetwo"


async def test_nothing_comes_after_the_one_who_poured_was_cancelled() -> None:
    taken = list[bytes]()
    async with raw_server(some_pieces) as server:
        answer = await Pool().send(post(server))
        with anyio.move_on_after(0.005):
            await answer.pour(taken.append)
        had = len(taken)
        await asyncio.sleep(0.01)
        answer.close()
    assert len(taken) == had < 20
