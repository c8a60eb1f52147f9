"""What each answer to a create and a stop is taken for."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx
import pytest

from controller.core.inventory import Unreadable
from controller.providers.runpod.account import key_digest
from controller.providers.runpod.order import NetworkVolume
from controller.providers.writing import (
    CreateAccepted,
    CreateNotSent,
    CreateOutcome,
    CreateRejected,
    CreateUnknown,
    RejectedFor,
    StopAccepted,
    StopNotFound,
    StopOutcome,
    StopRefused,
    StopUnknown,
)
from tests.support.runpod_samples import API_KEY, GPU, KEY, MODEL, ORDER, POD_ID, page, pod, raw
from tests.support.scripted_runpod import PROBLEM_JSON, Scripted, answer, problem


async def created(*replies: httpx.Response | Exception) -> CreateOutcome:
    script = Scripted(*replies)
    outcome = await script.writing.create(ORDER)
    assert len(script.requests) <= 1, "a create is never repeated"
    return outcome


async def stopped(*replies: httpx.Response | Exception) -> StopOutcome:
    return await Scripted(*replies).writing.stop(KEY)


async def test_a_create_that_was_answered_201_with_our_pod_is_accepted() -> None:
    outcome = await created(answer(201, pod(status="PROVISIONING")))
    assert isinstance(outcome, CreateAccepted)
    assert outcome.resource.key == KEY
    assert outcome.mismatch is None


async def test_a_create_of_something_else_than_ordered_is_accepted_with_the_difference() -> None:
    outcome = await created(answer(201, pod(disk=20)))
    assert isinstance(outcome, CreateAccepted)
    assert outcome.mismatch == "disk GB is 20, ordered was 80"


async def test_a_create_whose_environment_is_not_echoed_is_accepted_by_its_name() -> None:
    assert isinstance(await created(answer(201, pod(env={}))), CreateAccepted)


@pytest.mark.parametrize(
    "other",
    [
        {"env": {"GPUWARDEN_OWNER": "somebody-else"}},
        {"env": {"GPUWARDEN_OWNER": "acme-prod-7f3a", "GPUWARDEN_INSTALLATION": "ffff"}},
        {"env": {"GPUWARDEN_REQUEST": "rffffffffffffffff"}},
        {"env": {"GPUWARDEN_EPOCH": "4"}},
        {"env": {}, "name": "gpuwarden-qwen-rffffffffffffffff"},
        {"env": {}, "name": "jupyter"},
    ],
)
async def test_a_create_that_is_described_as_somebody_elses_is_unknown_and_says_so(other: dict[str, Any]) -> None:
    outcome = await created(answer(201, pod(**other)))
    assert isinstance(outcome, CreateUnknown)
    assert "ownership" in outcome.detail


@pytest.mark.parametrize(
    ("code", "what"),
    [
        (400, RejectedFor.OFFER),
        (403, RejectedFor.OFFER),
        (402, RejectedFor.FUNDS),
        (401, RejectedFor.CREDENTIAL),
        (404, RejectedFor.ORDER),
        (409, RejectedFor.ORDER),
        (413, RejectedFor.ORDER),
        (422, RejectedFor.ORDER),
        (429, RejectedFor.RATE),
    ],
)
async def test_a_well_formed_refusal_of_a_create_is_certain(code: int, what: RejectedFor) -> None:
    outcome = await created(problem(code, "no longer any instances"))
    assert isinstance(outcome, CreateRejected)
    assert outcome.what is what
    assert outcome.detail == f"HTTP {code}: T: no longer any instances"


UNCERTAIN: list[httpx.Response | Exception] = [
    answer(200, pod()),
    answer(202, pod()),
    answer(204),
    answer(201, None),
    answer(201, {}),
    answer(201, []),
    answer(201, "pod"),
    httpx.Response(201, content=b"{"),
    httpx.Response(201, content=b"<html>", headers={"content-type": "text/html"}),
    httpx.Response(201, content=b""),
    answer(307, None, location="https://elsewhere.example/"),
    answer(301),
    problem(408),
    problem(405),
    problem(410),
    problem(418),
    *(problem(code) for code in (500, 502, 503, 504, 524)),
    *(answer(code, {"error": "no"}) for code in (400, 401, 402, 403, 404, 409, 422, 429)),
    httpx.Response(403, content=b"error code: 1010"),
    httpx.Response(400, content=b"nope", headers=PROBLEM_JSON),
    httpx.Response(400, content=raw({"status": 500}), headers=PROBLEM_JSON),
    httpx.ReadTimeout("silence"),
    httpx.ReadError("reset"),
    httpx.WriteError("reset"),
    httpx.RemoteProtocolError("closed"),
    httpx.LocalProtocolError("odd"),
]


@pytest.mark.parametrize("reply", UNCERTAIN, ids=repr)
async def test_anything_else_leaves_a_create_unknown(reply: httpx.Response | Exception) -> None:
    assert isinstance(await created(reply), CreateUnknown)


@pytest.mark.parametrize("error", [httpx.ConnectError("x"), httpx.ConnectTimeout("x"), httpx.PoolTimeout("x")])
async def test_a_create_that_found_no_connection_was_not_sent(error: Exception) -> None:
    assert isinstance(await created(error), CreateNotSent)


@pytest.mark.parametrize(
    "order",
    [
        replace(ORDER, spec=replace(ORDER.spec, model="other")),
        replace(ORDER, spec=replace(ORDER.spec, image="other:v1")),
        replace(ORDER, spec=replace(ORDER.spec, account="other")),
        replace(ORDER, offer="NVIDIA B200"),
        replace(ORDER, tags=replace(ORDER.tags, owner="somebody-else")),
        replace(ORDER, tags=replace(ORDER.tags, installation="ffff")),
        replace(ORDER, tags=replace(ORDER.tags, request=None)),
        replace(ORDER, launch=replace(ORDER.launch, environment={"NOTE": f"my {API_KEY}"})),
        replace(ORDER, launch=replace(ORDER.launch, environment={"HF_TOKEN": "KEY_CANARY_2"})),
    ],
)
async def test_an_order_that_must_not_leave_does_not(order: Any) -> None:
    script = Scripted(answer(201, pod()))
    assert isinstance(await script.writing.create(order), CreateNotSent)
    assert script.requests == []


@pytest.mark.parametrize(("offer", "said"), [(GPU, None), (f"{GPU} @ EU-RO-1", "1")])
async def test_what_is_said_to_a_machine_beside_a_volume_is_said_to_no_other(offer: str, said: str | None) -> None:
    volume = NetworkVolume(id="v1", data_center="EU-RO-1", path="/w")
    script = Scripted(answer(201, pod()), model=replace(MODEL, volumes=(volume,)))
    launch = replace(ORDER.launch, beside_volume={"HF_HUB_OFFLINE": "1"})
    await script.writing.create(replace(ORDER, offer=offer, launch=launch))
    assert json.loads(script.requests[0].content)["env"].get("HF_HUB_OFFLINE") == said


async def test_no_create_body_holds_a_secret_and_the_key_is_in_the_header_alone() -> None:
    script = Scripted(answer(201, pod()))
    await script.writing.create(ORDER)
    [request] = script.requests
    assert request.headers["authorization"] == f"Bearer {API_KEY}"
    assert request.headers["user-agent"].startswith("gpuwarden/")
    assert b"CANARY" not in request.content
    assert "CANARY" not in str(request.url)


async def test_a_refusal_that_echoes_the_order_tells_no_key_and_no_environment() -> None:
    echo = f"bad body {API_KEY} Bearer xyz123 env={ORDER.launch.environment['VLLM_API_KEY']}"
    outcome = await created(problem(422, echo))
    assert isinstance(outcome, CreateRejected)
    assert "CANARY" not in outcome.detail
    assert "RUNPOD_SECRET" not in outcome.detail
    assert len(outcome.detail) <= 512


async def test_a_repeated_create_would_be_a_second_pod_and_the_port_says_so() -> None:
    assert Scripted(answer(201)).writing.idempotent is False


async def test_a_stop_that_was_answered_204_is_accepted() -> None:
    assert await stopped(httpx.Response(204)) == StopAccepted(reference=f"runpod-terminated-{POD_ID}")


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (problem(404, "pod not found"), StopNotFound),
        (problem(409, "pod belongs to cluster"), StopRefused),
        (problem(401), StopRefused),
        (problem(403), StopRefused),
        (problem(429), StopRefused),
        (problem(400), StopUnknown),
        (problem(500), StopUnknown),
        (problem(503), StopUnknown),
        (answer(404, {"error": "gone"}), StopUnknown),
        (httpx.Response(403, content=b"error code: 1010"), StopUnknown),
        (answer(200, pod()), StopUnknown),
        (answer(302, None), StopUnknown),
        (httpx.ReadTimeout("silence"), StopUnknown),
        (httpx.ConnectError("nobody"), StopUnknown),
        (httpx.RemoteProtocolError("closed"), StopUnknown),
    ],
)
async def test_every_other_answer_to_a_stop_ends_nothing(
    reply: httpx.Response | Exception, kind: type[StopOutcome]
) -> None:
    assert isinstance(await stopped(reply), kind)


async def test_a_stop_in_another_account_is_not_called() -> None:
    script = Scripted(httpx.Response(204))
    assert isinstance(await script.writing.stop(replace(KEY, account="other")), StopRefused)
    assert script.requests == []


@pytest.mark.parametrize("pod_id", ["..", "../account", "a/b", "a?b=c", "a#b", ".", "%2e%2e"])
async def test_an_id_stays_one_step_of_the_path(pod_id: str) -> None:
    script = Scripted(httpx.Response(204))
    await script.writing.stop(replace(KEY, incarnation=pod_id))
    path = script.requests[0].url.raw_path
    assert path.startswith(b"/v2/pods/")
    assert path.count(b"/") == 3
    assert b"." not in path
    assert b"?" not in path


async def test_after_a_429_nothing_is_called_until_its_time_is_over() -> None:
    script = Scripted(problem(429, **{"retry-after": "40"}), answer(200, page()))
    first = await script.writing.create(ORDER)
    assert isinstance(first, CreateRejected)
    assert first.retry_after == timedelta(seconds=40)
    script.clock.advance(timedelta(seconds=39))
    second = await script.writing.create(ORDER)
    assert isinstance(second, CreateRejected)
    assert (second.what, second.retry_after) == (RejectedFor.RATE, timedelta(seconds=1))
    assert not (await script.reading.list_resources()).complete
    assert isinstance(await script.reading.read_resource(KEY), Unreadable)
    assert (await script.reading.read_prices()).problem
    assert len(script.requests) == 1
    script.clock.advance(timedelta(seconds=1))
    assert (await script.reading.list_resources()).complete


async def test_a_key_that_was_changed_is_noticed_by_its_digest_which_tells_nothing_else() -> None:
    assert key_digest(API_KEY, "salt") == key_digest(API_KEY, "salt")
    assert len({key_digest(API_KEY, "salt"), key_digest("other", "salt"), key_digest(API_KEY, "pepper")}) == 3
    assert key_digest("b", "a") != key_digest("", "ab")
    assert len(key_digest(API_KEY, "salt")) == 64
