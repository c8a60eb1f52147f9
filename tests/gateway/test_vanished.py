"""Is a client noticed that vanished without a word, as by a cut cable, and whose connection therefore looks open?

The client is made deaf by a filter of the kernel on its own socket: nothing reaches it any more, and it acknowledges
nothing.
"""

import asyncio
import ctypes
import socket
import struct
from typing import Any

import pytest

from controller.gateway.config import CLIENT_LIMIT
from controller.gateway.serve import notice_the_vanished
from tests.gateway.sockets import request, served
from tests.gateway.test_endings import endless, silent
from tests.processes.children import until
from tests.support.raw_server import Script, raw_server

pytestmark = pytest.mark.process

SO_ATTACH_FILTER = 26
RETURN_NOTHING = struct.pack("HBBI", 0x06, 0, 0, 0)
"""One instruction of classic BPF: of each packet keep 0 bytes."""


@pytest.fixture(scope="module", params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": request.param}


def deafen(client: socket.socket) -> None:
    program = ctypes.create_string_buffer(RETURN_NOTHING)
    client.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HxxxxxxP", 1, ctypes.addressof(program)))


def shorten(listener: socket.socket) -> None:
    """The same in seconds; that it is in force at all is left to the gateway."""
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
    if listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT):
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000)


@pytest.mark.parametrize(("script", "stream"), [(silent, b"false"), (endless, b"true")], ids=["plain", "stream"])
async def test_a_client_that_vanished_takes_the_upstream_with_it(script: Script, stream: bytes) -> None:
    async with raw_server(script) as server, served(server.port) as gateway:
        shorten(gateway.listening)
        with socket.socket() as client:
            client.setblocking(False)
            await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", gateway.port))
            asked = request(b'{"model":"m1","messages":[],"stream":%s}' % stream)
            await asyncio.get_running_loop().sock_sendall(client, asked)
            await until(lambda: server.open, within=60, what="the request at the model server")
            deafen(client)
            await until(lambda: server.left, within=60, what="the end of its connection to the model server")
            await asyncio.sleep(0.02)
            left = (server.open, gateway.pool.open, gateway.gateway.leases.open_requests, gateway.gateway.live)
    assert left == (0, 0, 0, 0)


def test_the_limit_is_that_of_a_client_that_takes_nothing() -> None:
    with socket.socket() as listener:
        notice_the_vanished(listener)
        told = [
            listener.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE),
            listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE),
            listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL),
            listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT),
        ]
    assert told == [1, 15, 5, CLIENT_LIMIT.total_seconds() * 1000]


def test_a_socket_in_the_file_system_is_left_alone() -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        notice_the_vanished(listener)
        assert not listener.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
