"""What each answer to a look is taken for."""

import asyncio
import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx
import pytest

from controller.core.identity import Scope as AccountScope
from controller.core.inventory import Listing, NotFound, Present, Unreadable
from controller.core.unlisted import Unlisted
from controller.providers.runpod.account import Account, open_api
from controller.providers.runpod.adapter import RunpodReading
from controller.providers.runpod.order import NetworkVolume
from tests.support.asgi_transport import AsgiTransport, Receive, Scope, Send
from tests.support.loop_clock import BEGIN, HandClock, LoopClock
from tests.support.runpod_samples import API_KEY, GPU, KEY, MODEL, NAME, NAMESPACE, POD_ID, REQUEST, page, pod, raw
from tests.support.scripted_runpod import Scripted, answer, problem
from tests.support.virtual_time import run_virtual


async def test_a_listing_that_was_read_to_its_stated_end_is_complete() -> None:
    script = Scripted(answer(200, page(pod())))
    listing = await script.reading.list_resources()
    assert listing.complete
    assert listing.requests_readable
    assert [seen.key for seen in listing.resources] == [KEY]


async def test_every_page_is_read_and_a_pod_on_two_pages_is_one() -> None:
    other = pod(id="otherpod", name="jupyter", env={})
    script = Scripted(answer(200, page(pod(), cursor="c/1 &x")), answer(200, page(pod(), other)))
    listing = await script.reading.list_resources()
    assert listing.complete
    assert sorted(seen.key.incarnation for seen in listing.resources) == [POD_ID, "otherpod"]
    assert script.requests[1].url.params["cursor"] == "c/1 &x"


def last(*pods: Any, cursor: str | None) -> dict[str, Any]:
    """A page that says that it is the last, and where the next one is."""
    return {"pods": list(pods), "pagination": {"hasNextPage": False, "nextCursor": cursor}}


async def test_a_last_page_that_names_a_next_one_is_not_the_last() -> None:
    script = Scripted(answer(200, last(pod(), cursor="a1")), answer(200, last(pod(id="other"), cursor=None)))
    listing = await script.reading.list_resources()
    assert (listing.complete, len(listing.resources)) == (True, 2)


@pytest.mark.parametrize("cursor", ["a2", "a1", "", None])
async def test_an_empty_page_that_says_it_is_the_last_is_the_end_whatever_it_names(cursor: str | None) -> None:
    listing = await Scripted(
        answer(200, last(pod(), cursor="a1")), answer(200, last(cursor=cursor))
    ).reading.list_resources()
    assert (listing.complete, len(listing.resources)) == (True, 1)


@pytest.mark.parametrize("second", [last(pod(), cursor="a1"), None], ids=["a circle", "refused"])
async def test_a_next_one_that_cannot_be_read_to_an_end_proves_nothing_absent(second: Any) -> None:
    refused = answer(422, {"title": "Unprocessable", "status": 422, "detail": "cursor"})
    following = refused if second is None else answer(200, second)
    listing = await Scripted(answer(200, last(pod(), cursor="a1")), following).reading.list_resources()
    assert (listing.complete, len(listing.resources)) == (False, 1)


async def test_an_entry_hidden_on_the_first_page_is_not_forgotten_on_the_last() -> None:
    script = Scripted(answer(200, page(pod(id=None), cursor="c")), answer(200, page()))
    assert not (await script.reading.list_resources()).complete


async def test_a_pod_that_is_gone_from_a_complete_listing_leaves_no_memory_of_its_start() -> None:
    script = Scripted(
        answer(200, page(pod())), answer(200, page()), answer(200, page(pod(startedAt="2026-11-29T11:00:00Z")))
    )
    first, _, third = [await script.reading.list_resources() for _ in range(3)]
    assert first.resources[0].started_at == BEGIN - timedelta(seconds=100)
    assert third.resources[0].started_at == BEGIN - timedelta(hours=1)


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


@pytest.mark.parametrize("code", [201, 204, 206, 301, 404, 500, 503])
async def test_a_body_that_looks_whole_under_any_other_code_is_no_listing(code: int) -> None:
    listing = await Scripted(answer(code, page())).reading.list_resources()
    assert not listing.complete
    assert listing.problem is not None


async def test_a_listing_that_goes_in_a_circle_ends_and_is_incomplete() -> None:
    script = Scripted(answer(200, page(pod(), cursor="c")))
    assert not (await script.reading.list_resources()).complete
    assert len(script.requests) == 2


async def test_a_listing_that_never_ends_is_left_after_200_pages() -> None:
    asked: list[httpx.Request] = []

    def endless(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return answer(200, page(cursor=f"c{len(asked)}"))

    http = open_api(key=API_KEY, transport=httpx.MockTransport(endless))
    listing = await RunpodReading(Account(http, clock=HandClock()), namespace=NAMESPACE).list_resources()
    assert (listing.complete, len(asked)) == (False, 200)


def test_a_listing_whose_pages_come_slowly_is_left_after_a_minute_with_what_it_showed() -> None:
    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.sleep(25)
        number = scope["query_string"].count(b"cursor") and int(scope["query_string"].rpartition(b"=")[2])
        content = raw(page(pod(id=f"p{number}"), cursor=str(number + 1)))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": content})

    async def look() -> tuple[Listing, float]:
        clock = LoopClock()
        http = open_api(key=API_KEY, transport=AsgiTransport(slow))
        listing = await RunpodReading(Account(http, clock=clock), namespace=NAMESPACE).list_resources()
        return listing, clock.boot().total_seconds()

    listing, seconds = run_virtual(look)
    assert seconds == pytest.approx(60)
    assert (listing.complete, len(listing.resources)) == (False, 2)


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
        (answer(206, pod()), Unreadable),
        (answer(500, pod()), Unreadable),
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


async def test_the_catalog_tells_which_types_of_a_model_it_does_not_have() -> None:
    other = {"id": "NVIDIA L40", "price": None}
    prices = await Scripted(answer(200, {"gpus": [other]}), model=replace(MODEL, gpus=(GPU,))).reading.read_prices()
    assert prices.unlisted == {MODEL.alias: (Unlisted(named=GPU, offers=frozenset({GPU}), nearest=("NVIDIA L40",)),)}


async def test_a_catalog_without_any_type_says_nothing_about_one() -> None:
    assert (await Scripted(answer(200, {"gpus": []})).reading.read_prices()).unlisted is None


async def test_an_offer_beside_a_volume_costs_what_its_card_does_and_one_without_a_price_is_left_out() -> None:
    volume = NetworkVolume(id="v1", data_center="EU-RO-1", path="/w")
    catalog = {"gpus": [{"id": GPU, "price": {"secure": 0.86}}]}
    script = Scripted(answer(200, catalog), model=replace(MODEL, volumes=(volume,)))
    assert (await script.reading.read_prices()).usd_per_hour.keys() == {GPU, f"{GPU} @ EU-RO-1"}


@pytest.mark.parametrize(
    ("shown", "fits"),
    [({}, frozenset({GPU})), ({"name": f"x-{NAME}", "env": {}}, None), ({"name": f"gpuwarden-other-{REQUEST}"}, None)],
)
async def test_what_is_listed_under_our_name_is_compared_with_what_its_model_orders(
    shown: dict[str, Any], fits: frozenset[str] | None
) -> None:
    listing = await Scripted(answer(200, page(pod(**shown)))).reading.list_resources()
    assert listing.resources[0].fits == fits


@pytest.mark.parametrize("reply", [problem(500), answer(200, {}), httpx.ReadTimeout("silence")], ids=repr)
async def test_prices_that_cannot_be_read_are_none_with_the_reason(reply: Any) -> None:
    prices = await Scripted(reply).reading.read_prices()
    assert prices.usd_per_hour == {}
    assert prices.problem


async def test_another_scope_in_the_configuration_makes_other_keys() -> None:
    namespace = replace(NAMESPACE, scope=AccountScope(provider="runpod", account="second"))
    http = open_api(key=API_KEY, transport=httpx.MockTransport(lambda _: answer(200, page(pod()))))
    listing = await RunpodReading(Account(http, clock=HandClock()), namespace=namespace).list_resources()
    assert listing.resources[0].key.account == "second"
    assert json.dumps(listing.resources[0].tags.request) == f'"{REQUEST}"'
