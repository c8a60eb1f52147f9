"""What is made of what one tried pod shows, good and odd?"""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import httpx
import pytest

from controller.providers.inspecting import Failed, Trouble
from controller.providers.qualifying import Echo, Inside
from controller.providers.runpod.account import Account, open_api
from controller.providers.runpod.qualification import RunpodQualification
from tests.support.loop_clock import HandClock
from tests.support.runpod_samples import API_KEY, KEY, MODEL, POD_ID, pod
from tests.support.scripted_runpod import answer, problem

REFERENCE = MODEL.key_reference


class Scripted:
    def __init__(self, reply: httpx.Response) -> None:
        self.requests: list[httpx.Request] = []
        self._reply = reply
        http = open_api(key=API_KEY, api_url="https://api.example/v2", transport=httpx.MockTransport(self._answer))
        self.qualification = RunpodQualification(Account(http, clock=HandClock()))

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        return httpx.Response(self._reply.status_code, headers=self._reply.headers, content=self._reply.content)


async def inside(**changes: Any) -> Inside | Failed:
    return await Scripted(answer(200, pod(**changes))).qualification.read_inside(KEY, reference=REFERENCE)


async def test_a_pod_shows_its_start_its_uptime_its_cards_and_how_its_secret_is_shown() -> None:
    assert await inside() == Inside(
        echo=Echo.REFERENCE,
        started_at=datetime(2026, 11, 29, 11, 58, 20, tzinfo=UTC),
        uptime=timedelta(seconds=100),
        cards=1,
    )


@pytest.mark.parametrize(
    ("env", "echo"),
    [
        ({}, Echo.HIDDEN),
        (None, Echo.HIDDEN),
        (["VLLM_API_KEY"], Echo.HIDDEN),
        ({"OTHER": REFERENCE}, Echo.HIDDEN),
        ({"VLLM_API_KEY": "open-sesame"}, Echo.VALUE),
        ({"LLAMA_API_KEY": REFERENCE}, Echo.REFERENCE),
    ],
)
async def test_a_secret_is_shown_as_its_reference_as_its_value_or_not_at_all(env: Any, echo: Echo) -> None:
    found = await inside(env=env)
    assert isinstance(found, Inside)
    assert found.echo is echo
    assert "open-sesame" not in repr(found)


@pytest.mark.parametrize("runtime", [None, [], {}, {"uptime": -1, "gpus": 2}, {"uptime": "x", "gpus": None}])
async def test_what_is_not_said_is_not_known(runtime: Any) -> None:
    found = await inside(runtime=runtime, startedAt=None)
    assert found == Inside(echo=Echo.REFERENCE, started_at=None, uptime=None, cards=None)


@pytest.mark.parametrize("shown", [None, [], {}, pod(id="another")])
async def test_an_answer_about_something_else_is_odd(shown: Any) -> None:
    found = await Scripted(answer(200, shown)).qualification.read_inside(KEY, reference=REFERENCE)
    assert isinstance(found, Failed)
    assert found.trouble is Trouble.ODD


async def test_a_restart_is_one_call_and_a_refusal_has_its_kind() -> None:
    scripted = Scripted(answer(200, pod()))
    assert await scripted.qualification.restart(KEY) is None
    (request,) = scripted.requests
    assert (request.method, request.url.path, request.content) == (
        "POST",
        f"/v2/pods/{POD_ID}/action",
        b'{"action": "restart"}',
    )
    refused = await Scripted(problem(403, "CANARY")).qualification.restart(KEY)
    assert refused == Failed(trouble=Trouble.PERMISSION, text="HTTP 403")


@pytest.mark.parametrize(
    ("records", "billed"),
    [
        ([], Decimal(0)),
        ([{"podId": POD_ID, "totalAmount": 0.5}, {"podId": POD_ID, "totalAmount": 1}], Decimal("1.5")),
        ([{"podId": POD_ID, "totalAmount": 0.5}, {"podId": "another", "totalAmount": 9}, None], Decimal("0.5")),
        ([{"podId": POD_ID, "totalAmount": "0.5"}], None),
        ([{"podId": POD_ID}], None),
        ("none", None),
    ],
)
async def test_a_bill_is_the_sum_of_its_own_records_or_not_known(records: Any, billed: Decimal | None) -> None:
    found = await Scripted(answer(200, {"records": records})).qualification.read_billed(KEY)
    assert (None if isinstance(found, Failed) else found) == billed


async def test_what_may_not_be_asked_is_a_failure_of_its_kind() -> None:
    refused = Scripted(problem(403, "CANARY")).qualification
    failed = Failed(trouble=Trouble.PERMISSION, text="HTTP 403")
    assert await refused.read_inside(KEY, reference=REFERENCE) == failed
    assert await refused.read_billed(KEY) == failed
