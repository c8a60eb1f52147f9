"""When does a connection to our own server end, and what is left of it?"""

import asyncio
import os
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from controller.http1 import server
from controller.http1.accepted import Limits
from controller.http1.asked import ABORT, LEAVE, WRITE, Receive, Scope, Send
from tests.support.standing import (
    GET,
    JSON,
    LAST,
    POST,
    SlowTap,
    Standing,
    answer,
    answers,
    body_of,
    echo,
    said,
    standing,
    tapped,
    words,
)
from tests.support.virtual_time import run_virtual

SHORT = timedelta(milliseconds=100)
QUICK = Limits(keep_alive=SHORT, patience=SHORT, flush=SHORT)


@pytest.fixture(scope="module", params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """Both loops: they write, close and reset in ways of their own."""
    return "asyncio", {"use_uvloop": request.param}


async def until(happened: Callable[[], bool], limit_s: float = 5) -> None:
    for _ in range(int(limit_s * 100)):
        if happened():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not happen")


class Waiting:
    """An app that answers only when it is told to, and says who left."""

    def __init__(self) -> None:
        self.begun = 0
        self.left: list[str] = []
        self.go_on = anyio.Event()

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.begun += 1
        scope["extensions"][LEAVE](lambda: self.left.append("told"))
        await body_of(receive)

        async def watch() -> None:
            if (await receive())["type"] == "http.disconnect" and not self.go_on.is_set():
                self.left.append("received")
                group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(watch)
            await self.go_on.wait()
            await answer(send, b"{}")


# By limits. The real ones on moved time, that they are in force on real sockets with short ones.


@pytest.mark.parametrize(
    ("segments", "ends_at", "written"),
    [
        ([], 75, b""),
        ([GET], 75, b"HTTP/1.1 200 OK"),
        ([GET, b"\r\n" * 9], 75, b"HTTP/1.1 200 OK"),
        ([b"GET"], 30, b"HTTP/1.1 408 "),
        ([GET + b"GET /", b"b HTTP/1.1\r\n"], 30, b"HTTP/1.1 200 OK"),
    ],
)
def test_a_connection_that_says_nothing_more_ends(segments: list[bytes], ends_at: int, written: bytes) -> None:
    raw, ended = run_virtual(partial(tapped, echo, segments, wait_s=ends_at - 1))
    assert not ended
    raw, ended = run_virtual(partial(tapped, echo, segments, wait_s=ends_at + 1))
    assert ended
    assert raw.startswith(written)
    assert raw.count(b"HTTP/1.1 408 ") == (ends_at == 30)


def test_the_rest_of_a_body_that_nobody_wants_has_its_time_and_then_the_connection_rests() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await answer(send, b"{}")

    head = POST + b"content-length: 3\r\n\r\n"
    for segments, ends_at in (([head, b"ab"], 30), ([head, b"ab", b"c"], 75)):
        found = [run_virtual(partial(tapped, app, segments, wait_s=wait))[1] for wait in (ends_at - 1, ends_at + 1)]
        assert found == [False, True]


def test_a_head_that_trickles_has_no_more_time_than_one_that_stops() -> None:
    async def trickle() -> float:
        return await tapped_until_closed([bytes([byte]) for byte in b"GET /" + b"a" * 200], pause_s=1)

    assert run_virtual(trickle) == 30


async def tapped_until_closed(segments: list[bytes], pause_s: float) -> float:
    """When a server ended the connection on which these come at a rhythm."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    await tapped(echo, segments, pause_s=pause_s, wait_s=0)
    return loop.time() - began


@pytest.mark.parametrize(
    ("part", "last"), [(b"", b""), (b"GET / HT", b" 408 "), (POST + b"content-length: 9\r\n\r\n", b"{}")]
)
async def test_limits_hold_on_sockets(part: bytes, last: bytes) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await answer(send, b"{}")  # and the rest of the body is not wanted

    async with standing(app, limits=QUICK) as place:
        with anyio.fail_after(2):
            raw = await said(place.port, part)
    assert last in raw


async def test_a_client_that_does_not_close_after_its_refusal_is_closed() -> None:
    async with standing(echo, limits=QUICK) as place:
        _, writer = await asyncio.open_connection("127.0.0.1", place.port)
        writer.write(b"nonsense\r\n\r\n")
        await asyncio.sleep(0.3)
        with pytest.raises(ConnectionError):  # ours is closed, so that what is written is reset
            for _ in range(20):
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(0.01)
        writer.close()


async def cuts(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": JSON})
    await send({"type": "http.response.body", "body": b"x" * 12_000_000, "more_body": True})
    assert not scope["extensions"][WRITE](b"y"), "there is no room"
    scope["extensions"][ABORT]()
    scope["extensions"][ABORT]()


async def test_a_cut_writes_out_what_it_holds() -> None:
    async with standing(cuts) as place:
        raw = await said(place.port, GET)
    assert raw.count(b"x") == 12_000_000
    assert not raw.endswith(b"0\r\n\r\n")


async def test_a_cut_waits_for_a_client_that_takes_nothing_for_a_while_and_no_longer() -> None:
    async with standing(cuts, limits=QUICK, graceful=timedelta(seconds=60)) as place:
        await taking_nothing(place, GET)


async def taking_nothing(place: Standing, request: bytes) -> None:
    """Until the server, told to stop, has ended."""
    with socket.socket() as client:
        client.setblocking(False)
        await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", place.port))
        await asyncio.get_running_loop().sock_sendall(client, request)
        await asyncio.sleep(0.05)
        place.stopped.set()
        with anyio.fail_after(5):
            await place.ended.wait()


@pytest.mark.parametrize(("until_s", "ends_at"), [(1000, 225), (100, 225), (75, 150), (0, 150)])
def test_a_client_that_takes_an_answer_is_ended_at_the_first_look_that_finds_nothing_more_taken(
    until_s: float, ends_at: int
) -> None:
    """There are 20 kB to take at 100 bytes a second, which is 201 s where it goes on so. It is looked at every 75 s."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await answer(send, b"x" * 20_000)

    taking = partial(SlowTap, until_s=until_s)
    for wait_s, ended in ((ends_at - 1, False), (ends_at + 1, True)):
        assert run_virtual(partial(tapped, app, [GET], wait_s=wait_s, taking=taking))[1] == ended


async def test_a_client_that_goes_on_taking_an_answer_is_not_ended_for_resting() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await answer(send, b"x" * 30_000_000)

    async with standing(app, limits=Limits(keep_alive=timedelta(seconds=1.5))) as place:
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
            client.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(client, ("127.0.0.1", place.port))
            await loop.sock_sendall(client, GET)
            taken, began = 0, loop.time()
            while loop.time() < began + 1.7:  # beyond the first time that the server looks
                taken += len(await loop.sock_recv(client, 200_000))
                await asyncio.sleep(0.02)
            while taken < 30_000_000 and (data := await loop.sock_recv(client, 4_000_000)):
                taken += len(data)
    assert taken >= 30_000_000


async def test_a_client_that_takes_nothing_of_an_answer_s_end_is_ended() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await answer(send, b"x" * 50_000_000)

    async with standing(app, limits=QUICK, graceful=timedelta(seconds=60)) as place:
        await taking_nothing(place, LAST)


# By its client.


@pytest.mark.parametrize("reset", [False, True], ids=["FIN", "RST"])
@pytest.mark.parametrize("behind", [b"", GET], ids=["alone", "another behind"])
async def test_an_app_hears_of_a_client_that_leaves(reset: bool, behind: bytes) -> None:
    waiting = Waiting()
    async with standing(waiting.app) as place:
        await leave(place, GET + behind, reset=reset, begun=lambda: waiting.begun > 0)
        await until(lambda: waiting.left == ["told", "received"])
    assert waiting.begun == 1


async def leave(place: Standing, request: bytes, *, reset: bool, begun: Callable[[], bool]) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", place.port)
    writer.write(request)
    await until(begun)
    if reset:
        own: socket.socket = writer.get_extra_info("socket")
        own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
    else:
        writer.close()


async def test_what_is_sent_to_a_client_that_left_goes_nowhere_and_is_no_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ended: list[bool] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": JSON})
        await body_of(receive)
        while (await receive())["type"] != "http.disconnect":
            pass
        for _ in range(10):
            await send({"type": "http.response.body", "body": b"x" * 100_000, "more_body": True})
            assert not scope["extensions"][WRITE](b"x")
        ended.append(True)

    async with standing(app) as place:
        await leave(place, GET, reset=True, begun=lambda: True)
        await until(lambda: bool(ended))
    assert capsys.readouterr().out == ""


async def test_a_thousand_clients_that_leave_leave_nothing_behind() -> None:
    waiting = Waiting()
    tasks, files = await opened_before()
    async with standing(waiting.app) as place:
        for number in range(1000):
            part = (GET, GET + GET, POST + b"content-length: 9\r\n\r\nabc", b"GET / HT", b"\x00", b"")[number % 6]
            await leave(place, part, reset=number % 4 < 2, begun=lambda: True)
        await until(lambda: len(asyncio.all_tasks()) <= tasks + 1 and open_files() <= files + 4, 20)
        waiting.go_on.set()
        assert answers(await said(place.port, LAST))[0][2] == b"{}"
    assert (len(asyncio.all_tasks()), open_files()) == (tasks, files)


async def opened_before() -> tuple[int, int]:
    """Tasks and files, when the loop has opened what it keeps for itself."""
    async with standing(echo) as place:
        await said(place.port, LAST)
    await asyncio.sleep(0.01)
    return len(asyncio.all_tasks()), open_files()


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


# With the server.


async def test_at_the_end_who_rests_is_closed_at_once_and_who_is_served_is_served() -> None:
    waiting = Waiting()
    async with standing(waiting.app) as place:
        resting, resting_writer = await asyncio.open_connection("127.0.0.1", place.port)
        begun, begun_writer = await asyncio.open_connection("127.0.0.1", place.port)
        begun_writer.write(b"GET /")
        served, served_writer = await asyncio.open_connection("127.0.0.1", place.port)
        served_writer.write(GET + GET)
        await until(lambda: waiting.begun == 1)
        place.stopped.set()
        with anyio.fail_after(1):
            assert await resting.read() == await begun.read() == b""
        resting_writer.close()
        begun_writer.close()
        with pytest.raises(ConnectionError):
            await asyncio.open_connection("127.0.0.1", place.port)
        waiting.go_on.set()
        [(status, headers, _)] = answers(await served.read())
        served_writer.close()
        await place.ended.wait()
    assert (status, headers["connection"], waiting.begun) == (200, "close", 1)


async def test_the_rest_of_a_body_is_still_taken_at_the_end() -> None:
    async with standing(echo) as place:
        reader, writer = await asyncio.open_connection("127.0.0.1", place.port)
        writer.write(GET + POST + b"content-length: 6\r\n\r\nabc")
        await reader.readuntil(b"}")
        place.stopped.set()
        await asyncio.sleep(0.05)
        writer.write(b"def" + GET)
        [(_, headers, body)] = answers(await reader.read())
        writer.close()
    assert (headers["connection"], b"abcdef" in body) == ("close", True)


async def test_who_is_served_for_longer_than_the_limit_is_cut() -> None:
    waiting = Waiting()
    async with standing(waiting.app, graceful=SHORT) as place:
        reader, writer = await asyncio.open_connection("127.0.0.1", place.port)
        writer.write(GET)
        await until(lambda: waiting.begun == 1)
        place.stopped.set()
        with anyio.fail_after(1):
            await place.ended.wait()
        with anyio.fail_after(1):
            with suppress(ConnectionError):
                assert await reader.read() == b""
        writer.close()


async def test_being_cancelled_ends_everything_at_once() -> None:
    waiting = Waiting()
    tasks, files = await opened_before()
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    serve = partial(server.serve, waiting.app, [listener], anyio.Event(), words=words)
    writers = []
    with anyio.fail_after(2):
        async with anyio.create_task_group() as group:
            group.start_soon(serve)
            await asyncio.sleep(0.05)
            for request in (GET, b"GET /", b"", GET):
                writers.append((await asyncio.open_connection(*listener.getsockname()))[1])
                writers[-1].write(request)
            await until(lambda: waiting.begun == 2)
            group.cancel_scope.cancel()
    assert listener.fileno() == -1
    for writer in writers:
        writer.close()
    await until(lambda: len(asyncio.all_tasks()) == tasks and open_files() <= files)


async def test_several_sockets_are_served_and_one_in_the_file_system(tmp_path: Path) -> None:
    sockets = [socket.socket(), socket.socket(), socket.socket(socket.AF_UNIX)]
    for one in sockets[:2]:
        one.bind(("127.0.0.1", 0))
    sockets[2].bind(str(tmp_path / "s"))
    seen: list[Any] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append((scope["client"], scope["server"]))
        await answer(send, b"{}")

    stopped = anyio.Event()
    async with anyio.create_task_group() as group:
        ports = [one.getsockname()[1] for one in sockets[:2]]
        group.start_soon(partial(server.serve, app, sockets, stopped, words=words))
        await asyncio.sleep(0.05)
        for port in ports:
            assert answers(await said(port, LAST))[0][0] == 200
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "s"))
        writer.write(LAST)
        assert answers(await reader.read())[0][0] == 200
        writer.close()
        stopped.set()
    assert [found[1] and found[1][1] for found in seen] == [*ports, None]
    assert seen[2] == (None, None)
