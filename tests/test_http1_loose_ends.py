"""Is nothing of a connection to our own server left when it has ended, whoever ended it and whenever?"""

import asyncio
import gc
import socket
import struct
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import anyio
import pytest

from controller.http1 import server
from controller.http1.accepted import Accepted, Door
from controller.http1.asked import Receive, Scope, Send
from tests.support.standing import GET, JSON, POST, Tap, body_of, echo, standing, words
from tests.support.virtual_time import run_virtual


@pytest.fixture(scope="module", params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """Both loops: they write, close and reset in ways of their own."""
    return "asyncio", {"use_uvloop": request.param}


async def test_an_app_that_waits_for_its_client_to_read_goes_on_when_it_left() -> None:
    sent: list[int] = []
    ended = anyio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": JSON})
        for number in range(300):
            await send({"type": "http.response.body", "body": b"x" * 100_000, "more_body": True})
            sent.append(number)
        ended.set()

    async def held_up() -> None:
        while True:
            before = len(sent)
            await asyncio.sleep(0.05)
            if before and len(sent) == before:
                return

    async with standing(app) as place:
        client = socket.create_connection(("127.0.0.1", place.port))
        client.sendall(GET)
        with anyio.fail_after(5):
            await held_up()
        assert not ended.is_set()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        with anyio.fail_after(5):
            await ended.wait()


def on_no_socket(door: Door, tap: Callable[[Accepted], Tap] = Tap) -> tuple[Accepted, Tap]:
    client = Accepted(door)
    made = tap(client)
    client.connection_made(cast(asyncio.BaseTransport, made))
    return client, made


async def test_nothing_is_kept_of_a_connection_that_ended() -> None:
    door = Door(echo, words, server.DEFAULTS)
    client, tap = on_no_socket(door)
    kept = weakref.ref(client)
    tap.close()
    await door.none_left.wait()
    del client, tap
    await asyncio.sleep(0)
    gc.collect()
    assert kept() is None


def test_who_is_refused_in_the_midst_of_a_body_has_no_more_time_to_hear_it_than_others() -> None:
    class Deaf(Tap):
        def write_eof(self) -> None:
            """Its client does not close."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        assert await body_of(receive) is None

    async def closed_within(wait_s: float) -> bool:
        client, tap = on_no_socket(Door(app, words, server.DEFAULTS), Deaf)
        client.data_received(POST + b"transfer-encoding: chunked\r\n\r\n1\r\na\r\n")
        await asyncio.sleep(0)
        client.data_received(b"nonsense\r\n")
        await asyncio.sleep(wait_s)
        assert tap.written.startswith(b"HTTP/1.1 400 ")
        return tap.closed

    assert [run_virtual(partial(closed_within, wait)) for wait in (29, 31)] == [False, True]


async def test_a_request_that_is_ended_before_its_app_began_is_over() -> None:
    door = Door(echo, words, server.DEFAULTS)
    client, _ = on_no_socket(door)
    client.data_received(GET)
    client.abort()
    with anyio.fail_after(1):
        await door.none_left.wait()


async def test_who_comes_while_it_closes_is_closed_at_once() -> None:
    door = Door(echo, words, server.DEFAULTS)
    door.closing = True
    on_no_socket(door)
    with anyio.fail_after(1):
        await door.none_left.wait()


async def test_its_sockets_are_closed_with_it_those_too_that_it_never_came_to() -> None:
    bound, unusable, left_over = socket.socket(), socket.socket(), socket.socket()
    bound.bind(("127.0.0.1", 0))
    unusable.close()
    with pytest.raises((OSError, ValueError)):
        await server.serve(echo, [bound, unusable, left_over], anyio.Event(), words=words)
    assert (bound.fileno(), left_over.fileno()) == (-1, -1)
