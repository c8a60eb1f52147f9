"""Does a plain request end without a task of its own as it does with one, whatever becomes of it?"""

import asyncio
import gc
import json
import sys
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from controller.gateway.exchange import Exchange
from controller.gateway.passage import Passage
from controller.gateway.shortcut import Shortcut
from controller.http1.accepted import Accepted, Door, Limits
from controller.http1.asked import Asked
from tests.gateway.kept import PLAIN, STREAM, WHOLE, after_one, asked_twice, left, silent, told, whole
from tests.gateway.sockets import Served, eventually, request, served
from tests.gateway.stub_server import DONE, event
from tests.gateway.test_endings import HEAD, announced, end, finished
from tests.support.fake_daemon import route
from tests.support.raw_server import RawExchange, Script, raw_server

LONG = b'{"choices":"' + b"x" * 300_000 + b'"}'
QUICK = timedelta(seconds=1)
LIMITS = {"silent": {"head_limit": QUICK}, "silent in the body": {"silence_limit": QUICK}}
"""Those that end by a limit end soon; all others, but for the answer before it, have the time that they need."""


@pytest.fixture(scope="module", params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": request.param}


def in_pieces(*pieces: bytes, end: bool = False) -> Script:
    async def answer(exchange: RawExchange) -> None:
        for piece in pieces:
            await exchange.write(piece)
            await asyncio.sleep(0.01)
        if end:
            exchange.end()

    return answer


async def reset(exchange: RawExchange) -> None:
    exchange.reset()


def complaint(status: bytes, kind: bytes, body: bytes) -> bytes:
    head = b"HTTP/1.1 %b\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n"
    return head % (status, kind, len(body)) + body


JSON = b"application/json"
REFUSED = complaint(b"400 Bad Request", JSON, b'{"error":"no"}')
CHUNKED = HEAD.replace(b"text/event-stream", JSON)
ABORTED = b'{"choices":[{"finish_reason":"abort"}]}'
QUOTES_ABORT = b'{"choices":[{"message":{"content":"\\"abort\\""}}]}'
ANSWERS = {
    "whole": in_pieces(announced(len(WHOLE)) + WHOLE),
    "head first": in_pieces(announced(len(WHOLE)), WHOLE),
    "head in two": in_pieces(announced(len(WHOLE))[:20], announced(len(WHOLE))[20:] + WHOLE),
    "body in three": in_pieces(announced(len(WHOLE)) + WHOLE[:5], WHOLE[5:9], WHOLE[9:]),
    "empty": in_pieces(announced(0)),
    "no content": in_pieces(b"HTTP/1.1 204 No Content\r\ncontent-type: application/json\r\n\r\n"),
    "long": in_pieces(announced(len(LONG)) + LONG),
    "chunks": in_pieces(CHUNKED + b"%x\r\n%b\r\n0\r\n\r\n" % (len(WHOLE), WHOLE)),
    "chunks in three": in_pieces(CHUNKED, b"%x\r\n%b\r\n" % (len(WHOLE), WHOLE), b"0\r\n\r\n"),
    "no length": in_pieces(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n", WHOLE, end=True),
    "the last": in_pieces(announced(len(WHOLE)).replace(b"OK\r\n", b"OK\r\nconnection: close\r\n") + WHOLE, end=True),
    "interim": in_pieces(b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n", announced(len(WHOLE)) + WHOLE),
    "other headers": in_pieces(announced(len(WHOLE)).replace(b"OK\r\n", b"OK\r\nset-cookie: a\r\n") + WHOLE),
    "aborted": in_pieces(announced(len(ABORTED)) + ABORTED),
    "quotes abort": in_pieces(announced(len(QUOTES_ABORT)) + QUOTES_ABORT),
    "no JSON": in_pieces(announced(9) + b'"abort" {'),
    "events": in_pieces(HEAD, *(b"%x\r\n%b\r\n" % (len(e), e) for e in (event("x", "stop"), DONE)), b"0\r\n\r\n"),
    "events at once": in_pieces(announced(len(DONE)).replace(JSON, b"text/event-stream") + DONE),
    "400": in_pieces(complaint(b"400 Bad Request", JSON, b'{"error":{"message":"no"}}')),
    "400 in two": in_pieces(REFUSED[:-5], REFUSED[-5:]),
    "401": in_pieces(complaint(b"401 Unauthorized", JSON, b'{"error":"key"}')),
    "500 in text": in_pieces(complaint(b"500 Internal Server Error", b"text/plain", b"Internal Server Error")),
    "page": in_pieces(complaint(b"200 OK", b"text/html", b"<html>not up</html>")),
    "524": in_pieces(complaint(b"524 A Timeout Occurred", b"text/html", b"<html>524</html>")),
    "reset": reset,
    "end": in_pieces(end=True),
    "end in the head": in_pieces(announced(9)[:20], end=True),
    "end in the body": in_pieces(announced(9) + b"{", end=True),
    "no HTTP": in_pieces(b"SSH-2.0-x\r\n\r\n"),
    "more than announced": in_pieces(announced(2) + b"{}{}"),
    "two answers": in_pieces((announced(2) + b"{}") * 2),
    "silent": silent,
    "silent in the body": in_pieces(announced(9) + b"{"),
}

NOT_HEARD = frozenset(
    {"empty", "no content", "401", "page", "524", "reset", "end", "end in the head", "no HTTP", "silent"}
)
"""No byte of a model's own came: the machine was not used by that."""

Account = dict[str, Any]


def accounts(gateway: Served, lines: Sequence[str]) -> Account:
    """Everything that is left, counted or written of what was asked."""
    numbers = gateway.gateway.tally.models["m1"]
    written = [json.loads(line) for line in lines]
    times = {"request", "at", "duration_seconds", "first_byte_seconds"}
    return {
        "open": (gateway.pool.open, gateway.gateway.leases.open_requests, gateway.gateway.live),
        "upstream": gateway.gateway.proxy.open,
        "ended": dict(numbers.ended),
        "failures": dict(numbers.failures),
        "bytes": (numbers.bytes_in, numbers.bytes_out),
        "counts": (sum(numbers.durations.counts), sum(numbers.first_bytes.counts)),
        "clients": dict(gateway.gateway.tally.clients),
        "lines": [{name: line[name] for name in line if name not in times} for line in written],
        "reports": [report["kind"] for report in gateway.daemon.reports],
    }


async def after_a_first(name: str, *, direct: bool) -> tuple[bytes, Account, int, int]:
    """The second answer on one connection, the accounts, and how many requests and connections the model server saw."""
    lines: list[str] = []
    async with (
        raw_server(after_one(ANSWERS[name])) as server,
        served(server.port, direct=direct, access_log=lines.extend, **LIMITS.get(name, {})) as gateway,
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(request(PLAIN))
        await told(reader)
        (lease,) = gateway.gateway.leases._leases.values()
        lease.last_byte_at, lease._bytes_seen = None, False
        writer.write(request(PLAIN))
        raw = await asyncio.wait_for(told(reader), 5)
        writer.close()
        await eventually(lambda: len(lines) == 2 and not gateway.gateway.live)
        heard = lease.report().bytes_seen
        return raw, accounts(gateway, lines) | {"heard": heard}, len(server.requests), server.connections


@pytest.mark.parametrize("name", ANSWERS)
async def test_each_ending_is_the_one_that_it_has_in_a_task(name: str) -> None:
    short = await after_a_first(name, direct=True)
    long = await after_a_first(name, direct=False)
    assert short == long
    assert short[1]["open"] == (0, 0, 0)
    assert short[1]["heard"] == (name not in NOT_HEARD)


@pytest.mark.parametrize("reset", [False, True], ids=["FIN", "RST"])
async def test_a_client_that_leaves_takes_the_upstream_with_it(reset: bool) -> None:
    lines: list[str] = []
    async with (
        raw_server(after_one(silent)) as server,
        served(server.port, access_log=lines.extend) as gateway,
    ):
        _, writer = await asked_twice(gateway)
        end(writer, reset=reset)
        await eventually(lambda: server.left == 1 and not gateway.gateway.live and len(lines) == 2)
        assert left(gateway, server) == (0, 0, 0, 0, 0)
    assert [json.loads(line)["outcome"] for line in lines] == ["served", "client_gone"]


async def test_it_stays_one_while_its_announced_body_comes_and_each_byte_is_heard() -> None:
    head, first, rest = anyio.Event(), anyio.Event(), anyio.Event()

    async def slow(exchange: RawExchange) -> None:
        await head.wait()
        await exchange.write(announced(len(WHOLE)))
        await first.wait()
        await exchange.write(WHOLE[:5])
        await rest.wait()
        await exchange.write(WHOLE[5:])

    async with raw_server(after_one(slow)) as server, served(server.port) as gateway:
        reader, writer = await asked_twice(gateway)
        (lease,) = gateway.gateway.leases._leases.values()
        lease.last_byte_at = None
        (exchange,) = gateway.gateway._inference.live
        shortcut: Any = exchange._scope
        head.set()
        await eventually(lambda: shortcut._answer._connection.got_head)
        assert lease.last_byte_at is None  # a head is no byte of the model's own
        first.set()
        await eventually(lambda: lease.last_byte_at is not None)
        assert isinstance(exchange._scope, Shortcut)
        rest.set()
        assert (await told(reader)).endswith(WHOLE)
        writer.close()


async def test_one_that_could_just_be_read_is_answered_and_leaves_nothing() -> None:
    """With two machines its beginning is written anew, to choose one, and for that it may be nested too deeply."""
    async with raw_server(whole) as server, served(server.port) as gateway:
        address = f"http://127.0.0.1:{server.port}/v1/"
        await gateway.change("m1", routes=[route("d1", address), route("d2", address)])
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        answers = set()
        for depth in range(sys.getrecursionlimit() - 250, sys.getrecursionlimit()):
            nested = b"[" * depth + b"]" * depth
            writer.write(request(b'{"model":"m1","messages":[{"role":"user","content":' + nested + b"}]}"))
            answers.add((await asyncio.wait_for(told(reader), 5))[9:12])
        writer.close()
        await eventually(lambda: not gateway.gateway.live)
        assert left(gateway, server)[1:] == (0, 0, 0, 0)
    assert answers == {b"200", b"400"}


@pytest.mark.parametrize("asked", [PLAIN, STREAM], ids=["plain", "stream"])
@pytest.mark.parametrize("kept", [False, True], ids=["cold", "kept"])
async def test_a_client_that_left_before_its_task_began_is_not_served(asked: bytes, kept: bool) -> None:
    """Both come in one turn of the loop: its last bytes, and its end."""
    async with raw_server(whole) as server, served(server.port) as gateway:
        if kept:
            reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
            writer.write(request(PLAIN))
            await told(reader)
            writer.close()
        door = Door(gateway.gateway.app, lambda status, why: ([], b""), Limits(), gateway.gateway.direct)
        client = Accepted(door)
        client.connection_made(Deaf())
        client.data_received(request(asked))
        client.connection_lost(None)
        await asyncio.wait_for(door.none_left.wait(), 5)
        await eventually(lambda: not gateway.pool.open)
        assert gateway.gateway.tally.models["m1"].ended["chat", "client_gone"] == 1
        assert left(gateway, server)[1:] == (0, 0, 0, 0)
        began = len(server.requests)
    assert began == kept + (kept and asked is PLAIN)  # what is begun in the very turn is taken back


class Deaf(asyncio.Transport):
    """Nobody is there any more."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def is_closing(self) -> bool:
        return True

    def write(self, data: Any) -> None:
        raise AssertionError("written to nobody")

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None: ...

    def close(self) -> None: ...


@pytest.mark.parametrize("body", [PLAIN, STREAM])
async def test_one_that_leaves_as_soon_as_it_asked_leaves_nothing(body: bytes) -> None:
    async with raw_server(after_one(silent)) as server, served(server.port) as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(request(PLAIN))
        await told(reader)
        before = gateway.gateway.tally.models["m1"].ended.total()
        for _ in range(5):
            _, other = await asyncio.open_connection("127.0.0.1", gateway.port)
            other.write(request(body))
            end(other, reset=False)
        await eventually(lambda: gateway.gateway.tally.models["m1"].ended.total() == before + 5)
        await eventually(lambda: not gateway.pool.open)
        assert left(gateway, server)[1:] == (0, 0, 0, 0)
        writer.close()


async def test_a_gateway_that_stops_ends_it_with_its_reason() -> None:
    async with (
        raw_server(after_one(silent)) as server,
        served(server.port, drain_limit=timedelta(seconds=0.1)) as gateway,
    ):
        reader, writer = await asked_twice(gateway)
        await gateway.gateway.drain()
        raw = await asyncio.wait_for(reader.read(), 5)
        writer.close()
        assert left(gateway, server)[1:] == (0, 0, 0, 0)
    assert raw.startswith(b"HTTP/1.1 502 ") and b"the gateway is stopping" in raw
    assert b"connection: close" in raw


async def test_a_gateway_that_stops_lets_it_end_within_its_limit() -> None:
    go = anyio.Event()

    async def slow(exchange: RawExchange) -> None:
        await go.wait()
        await whole(exchange)

    async with raw_server(after_one(slow)) as server, served(server.port) as gateway:
        reader, writer = await asked_twice(gateway)
        async with anyio.create_task_group() as group:
            group.start_soon(gateway.gateway.drain)
            await anyio.lowlevel.checkpoint()
            go.set()
            raw = await asyncio.wait_for(reader.read(), 5)
        writer.close()
    assert raw.startswith(b"HTTP/1.1 200 ") and raw.endswith(WHOLE)
    assert b"connection: close" in raw


@pytest.mark.parametrize("direct", [True, False], ids=["short", "task"])
async def test_a_gateway_that_stops_ends_one_whose_client_takes_nothing(direct: bool) -> None:
    lines: list[str] = []
    body = b'{"choices":"' + b"y" * 60_000 + b'"}'

    async def one(exchange: RawExchange) -> None:
        await exchange.write(announced(len(body)) + body)

    async with (
        raw_server(one) as server,
        served(server.port, direct=direct, drain_limit=timedelta(seconds=0.1), access_log=lines.extend) as gateway,
    ):
        _, writer = await asyncio.open_connection("127.0.0.1", gateway.port, limit=1024)
        for _ in range(150):
            writer.write(request(PLAIN))
        await eventually(lambda: any(door_writes_late(gateway)))
        with anyio.fail_after(1):  # else it would have two seconds more
            await gateway.gateway.drain()
        assert left(gateway, server)[1:] == (0, 0, 0, 0)
        writer.transport.abort()
        await eventually(lambda: json.loads(lines[-1])["outcome"] == "gateway_stopped")


async def test_a_client_that_takes_its_answers_late_gets_them_whole_and_in_order() -> None:
    """Its requests come one behind the other, and of its answers it takes nothing at first."""
    body = b'{"choices":"' + b"y" * 60_000 + b'"}'

    async def one(exchange: RawExchange) -> None:
        await exchange.write(announced(len(body)) + body)

    async with raw_server(one) as server, served(server.port) as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port, limit=1024)
        count = 150
        for _ in range(count):
            writer.write(request(PLAIN))
        await eventually(lambda: any(door_writes_late(gateway)))
        raw = b""
        while raw.count(body) < count:
            raw += await asyncio.wait_for(reader.read(1_000_000), 5)
        writer.close()
        await eventually(lambda: not gateway.gateway.live)
        assert left(gateway, server)[1:] == (0, 0, 0, 0)
    assert raw.count(b"HTTP/1.1 200 OK") == raw.count(body) == count


def door_writes_late(gateway: Served) -> list[bool]:
    """For each request that is open: does it wait for its client?"""
    return [exchange.reply.sending_since is not None for exchange in gateway.gateway._inference.live]


async def whole_or_streamed(exchange: RawExchange) -> None:
    await (finished if b'"stream"' in exchange.request else whole)(exchange)


@pytest.mark.parametrize("asked", [PLAIN, STREAM], ids=["plain", "stream"])
async def test_it_leaves_nothing_to_be_sought_by_the_collector(asked: bytes) -> None:
    """What knows each other in a ring costs each later request a part of a collection."""
    gc.collect()
    gc.disable()
    try:
        async with raw_server(whole_or_streamed) as server, served(server.port) as gateway:
            reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
            for _ in range(3):
                writer.write(request(asked))
                await told(reader)
            await eventually(lambda: not gateway.gateway.live)
            alive = [
                type(each).__name__
                for each in gc.get_objects()
                if isinstance(each, Asked | Exchange | Passage | Shortcut)
            ]
            writer.close()
    finally:
        gc.enable()
    assert alive == []
