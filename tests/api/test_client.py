"""What the daemon's callers learn from its answers, and from their absence."""

import json
from collections.abc import Awaitable, Callable, MutableMapping
from datetime import timedelta
from typing import Any

import pytest

from controller.api.client import DaemonClient, OpenStreams, Problem, Unreachable
from tests.support.asgi_wire import AsgiWire
from tests.support.fake_daemon import FakeDaemon

Message = MutableMapping[str, Any]
ROOT = "unix:/run/gateway.sock:"


def client_of(app: Any) -> DaemonClient:
    return DaemonClient(AsgiWire({"socket": app}), ROOT)


def answering(status: int, body: bytes) -> Callable[..., Awaitable[None]]:
    async def app(scope: Message, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": body})

    return app


async def test_a_start_gives_the_models_view_and_says_who_waits() -> None:
    daemon = FakeDaemon("m1")
    view = await client_of(daemon.app).start("m1", gateway="g-1", waiting=3)
    assert view["alias"] == "m1"
    assert daemon.starts[0][1:] == ("m1", 3)


async def test_an_alias_cannot_leave_its_place_in_the_path() -> None:
    daemon = FakeDaemon("m1")
    with pytest.raises(Problem) as caught:
        await client_of(daemon.app).start("../m1", gateway="g-1", waiting=1)
    assert caught.value.status == 404


async def test_a_refusal_is_a_problem_with_its_code() -> None:
    body = json.dumps({"type": "about:blank", "status": 409, "code": "refused", "detail": "alive"}).encode()
    with pytest.raises(Problem) as caught:
        await client_of(answering(409, body)).post("/v1/obligations/o1/confirm", {"reference": "x"})
    assert (caught.value.status, caught.value.code, caught.value.detail) == (409, "refused", "alive")


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"\xff", b""])
async def test_an_answer_that_is_no_object_is_no_answer(body: bytes) -> None:
    with pytest.raises(Unreachable):
        await client_of(answering(200, body)).get("/v1/status")


async def test_no_daemon_is_unreachable() -> None:
    with pytest.raises(Unreachable):
        await DaemonClient(AsgiWire({}), ROOT).get("/v1/status")


async def test_no_daemon_behind_a_socket_is_unreachable() -> None:
    with pytest.raises(Unreachable):
        await DaemonClient.at_socket("/nowhere/api.sock").get("/v1/status")


@pytest.mark.parametrize(("method", "times"), [("GET", 2), ("PUT", 2), ("POST", 1)])
async def test_what_may_be_repeated_is_asked_once_more_when_the_connection_died(method: str, times: int) -> None:
    asked = 0

    async def dying(scope: Message, receive: Any, send: Any) -> None:
        nonlocal asked
        asked += 1
        scope["extensions"]["gpuwarden.abort"]()

    client = client_of(dying)
    with pytest.raises(Unreachable):
        if method == "GET":
            await client.get("/v1/status")
        elif method == "PUT":
            await client.put_stream_leases("g-1", [])
        else:
            await client.post("/v1/stop")
    assert asked == times


async def test_stream_leases_are_told_as_a_whole_list() -> None:
    daemon = FakeDaemon("m1")
    daemon.refused = {"d2"}
    lease = OpenStreams(deployment="d1", epoch=3, open=2, idle=timedelta(seconds=1.5), bytes_seen=True)
    other = OpenStreams(deployment="d2", epoch=1, open=0, idle=timedelta(), bytes_seen=False)
    answer = await client_of(daemon.app).put_stream_leases("g-1", [lease, other])
    assert (answer.granted, answer.refused) == (frozenset({"d1"}), frozenset({"d2"}))
    assert daemon.listed["d1"] == {
        "deployment": "d1",
        "epoch": 3,
        "open": 2,
        "idle_seconds": 1.5,
        "bytes_seen": True,
    }


async def test_a_report_says_what_was_seen_of_which_epoch() -> None:
    daemon = FakeDaemon("m1")
    await client_of(daemon.app).report(gateway="g-1", deployment="d1", epoch=2, kind="proved", detail="x")
    report = {"gateway": "g-1", "deployment": "d1", "epoch": 2, "kind": "proved", "detail": "x"}
    assert daemon.reports == [report]


async def test_routes_are_answered_at_once_without_a_version_and_hold_back_with_one() -> None:
    daemon = FakeDaemon("m1")
    client = client_of(daemon.app)
    first = await client.routes(after=None, wait=timedelta(seconds=25))
    later = await client.routes(after=first["version"] - 1, wait=timedelta(seconds=25))
    assert first["version"] == later["version"] == 1
