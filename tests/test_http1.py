"""What a request through our own client comes to, against servers that behave and servers that do not."""

import asyncio
import gc
import socket
import weakref
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from controller.http1 import Disconnected, NotConnected, Outgoing, Overdue, Pool, TooLarge
from controller.http1.connection import BUFFER_BYTES, Connection
from tests.support.raw_server import RawExchange, RawServer, Script, raw_server
from tests.support.virtual_time import run_virtual

OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
SHORT = timedelta(milliseconds=100)


@pytest.fixture(scope="module", params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """Both loops: they write, close and reset in ways of their own."""
    return "asyncio", {"use_uvloop": request.param}


def post(server: RawServer, body: bytes = b"{}", *, limit: timedelta = timedelta(seconds=5)) -> Outgoing:
    return Outgoing(
        method="POST",
        url=f"http://127.0.0.1:{server.port}/v1/x?a=b",
        headers=((b"x-one", b"1"),),
        body=body,
        head_limit=limit,
        silence_limit=limit,
    )


async def answer_ok(exchange: RawExchange) -> None:
    await exchange.write(OK)


async def body_of(pool: Pool, request: Outgoing) -> bytes:
    answer = await pool.send(request)
    try:
        return await answer.read(1_000_000)
    finally:
        answer.close()


async def test_a_request_is_written_once_with_its_headers_and_length() -> None:
    async with raw_server(answer_ok) as server:
        assert await body_of(Pool(), post(server)) == b"{}"
    head = b"POST /v1/x?a=b HTTP/1.1\r\nhost: 127.0.0.1:%d\r\nx-one: 1\r\ncontent-length: 2\r\n\r\n{}" % server.port
    assert server.requests == [head]


async def test_a_connection_is_used_again_after_a_whole_answer() -> None:
    async with raw_server(answer_ok) as server:
        pool = Pool()
        for _ in range(3):
            await body_of(pool, post(server))
    assert (server.connections, len(server.requests), pool.open) == (1, 3, 0)


async def test_a_connection_whose_answer_was_not_read_is_not_used_again() -> None:
    async def long_answer(exchange: RawExchange) -> None:
        await exchange.write(CHUNKED)
        await exchange.chunk(b"x")
        await asyncio.sleep(10)

    async with raw_server(long_answer) as server:
        pool = Pool()
        for _ in range(2):
            answer = await pool.send(post(server))
            answer.close()
            answer.close()
        await asyncio.sleep(0.05)
    assert (server.connections, server.open, server.left, pool.open) == (2, 0, 2, 0)


async def test_a_connection_that_the_server_closed_is_not_used_again() -> None:
    async def answer_and_close(exchange: RawExchange) -> None:
        await exchange.write(OK)
        exchange.end()

    async with raw_server(answer_and_close) as server:
        pool = Pool()
        await body_of(pool, post(server))
        await asyncio.sleep(0.02)
        await body_of(pool, post(server))
    assert server.connections == 2


async def test_of_a_server_that_is_gone_nothing_is_kept_once_there_is_another() -> None:
    """Machines come and go, each under an address of its own."""

    async def answer_and_close(exchange: RawExchange) -> None:
        await exchange.write(OK)
        exchange.end()

    pool = Pool()
    before = weakref.WeakSet(_connections())  # by its id one that is gone may be taken for a new one
    async with raw_server(answer_and_close) as gone, raw_server(answer_ok) as another:
        await asyncio.gather(*(body_of(pool, post(gone)) for _ in range(3)))
        made = weakref.WeakSet(each for each in _connections() if each not in before)
        assert len(made) == 3
        await asyncio.sleep(0.02)
        await body_of(pool, post(another))
        await body_of(pool, post(another))
        gc.collect()
    assert (len(made), another.connections) == (0, 1)


def _connections() -> list[Connection]:
    return [each for each in gc.get_objects() if isinstance(each, Connection)]


async def test_nothing_listening_is_not_connected() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        request = Outgoing(method="GET", url=f"http://127.0.0.1:{free.getsockname()[1]}/")
        with pytest.raises(NotConnected):
            await Pool().send(request)


async def test_a_name_that_does_not_exist_and_a_socket_that_is_not_there_are_not_connected(tmp_path: Path) -> None:
    for url in ("http://nowhere.invalid/", f"unix:{tmp_path}/none.sock:/v1"):
        with pytest.raises(NotConnected):
            await Pool().send(Outgoing(method="GET", url=url))


async def test_a_unix_socket_is_reached_by_its_path(tmp_path: Path) -> None:
    seen: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(OK)
        writer.close()

    path = str(tmp_path / "api.sock")
    async with await asyncio.start_unix_server(serve, path):
        assert await body_of(Pool(), Outgoing(method="GET", url=f"unix:{path}:/v1/status")) == b"{}"
    assert seen[0].startswith(b"GET /v1/status HTTP/1.1\r\n")


async def reset_at_once(exchange: RawExchange) -> None:
    exchange.reset()


async def end_at_once(exchange: RawExchange) -> None:
    exchange.end()


async def speak_nonsense(exchange: RawExchange) -> None:
    await exchange.write(b"220 mail.example ESMTP\r\n")


@pytest.mark.parametrize("script", [reset_at_once, end_at_once, speak_nonsense])
async def test_an_ending_before_the_head_is_disconnected_and_never_sent_again(
    script: Script,
) -> None:
    async with raw_server(script) as server:
        pool = Pool()
        with pytest.raises(Disconnected) as caught:
            await pool.send(post(server))
        await asyncio.sleep(0.02)
    assert not caught.value.got_head
    assert (len(server.requests), pool.open) == (1, 0)


async def reset_in_body(exchange: RawExchange) -> None:
    await exchange.write(CHUNKED)
    await exchange.chunk(b"one")
    await asyncio.sleep(0.02)
    exchange.reset()


async def end_in_body(exchange: RawExchange) -> None:
    await exchange.write(CHUNKED)
    await exchange.chunk(b"one")
    exchange.end()


async def malformed_chunk(exchange: RawExchange) -> None:
    await exchange.write(CHUNKED)
    await exchange.chunk(b"one")
    await exchange.write(b"zz\r\nrubbish")


async def short_of_its_length(exchange: RawExchange) -> None:
    await exchange.write(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\none")
    exchange.end()


@pytest.mark.parametrize("script", [reset_in_body, end_in_body, malformed_chunk, short_of_its_length])
async def test_a_body_that_does_not_end_as_announced_is_disconnected(
    script: Script,
) -> None:
    async with raw_server(script) as server:
        pool = Pool()
        answer = await pool.send(post(server))
        pieces = []
        with pytest.raises(Disconnected) as caught:
            async for piece in answer.chunks():
                pieces.append(piece)
        answer.close()
    assert (b"".join(pieces), caught.value.got_head, pool.open) == (b"one", True, 0)


async def test_a_body_without_a_length_ends_with_its_connection() -> None:
    async def until_close(exchange: RawExchange) -> None:
        await exchange.write(b"HTTP/1.1 200 OK\r\n\r\nall of it")
        exchange.end()

    async with raw_server(until_close) as server:
        assert await body_of(Pool(), post(server)) == b"all of it"


async def test_a_second_answer_is_not_taken_for_the_next_requests() -> None:
    async def answer_twice(exchange: RawExchange) -> None:
        await exchange.write(OK + OK)

    async with raw_server(answer_twice) as server:
        pool = Pool()
        assert await body_of(pool, post(server)) == b"{}"
        assert await body_of(pool, post(server)) == b"{}"
    assert server.connections == 2


async def test_an_interim_answer_is_passed_over() -> None:
    async def interim(exchange: RawExchange) -> None:
        await exchange.write(b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + OK)

    async with raw_server(interim) as server:
        answer = await Pool().send(post(server))
        assert (answer.status, [name for name, _ in answer.headers]) == (200, [b"content-type", b"content-length"])
        answer.close()


async def test_a_server_that_says_nothing_is_overdue() -> None:
    async def silent(exchange: RawExchange) -> None:
        await asyncio.sleep(10)

    async with raw_server(silent) as server:
        pool = Pool()
        with pytest.raises(Overdue) as caught:
            await pool.send(post(server, limit=SHORT))
        await asyncio.sleep(0.05)
    assert not caught.value.got_head
    assert (server.open, pool.open) == (0, 0)


async def test_a_server_that_falls_silent_is_overdue_after_its_head() -> None:
    async def falls_silent(exchange: RawExchange) -> None:
        await exchange.write(CHUNKED)
        await exchange.chunk(b"x")
        await asyncio.sleep(10)

    async with raw_server(falls_silent) as server:
        answer = await Pool().send(replace(post(server), head_limit=None, silence_limit=SHORT))
        pieces = []
        with pytest.raises(Overdue) as caught:
            async for piece in answer.chunks():
                pieces.append(piece)
        answer.close()
    assert (b"".join(pieces), caught.value.got_head) == (b"x", True)


class Line(asyncio.Transport):
    """A transport that takes everything and says nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.closed = False

    def write(self, data: object) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.closed

    def abort(self) -> None:
        self.closed = True


HEAD_LIMIT, SILENCE_LIMIT = timedelta(seconds=600), timedelta(seconds=120)


@pytest.mark.parametrize(
    ("said_at", "overdue_at"),
    [
        ([], 600.0),
        ([(599.9, CHUNKED)], 600.0),  # a head alone says nothing
        ([(0.1, CHUNKED)], 600.0),
        ([(0.1, CHUNKED), (599.9, b"1\r\nx\r\n")], 719.9),
        ([(1.0, CHUNKED + b"1\r\nx\r\n"), (120.9, b"1\r\nx\r\n"), (240.8, b"1\r\nx\r\n")], 360.8),
    ],
)
def test_the_limits_count_to_the_first_byte_of_the_body_and_then_between_two(
    said_at: list[tuple[float, bytes]], overdue_at: float
) -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        connection = Connection(loop)
        connection.connection_made(Line())
        connection.write(b"", b"", (HEAD_LIMIT.total_seconds(), SILENCE_LIMIT.total_seconds()))
        for at, data in said_at:
            loop.call_at(at, connection.data_received, data)
        with pytest.raises(Overdue):
            await connection.head()
            while True:
                await connection.piece()
        return loop.time()

    assert round(run_virtual(main), 3) == overdue_at


async def test_a_slow_reader_stops_the_server_and_is_no_silence() -> None:
    written = 0

    async def flood(exchange: RawExchange) -> None:
        nonlocal written
        await exchange.write(CHUNKED)
        for _ in range(2000):
            await exchange.chunk(b"x" * 10_000)
            written += 10_000
        await exchange.write(b"0\r\n\r\n")

    async with raw_server(flood) as server:
        answer = await Pool().send(replace(post(server), silence_limit=SHORT))
        chunks = answer.chunks()
        await anext(chunks)
        await asyncio.sleep(0.3)
        assert written < 20_000_000 - BUFFER_BYTES
        size = 0
        async for piece in chunks:
            size += len(piece)
        answer.close()
    assert size > 19_000_000


async def test_a_body_beyond_the_readers_limit_is_cut_off() -> None:
    async def flood(exchange: RawExchange) -> None:
        await exchange.write(CHUNKED)
        while True:
            await exchange.chunk(b"x" * 1000)

    async with raw_server(flood) as server:
        answer = await Pool().send(post(server))
        with pytest.raises(TooLarge):
            await answer.read(10_000)
        await asyncio.sleep(0.05)
    assert server.open == 0


async def test_a_cancelled_request_closes_its_connection() -> None:
    async def silent(exchange: RawExchange) -> None:
        await asyncio.sleep(10)

    async with raw_server(silent) as server:
        pool = Pool()
        task = asyncio.create_task(pool.send(post(server)))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0.05)
    assert (server.open, pool.open) == (0, 0)


async def test_a_large_body_arrives_whole() -> None:
    async with raw_server(answer_ok) as server:
        await body_of(Pool(), post(server, b"y" * 3_000_000))
    assert server.requests[0].endswith(b"y" * 3_000_000)


@pytest.mark.parametrize("url", ["ftp://x/", "http://", "x", "http://user:word@host/"])
async def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="address"):
        await Pool().send(Outgoing(method="GET", url=url))


async def test_a_header_cannot_smuggle_a_line() -> None:
    async with raw_server(answer_ok) as server:
        request = Outgoing(
            method="GET", url=f"http://127.0.0.1:{server.port}/", headers=((b"authorization", b"a\r\nb: c"),)
        )
        pool = Pool()
        with pytest.raises(ValueError, match="one line"):
            await pool.send(request)
    assert pool.open == 0
