"""Is a request on a connection that is kept taken for what it is?"""

import asyncio
import hashlib
import re
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from controller.gateway.clients import Client
from controller.gateway.proxy import Proxy
from tests.gateway.kept import (
    CLIENT_DIGEST,
    PLAIN,
    STREAM,
    after_one,
    asked_twice,
    left,
    silent,
    three_after_another,
    told,
    whole,
)
from tests.gateway.sockets import eventually, request, served
from tests.gateway.test_endings import announced, end
from tests.gateway.world import CLIENT_KEY
from tests.support.fake_daemon import route
from tests.support.raw_server import RawExchange, raw_server


@pytest.fixture(scope="module", params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": request.param}


async def test_a_stream_has_signs_of_life_on_a_connection_that_is_kept() -> None:
    """It has a task, which looks at the time."""
    async with (
        raw_server(after_one(silent)) as server,
        served(server.port, sign_of_life=timedelta(seconds=0.05)) as gateway,
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(request(PLAIN))
        await told(reader)
        writer.write(request(STREAM))
        await asyncio.wait_for(reader.readuntil(b": the model is at work\n\n"), 5)
        writer.close()


async def test_counting_tokens_is_no_use_on_a_connection_that_is_kept() -> None:
    async with raw_server(after_one(silent)) as server, served(server.port) as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(request(PLAIN))
        await told(reader)
        writer.write(request(PLAIN).replace(b"chat/completions", b"messages/count_tokens"))
        await eventually(lambda: len(server.requests) == 2)
        assert (gateway.gateway.live, gateway.gateway.leases.open_requests) == (1, 0)
        writer.close()


async def test_who_may_not_be_charged_is_refused_on_a_connection_that_is_kept() -> None:
    """The machine's price is not known, and this key has a budget."""
    free = Client(name="free", digest=CLIENT_DIGEST)
    poor = Client(name="poor", digest=hashlib.sha256(b"poor").hexdigest(), usd_per_day=Decimal(1))
    found: list[tuple[Client, ...]] = [(free, poor)]
    options: dict[str, Any] = {"client_keys": frozenset[str](), "read_clients": lambda: found.pop() if found else None}
    async with raw_server(whole) as server, served(server.port, **options) as gateway:
        gateway.daemon.change("m1", routes=[route("d1", f"http://127.0.0.1:{server.port}/v1/", usd_per_hour=None)])
        await eventually(lambda: gateway.gateway.table.views["m1"].routes[0].usd_per_hour is None)
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        answers = []
        for key in (CLIENT_KEY, "poor", CLIENT_KEY):
            writer.write(request(PLAIN, key=key))
            answers.append(await told(reader))
        assert left(gateway, server)[1:] == (0, 0, 0, 0)
        writer.close()
    assert [int(answer[9:12]) for answer in answers] == [200, 503, 200]
    assert b"what this machine costs an hour is not known" in answers[1]
    assert (len(server.requests), server.connections) == (2, 1)


REFUSED = {
    "no JSON": (b"{", 400),
    "no model": (b"{}", 400),
    "another model": (b'{"model":"m2"}', 404),
    "background": (b'{"model":"m1","background":true}', 400),
    "too deep": (b'{"model":"m1","x":' + b"[" * 200_000 + b"]" * 200_000 + b"}", 400),
    "too large": (b'{"model":"m1","x":"' + b"x" * 500_000 + b'"}', 413),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_what_is_refused_leaves_the_connection_usable(name: str) -> None:
    body, status = REFUSED[name]
    async with raw_server(whole) as server, served(server.port, body_limit=450_000) as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        answers = []
        for each in (PLAIN, body, PLAIN):
            writer.write(request(each))
            answers.append(await told(reader))
        writer.close()
    assert [int(answer[9:12]) for answer in answers] == [200, status, 200]
    assert len(server.requests) == 2


async def test_a_key_that_is_taken_back_is_refused_on_a_connection_that_used_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = Client(name="k", digest=CLIENT_DIGEST)
    found: list[tuple[Client, ...] | None] = [(known,)]
    monkeypatch.setattr("controller.gateway.clients.LOOK_EVERY_S", 0.0)
    options: dict[str, Any] = {"client_keys": frozenset[str](), "read_clients": lambda: found.pop() if found else None}
    async with raw_server(whole) as server, served(server.port, **options) as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        statuses = []
        for change in (None, None, (), (known,)):
            if change is not None:
                found.append(change)
            writer.write(request(PLAIN))
            statuses.append(int((await told(reader))[9:12]))
        writer.close()
    assert statuses == [200, 200, 401, 200]


async def test_what_a_key_may_do_at_once_is_given_back_with_each_answer() -> None:
    known = Client(name="k", digest=CLIENT_DIGEST, concurrent=1, requests_per_minute=9, usd_per_day=Decimal(1))
    found: list[tuple[Client, ...]] = [(known,)]
    options: dict[str, Any] = {"client_keys": frozenset[str](), "read_clients": lambda: found.pop() if found else None}
    async with raw_server(after_one(silent)) as server, served(server.port, **options) as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        for _ in range(2):
            writer.write(request(b"{}"))
            assert (await told(reader)).startswith(b"HTTP/1.1 400 ")
        writer.close()
        views = gateway.gateway.table.views
        views["m1"] = replace(views["m1"], routes=tuple(replace(r, usd_per_hour=36.0) for r in views["m1"].routes))
        _, writer = await asked_twice(gateway)
        reader, other = await asyncio.open_connection("127.0.0.1", gateway.port)
        other.write(request(PLAIN))
        refused = await told(reader)
        end(writer, reset=False)
        await eventually(lambda: not gateway.gateway.live)
        other.write(request(PLAIN))
        await eventually(lambda: gateway.gateway.live == 1)
        spending = gateway.gateway.spending
        assert [share.open for share in spending._shares.values()] == [1]
        other.close()
        await eventually(lambda: not gateway.gateway.live)
        assert (dict(spending._shares), spending._live) == ({}, set())
    assert refused.startswith(b"HTTP/1.1 429 ") and b"1 requests at once" in refused
    assert b"x-gpuwarden-usd-limit: 1\r\n" in refused


async def test_a_mistake_of_ours_in_a_callback_is_a_500_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def slip(*_: object) -> None:
        raise RuntimeError("a slip")

    async with raw_server(whole) as server, served(server.port) as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(request(PLAIN))
        await told(reader)
        monkeypatch.setattr(Proxy, "plain", slip)
        writer.write(request(PLAIN))
        raw = await asyncio.wait_for(reader.read(), 5)
        writer.close()
        await eventually(lambda: not gateway.gateway.live)
        assert left(gateway, server)[1:] == (0, 0, 0, 0)
    assert raw.startswith(b"HTTP/1.1 500 ")


async def test_who_asks_a_gateway_that_stops_is_told_so() -> None:
    async with raw_server(after_one(silent)) as server, served(server.port) as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(request(PLAIN))
        await told(reader)
        await gateway.gateway.drain()
        writer.write(request(PLAIN))
        raw = await asyncio.wait_for(reader.read(), 5)
        writer.close()
    assert raw.startswith(b"HTTP/1.1 503 ") and b"this gateway is stopping" in raw
    assert b"connection: close" in raw
    assert len(server.requests) == 1


async def test_a_model_s_key_that_was_refused_is_read_anew_for_the_next_request() -> None:
    keys = ["new", "old"]

    async def who(exchange: RawExchange) -> None:
        if b"Bearer new" in exchange.request:
            return await whole(exchange)
        await exchange.write(announced(2).replace(b"200 OK", b"401 Unauthorized") + b"{}")

    async with (
        raw_server(after_one(who)) as server,
        served(server.port, models={"m1": lambda: keys.pop() if len(keys) > 1 else keys[0]}) as gateway,
    ):
        statuses = await three_after_another(gateway)
    assert statuses == [200, 502, 200]


async def test_a_model_s_key_is_read_anew_when_it_is_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.gateway.upstream.KEY_AGE_S", -1.0)
    keys = ["third", "second", "first"]
    async with raw_server(whole) as server, served(server.port, models={"m1": keys.pop}) as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        for _ in range(3):
            writer.write(request(PLAIN))
            await told(reader)
        writer.close()
    sent = [key for asked in server.requests for key in re.findall(rb"Bearer (\w+)", asked)]
    assert sent == [b"first", b"second", b"third"]


async def test_another_machine_of_the_model_is_proven_beside_requests_that_need_no_task() -> None:
    async with raw_server(whole) as server, served(server.port) as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(request(PLAIN))
        await told(reader)
        here = f"http://127.0.0.1:{server.port}/v1/"
        gateway.gateway._inference.asked.clear()  # else the news of it begins the proof
        gateway.daemon.change("m1", routes=[route("d1", here), route("d2", here, proven=False)])
        await eventually(lambda: len(gateway.gateway.table.views["m1"].routes) == 2)
        writer.write(request(PLAIN))
        await told(reader)
        await eventually(lambda: "proved" in gateway.daemon.kinds())
        writer.close()


async def test_a_model_s_key_that_cannot_be_read_is_a_500_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.gateway.upstream.KEY_AGE_S", -1.0)
    keys = ["first"]
    async with raw_server(whole) as server, served(server.port, models={"m1": keys.pop}) as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(request(PLAIN))
        await told(reader)
        writer.write(request(PLAIN))
        raw = await asyncio.wait_for(reader.read(), 5)
        writer.close()
        assert left(gateway, server)[1:] == (0, 0, 0, 0)
    assert raw.startswith(b"HTTP/1.1 500 ")
    assert len(server.requests) == 1


async def test_who_may_have_one_at_once_may_have_one_after_the_other() -> None:
    known = Client(name="k", digest=CLIENT_DIGEST, concurrent=1)
    found: list[tuple[Client, ...]] = [(known,)]
    options: dict[str, Any] = {"client_keys": frozenset[str](), "read_clients": lambda: found.pop() if found else None}
    async with raw_server(whole) as server, served(server.port, **options) as gateway:
        statuses = await three_after_another(gateway)
    assert statuses == [200, 200, 200]
