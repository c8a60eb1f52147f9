"""Does no body that a gateway or an operator may send end in anything but an answer with a known code?"""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.lifecycle import Phase
from controller.http1 import Outgoing
from tests.api.world import World, world
from tests.support.examples import fewer
from tests.support.fuzzing import spoilt_by_one
from tests.support.mangling import json_values, mangled, torn, written
from tests.support.virtual_time import run_virtual

Call = tuple[str, str, Any]
REPORT = {"gateway": "g-1", "kind": "unreachable", "deployment": "qwen-1", "epoch": 1, "detail": "no route"}
STREAMS = {
    "leases": [
        {"deployment": "qwen-1", "epoch": 1, "open": 1, "idle_seconds": 0.5, "bytes_seen": True},
        {"deployment": "qwen-2", "epoch": 1, "open": 0, "idle_seconds": 0, "bytes_seen": False},
    ]
}
START = {"gateway": "g-1", "waiting": 3}
GATEWAYS: list[Call] = [("POST", "/v1/reports", REPORT), ("PUT", "/v1/stream-leases/g-1", STREAMS)]
GATEWAYS += [("POST", "/v1/models/qwen/start", START)]
OPERATORS: list[Call] = [
    ("POST", "/v1/models/qwen/stop", {"now": True}),
    ("POST", "/v1/stop", {"all": True, "now": False}),
]
OPERATORS += [("POST", "/v1/pause", {"paused": True}), ("POST", "/v1/deployments/qwen-1/stop", {"now": True})]
OPERATORS += [("POST", "/v1/unblock", {}), ("POST", "/v1/installations/i9/claim", {"reference": "x"})]


CODES = {"bad_request", "not_found", "refused", "unknown_model", "body_too_large", "provider_unavailable"}


async def answered(house: World, app: str, method: str, path: str, body: bytes) -> int:
    headers = ((b"content-type", b"application/json"),)
    answer = await house.wire.send(Outgoing(method=method, url=f"http://{app}{path}", headers=headers, body=body))
    content = json.loads(await answer.read(1 << 20))
    assert answer.failure is None
    assert answer.status < 400 or content["code"] in CODES
    return answer.status


def in_a_house(play: Callable[[World], Awaitable[None]]) -> None:
    async def run() -> None:
        with TemporaryDirectory() as folder:
            async with world(Path(folder)) as house:
                await house.serve()
                await play(house)

    run_virtual(run)


def spoilt(bodies: list[Call]) -> st.SearchStrategy[tuple[str, str, bytes]]:
    return st.sampled_from(bodies).flatmap(
        lambda call: st.tuples(st.just(call[0]), st.just(call[1]), versions(call[2]))
    )


def versions(body: Any) -> st.SearchStrategy[bytes]:
    return mangled(body).map(written) | others(body) if body else others(body)


def others(body: Any) -> st.SearchStrategy[bytes]:
    return json_values.map(written) | torn(written(body)) | st.binary(max_size=20)


@fewer(10)
@given(st.lists(spoilt(GATEWAYS), min_size=1, max_size=8))
def test_nothing_that_a_gateway_may_send_fails_or_stops_anything(calls: list[tuple[str, str, bytes]]) -> None:
    async def play(house: World) -> None:
        for method, path, body in calls:
            await answered(house, "gateways", method, path, body)
        assert house.record().phase is Phase.ACTIVE
        assert house.panel.stream_leases.open_requests(house.record().id, now=house.store.now) >= 0
        await house.view()
        await house.operator.get("/v1/status")

    in_a_house(play)


@fewer(10)
@given(st.lists(spoilt(OPERATORS), min_size=1, max_size=8))
def test_nothing_that_an_operator_may_send_fails(calls: list[tuple[str, str, bytes]]) -> None:
    async def play(house: World) -> None:
        for method, path, body in calls:
            await answered(house, "operators", method, path, body)
        await house.operator.get("/v1/status")

    in_a_house(play)


@pytest.mark.parametrize("call", GATEWAYS + OPERATORS, ids=lambda call: call[1])
def test_no_place_of_a_body_that_is_spoilt_fails(call: Call) -> None:
    method, path, body = call

    async def play(house: World) -> None:
        for spoilt in spoilt_by_one(body):
            await answered(house, "gateways" if call in GATEWAYS else "operators", method, path, written(spoilt))

    in_a_house(play)


@pytest.mark.parametrize("path", ["/v1/reports", "/v1/models/qwen/start"])
def test_a_body_of_brackets_is_refused_as_no_json(path: str) -> None:
    async def play(house: World) -> None:
        assert await answered(house, "gateways", "POST", path, b"[" * 100_000) == 400

    in_a_house(play)
