"""What goes round the parser is what it would have made of it, however the bytes come."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.http1 import Disconnected, Later, Overdue, WireError
from controller.http1.chunks import size_of_chunk
from controller.http1.connection import Connection
from tests.support.virtual_time import run_virtual
from tests.test_http1 import CHUNKED

LIMIT = timedelta(seconds=10)


def framed(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(body), body)


class Socket(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None: ...

    def is_closing(self) -> bool:
        return self.closed

    def abort(self) -> None:
        self.closed = True

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class Pouring:
    """One body that is poured, and what came of it: `whole` went round the parser, `pieces` came out of it."""

    def __init__(self, takes: Callable[[bytes], bool] | None, full: Later | None = None) -> None:
        self.came: list[bytes] = []
        self.whole: list[bytes] = []
        self.pieces: list[bytes] = []
        self.ended: str | None = None
        self.heard_at = 0.0
        self._takes = takes
        self._full = full
        self._socket = Socket()
        self.connection = Connection(asyncio.get_running_loop())
        self.connection.connection_made(self._socket)
        self.connection.write(b"", b"", (LIMIT.total_seconds(), LIMIT.total_seconds()))

    def passed(self, chunk: bytes, size: int) -> bool:
        assert self._takes is not None
        if not self._takes(chunk):
            return False
        body = chunk[chunk.index(b"\r\n") + 2 : -2]
        assert len(body) == size
        self.heard_at = asyncio.get_running_loop().time()
        self.came.append(body)
        self.whole.append(body)
        return True

    def take(self, piece: bytes) -> Later | None:
        self.came.append(piece)
        self.pieces.append(piece)
        return self._full

    async def run(self) -> None:
        try:
            await self.connection.pour(self.take, None if self._takes is None else self)
            self.ended = "whole"
        except WireError as error:
            self.ended = f"{type(error).__name__}: {error}"

    def read(self, data: bytes) -> None:
        if not self._socket.closed:
            self.connection.data_received(data)

    def lost(self) -> None:
        self.connection.connection_lost(None)


async def poured(reads: list[bytes], takes: Callable[[bytes], bool] | None) -> Pouring:
    pouring = Pouring(takes)
    async with asyncio.TaskGroup() as group:
        group.create_task(pouring.run())
        await asyncio.sleep(0)
        for data in reads:
            pouring.read(data)
        await asyncio.sleep(0)
        pouring.lost()
    return pouring


def pour(reads: list[bytes], takes: Callable[[bytes], bool] | None) -> Pouring:
    return run_virtual(lambda: poured(reads, takes))


def always(chunk: bytes) -> bool:
    return True


BODIES = st.one_of(
    st.binary(min_size=1, max_size=30), st.sampled_from([b"5\r\nhello\r\n", b"\r\n", b"0\r\n\r\n", b"x" * 300])
)
ODD = st.sampled_from(
    [b"05\r\nhello\r\n", b"A\r\nabcdefghij\r\n", b"5;a=b\r\nhello\r\n", b"5", b"1", b"\r\n", b"0\r\n\r\n", b"zz\r\n"]
)
FRAMES = st.lists(st.one_of(BODIES.map(framed), BODIES.map(framed), ODD), min_size=1, max_size=8)


@given(FRAMES, st.lists(st.booleans(), min_size=9, max_size=9), st.lists(st.integers(0, 400), max_size=4), st.data())
def test_whatever_goes_round_the_parser_comes_as_out_of_it(
    frames: list[bytes], joined: list[bool], cuts: list[int], data: Any
) -> None:
    """Most are read as they were written, some two at once or in parts."""
    stream, at = CHUNKED, [0, len(CHUNKED)]
    for frame, together in zip([*frames, b"0\r\n\r\n"], joined, strict=False):
        stream += frame
        if not together:
            at.append(len(stream))
    ends = sorted({*at, len(stream), *(cut for cut in cuts if cut < len(stream))})
    reads = [stream[start:end] for start, end in pairwise(ends)]
    plain = pour(reads, None)
    found = pour(reads, lambda chunk: data.draw(st.booleans()))
    assert (b"".join(found.came), found.ended) == (b"".join(plain.came), plain.ended)


def test_all_whole_chunks_after_the_first_go_round_the_parser() -> None:
    bodies = [b"one", b"two" * 100, b"x" * 70_000, b"three"]
    found = pour([CHUNKED, *map(framed, bodies), b"0\r\n\r\n"], always)
    assert (found.pieces, found.whole, found.ended) == (bodies[:1], bodies[1:], "whole")


@pytest.mark.parametrize(
    "second",
    [
        b"05\r\nhello\r\n",
        b"A\r\nabcdefghij\r\n",
        b"5;a=b\r\nhello\r\n",
        framed(b"two") + framed(b"three"),
        framed(b"two")[:-1],
        b"5\nhello\r\n\r\n",
    ],
)
def test_what_is_framed_in_another_way_is_the_parsers(second: bytes) -> None:
    found = pour([CHUNKED, framed(b"one"), second], always)
    assert found.whole == []


def test_a_size_that_has_begun_is_not_forgotten() -> None:
    reads = [CHUNKED, framed(b"one") + b"1", b"5\r\nhello\r\n", b"z" * 12 + b"\r\n\r\n0\r\n\r\n"]
    found = pour(reads, always)
    assert (b"".join(found.came), found.whole) == (b"onehello\r\n" + b"z" * 12 + b"\r\n", [])


def test_a_chunk_within_a_chunk_is_its_words() -> None:
    found = pour([CHUNKED, framed(b"one") + b"8\r\n", framed(b"two"), b"\r\n0\r\n\r\n"], always)
    assert (found.came, found.whole, found.ended) == ([b"one", b"3\r\ntwo\r\n"], [], "whole")


def test_nothing_goes_round_the_parser_to_one_who_left() -> None:
    async def scene() -> list[bytes]:
        pouring = Pouring(always)
        task = asyncio.get_running_loop().create_task(pouring.run())
        await asyncio.sleep(0)
        for data in (CHUNKED, framed(b"one"), framed(b"two")):
            pouring.read(data)
        task.cancel()
        await asyncio.sleep(0.1)
        pouring.read(framed(b"three"))
        return pouring.came

    assert run_virtual(scene) == [b"one", b"two"]


def test_nothing_goes_round_the_parser_once_the_body_has_ended() -> None:
    found = pour([CHUNKED, framed(b"one"), framed(b"two"), b"0\r\n\r\n", framed(b"more")], always)
    assert found.came == [b"one", b"two"]


def test_nothing_goes_round_a_sink_that_asked_for_time() -> None:
    async def scene() -> list[list[bytes]]:
        free = asyncio.Event()

        async def wait() -> None:
            await free.wait()

        pouring = Pouring(always, wait)
        task = asyncio.get_running_loop().create_task(pouring.run())
        await asyncio.sleep(0)
        for data in (CHUNKED, framed(b"one"), framed(b"two")):
            pouring.read(data)
        await asyncio.sleep(0)
        pouring.read(framed(b"three"))
        before = list(pouring.came)
        free.set()
        await asyncio.sleep(0.1)
        task.cancel()
        return [before, pouring.came, pouring.whole]

    assert run_virtual(scene) == [[b"one"], [b"one", b"twothree"], []]


def test_what_goes_round_the_parser_is_heard_and_then_the_limit_counts_anew() -> None:
    async def scene() -> tuple[str | None, float, int]:
        pouring = Pouring(always)
        loop = asyncio.get_running_loop()
        began = loop.time()
        task = loop.create_task(pouring.run())
        await asyncio.sleep(0)
        pouring.read(CHUNKED)
        for _ in range(5):
            await asyncio.sleep(6)
            pouring.read(framed(b"word"))
        await task
        return pouring.ended, loop.time() - began, len(pouring.whole)

    ended, after, whole = run_virtual(scene)
    assert ended is not None
    assert ended.startswith(Overdue.__name__)
    assert (round(after), whole) == (40, 4)


def test_a_connection_that_ends_after_what_went_round_ended_early() -> None:
    found = pour([CHUNKED, framed(b"one"), framed(b"two")], always)
    assert found.ended == f"{Disconnected.__name__}: the connection ended early"


@given(st.integers(1, 200_000))
def test_a_chunk_of_any_length_is_known(size: int) -> None:
    assert size_of_chunk(framed(b"x" * size)) == size


@pytest.mark.parametrize(
    "data", [b"", b"0\r\n\r\n", b"-2\r\n", b"x" * 21, b"10\r\n" + b"x" * 15 + b"\r\n", b"3\r\none\n\n"]
)
def test_nothing_else_is_taken_for_a_chunk(data: bytes) -> None:
    assert size_of_chunk(data) == 0
