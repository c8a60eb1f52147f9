"""What each answer of the control plane is taken for, by a scripted server."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx
import pytest

from controller.core.identity import Scope
from controller.core.inventory import NotFound, Present, Unreadable
from controller.providers.reading import Reading
from controller.providers.runpod.account import Account, key_digest, open_api
from controller.providers.runpod.adapter import RunpodReading, RunpodWriting
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
    Writing,
)
from tests.support.loop_clock import BEGIN, HandClock
from tests.support.runpod_samples import API_KEY, KEY, MODEL, NAMESPACE, ORDER, POD_ID, REQUEST, page, pod, raw

PROBLEM_JSON = {"content-type": "application/problem+json"}
Reply = Callable[[httpx.Request], httpx.Response]


class Scripted:
    """Answers in the given order, the last for ever, and keeps what it was asked."""

    def __init__(self, *replies: httpx.Response | Exception) -> None:
        self._replies = list(replies)
        self.requests: list[httpx.Request] = []
        self.clock = HandClock()
        http = open_api(key=API_KEY, base_url="https://api.example/v2", transport=httpx.MockTransport(self._reply))
        account = Account(http, clock=self.clock)
        self.reading: Reading = RunpodReading(account, namespace=NAMESPACE, models=[MODEL])
        self.writing: Writing = RunpodWriting(account, namespace=NAMESPACE, models={"qwen": MODEL})

    def _reply(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        reply = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        if isinstance(reply, Exception):
            raise reply
        return httpx.Response(reply.status_code, headers=reply.headers, content=reply.content)


def answer(code: int, content: Any = None, **headers: str) -> httpx.Response:
    return httpx.Response(code, content=raw(content), headers={"content-type": "application/json", **headers})


def problem(code: int, detail: str = "no", **headers: str) -> httpx.Response:
    return httpx.Response(
        code, content=raw({"title": "T", "status": code, "detail": detail}), headers=PROBLEM_JSON | headers
    )


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


async def test_a_listing_that_was_read_to_its_stated_end_is_complete() -> None:
    script = Scripted(answer(200, page(pod()), date="Sun, 29 Nov 2026 12:00:07 GMT"))
    listing = await script.reading.list_resources()
    assert listing.complete
    assert listing.requests_readable
    assert [seen.key for seen in listing.resources] == [KEY]
    assert listing.provider_time == BEGIN + timedelta(seconds=7)


async def test_every_page_is_read_and_a_pod_on_two_pages_is_one() -> None:
    other = pod(id="otherpod", name="jupyter", env={})
    script = Scripted(answer(200, page(pod(), cursor="c/1 &x")), answer(200, page(pod(), other)))
    listing = await script.reading.list_resources()
    assert listing.complete
    assert sorted(seen.key.incarnation for seen in listing.resources) == [POD_ID, "otherpod"]
    assert script.requests[1].url.params["cursor"] == "c/1 &x"


async def test_pods_of_clusters_are_asked_for_and_nothing_is_filtered() -> None:
    script = Scripted(answer(200, page()))
    await script.reading.list_resources()
    assert dict(script.requests[0].url.params) == {"limit": "1000", "includeClusterPods": "true"}


@pytest.mark.parametrize(
    "second",
    [problem(422), problem(500), answer(200, None), httpx.ReadTimeout("silence"), answer(200, {"pods": []})],
    ids=repr,
)
async def test_a_fault_on_a_later_page_proves_nothing_absent_and_keeps_what_was_seen(second: Any) -> None:
    listing = await Scripted(answer(200, page(pod(), cursor="c")), second).reading.list_resources()
    assert not listing.complete
    assert not listing.requests_readable
    assert len(listing.resources) == 1
    assert listing.problem


@pytest.mark.parametrize(
    "reply",
    [
        problem(401),
        problem(403),
        problem(404),
        problem(500),
        answer(200, []),
        answer(204),
        answer(302),
        httpx.Response(200, content=b"\xff{"),
        httpx.ConnectError("nobody"),
    ],
    ids=repr,
)
async def test_a_listing_that_failed_is_incomplete_and_empty(reply: Any) -> None:
    listing = await Scripted(reply).reading.list_resources()
    assert (listing.complete, listing.resources, bool(listing.problem)) == (False, (), True)


async def test_a_listing_that_goes_in_a_circle_ends_and_is_incomplete() -> None:
    script = Scripted(answer(200, page(pod(), cursor="c")))
    assert not (await script.reading.list_resources()).complete
    assert len(script.requests) == 2


async def test_one_pod_under_our_prefix_without_a_request_id_blocks_absence_by_request_id_only() -> None:
    untagged = pod(id="otherpod", name="gpuwarden-by-hand", env={})
    listing = await Scripted(answer(200, page(pod(), untagged))).reading.list_resources()
    assert (listing.complete, listing.requests_readable) == (True, False)


async def test_somebody_elses_untagged_pod_blocks_nothing() -> None:
    foreign = pod(id="otherpod", name="jupyter", env={})
    assert (await Scripted(answer(200, page(pod(), foreign))).reading.list_resources()).requests_readable


async def test_two_entries_that_contradict_each_other_do_not_end_a_pod() -> None:
    listing = await Scripted(answer(200, page(pod(), pod(status="TERMINATED")))).reading.list_resources()
    assert listing.resources[0].word == "RUNNING"


async def test_a_read_shows_one_resource() -> None:
    found = await Scripted(answer(200, pod())).reading.read_resource(KEY)
    assert isinstance(found, Present)
    assert found.resource.key == KEY


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (problem(404), NotFound),
        (answer(404, {"error": "x"}), Unreadable),
        (httpx.Response(404, content=b"<html>", headers={"content-type": "text/html"}), Unreadable),
        (problem(401), Unreadable),
        (problem(403), Unreadable),
        (problem(500), Unreadable),
        (answer(200, None), Unreadable),
        (answer(200, pod(id="otherpod")), Unreadable),
        (httpx.ReadTimeout("silence"), Unreadable),
    ],
)
async def test_only_a_well_formed_404_says_that_there_is_no_such_resource(reply: Any, kind: type) -> None:
    assert isinstance(await Scripted(reply).reading.read_resource(KEY), kind)


async def test_looking_sends_nothing_but_gets() -> None:
    script = Scripted(answer(200, page(pod())))
    await script.reading.list_resources()
    await script.reading.read_resource(KEY)
    await script.reading.read_prices()
    assert {request.method for request in script.requests} == {"GET"}


async def test_prices_are_read_from_the_catalog() -> None:
    catalog = {"gpus": [{"id": "NVIDIA L40S", "price": {"secure": 0.86, "community": 0.69}}]}
    prices = await Scripted(answer(200, catalog)).reading.read_prices()
    assert {gpu: str(price) for gpu, price in prices.usd_per_hour.items()} == {"NVIDIA L40S": "0.86"}


@pytest.mark.parametrize("reply", [problem(500), answer(200, {}), httpx.ReadTimeout("silence")], ids=repr)
async def test_prices_that_cannot_be_read_are_none_with_the_reason(reply: Any) -> None:
    prices = await Scripted(reply).reading.read_prices()
    assert prices.usd_per_hour == {}
    assert prices.problem


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


async def test_another_scope_in_the_configuration_makes_other_keys() -> None:
    namespace = replace(NAMESPACE, scope=Scope(provider="runpod", account="second"))
    http = open_api(key=API_KEY, transport=httpx.MockTransport(lambda _: answer(200, page(pod()))))
    listing = await RunpodReading(Account(http, clock=HandClock()), namespace=namespace).list_resources()
    assert listing.resources[0].key.account == "second"
    assert json.dumps(listing.resources[0].tags.request) == f'"{REQUEST}"'
