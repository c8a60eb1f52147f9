"""What does our own server refuse to read, and what becomes of the request before and behind it?"""

import asyncio
from typing import Any

import pytest

from controller.http1.asked import Receive, Scope, Send
from controller.http1.reading import HEAD_BYTES, HEADERS_MOST
from tests.support.standing import GET, POST, answer, answers, body_of, echo, said, standing


@pytest.fixture(scope="module", params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """Both loops: they write, close and reset in ways of their own."""
    return "asyncio", {"use_uvloop": request.param}


BAD = {
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01",
    "another version": b"GET / HTTP/2.0\r\n\r\n",
    "no version": b"GET /\r\n\r\n",
    "unknown method": b"FETCH / HTTP/1.1\r\n\r\n",
    "a tunnel": b"CONNECT a:1 HTTP/1.1\r\nhost: a\r\n\r\n",
    "bytes in the target": b"GET /\xe4 HTTP/1.1\r\nhost: x\r\n\r\n",
    "length and chunks": POST + b"content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and length": POST + b"transfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n0\r\n\r\n",
    "two lengths": POST + b"content-length: 3\r\ncontent-length: 4\r\n\r\nabcd",
    "a list of lengths": POST + b"content-length: 3, 3\r\n\r\nabc",
    "a signed length": POST + b"content-length: +3\r\n\r\nabc",
    "a length of no number": POST + b"content-length: 0x3\r\n\r\nabc",
    "a length beyond all": POST + b"content-length: 99999999999999999999\r\n\r\nabc",
    "chunks not last": POST + b"transfer-encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
    "no chunks": POST + b"transfer-encoding: identity\r\n\r\nabc",
    "almost chunks": POST + b"transfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
    "a space before the colon": POST + b"content-length : 3\r\n\r\nabc",
    "a folded line": POST + b"a: b\r\n content-length: 3\r\n\r\nabc",
    "a bare line feed": b"GET / HTTP/1.1\r\nhost: x\na: b\r\n\r\n",
    "a bare return": b"GET / HTTP/1.1\r\nhost: x\ra: b\r\n\r\n",
    "a null": b"GET / HTTP/1.1\r\nhost: x\x00y\r\n\r\n",
    "a negative chunk": POST + b"transfer-encoding: chunked\r\n\r\n-3\r\nabc\r\n0\r\n\r\n",
    "a chunk beyond all": POST + b"transfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\nabc\r\n0\r\n\r\n",
    "a chunk of another size": POST + b"transfer-encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
    "chunks by line feeds": POST + b"transfer-encoding: chunked\r\n\r\n3\nabc\n0\n\n",
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
async def test_what_cannot_be_read_in_one_way_is_refused_behind_what_came_before(
    bad: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.sleep(0.02)
        await echo(scope, receive, send)

    async with standing(slow) as place:
        raw = await said(place.port, GET + bad + GET)
    assert [status for status, _, _ in answers(raw)] == [200, 400]
    assert answers(raw)[1][1]["connection"] == "close"
    assert "request_" not in capsys.readouterr().out


async def test_a_body_that_becomes_unreadable_ends_its_request_with_a_400() -> None:
    got: list[bytes | None] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        got.append(await body_of(receive))
        await answer(send, b"{}")

    async with standing(app) as place:
        reader, writer = await asyncio.open_connection("127.0.0.1", place.port)
        writer.write(POST + b"transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n")
        await asyncio.sleep(0.01)
        writer.write(b"x\r\n" + GET)
        assert [status for status, _, _ in answers(await reader.read())] == [400]
        await asyncio.sleep(0.01)
        assert got == [None], "the app hears of it before its client leaves"
        writer.close()


async def test_a_body_that_becomes_unreadable_after_its_answer_ends_the_connection() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await answer(send, b"{}")

    async with standing(app) as place:
        raw = await said(place.port, POST + b"transfer-encoding: chunked\r\n\r\n", b"x\r\n", GET)
    assert [status for status, _, _ in answers(raw)] == [200]


@pytest.mark.parametrize("size", [HEAD_BYTES + 1, 4 * HEAD_BYTES])
@pytest.mark.parametrize("line", [b"\r\na: %b", b"\r\n%b: a"])
async def test_a_head_that_is_too_long_is_refused_whether_it_ends_or_not(line: bytes, size: int) -> None:
    head = b"GET / HTTP/1.1\r\nhost: x" + line % (b"x" * size)
    async with standing(echo) as place:
        for raw in (await said(place.port, head + b"\r\n\r\n"), await said(place.port, head)):
            assert [status for status, _, _ in answers(raw)] == [431]


async def test_a_target_that_is_too_long_is_refused() -> None:
    async with standing(echo) as place:
        raw = await said(place.port, b"GET /" + b"x" * HEAD_BYTES + b" HTTP/1.1\r\nhost: x\r\n\r\n")
    assert [status for status, _, _ in answers(raw)] == [431]


@pytest.mark.parametrize(("count", "status"), [(HEADERS_MOST, 200), (HEADERS_MOST + 1, 431)])
async def test_a_head_may_have_so_many_lines_and_no_more(count: int, status: int) -> None:
    lines = b"".join(b"a%d: b\r\n" % number for number in range(count - 1))
    async with standing(echo) as place:
        raw = await said(place.port, b"GET / HTTP/1.1\r\nconnection: close\r\n" + lines + b"\r\n")
    assert [found for found, _, _ in answers(raw)] == [status]


@pytest.mark.parametrize(
    "endless", [b"0\r\n" + b"a: b\r\n" * 20_000, b"0\r\na: " + b"x" * 100_000, b"3;" + b"x" * 100_000]
)
async def test_what_stands_between_chunks_and_behind_them_is_bounded_too(endless: bytes) -> None:
    async with standing(echo) as place:
        raw = await said(place.port, POST + b"transfer-encoding: chunked\r\n\r\n", endless, b"x" * 1000)
    assert [status for status, _, _ in answers(raw)] == [431]
