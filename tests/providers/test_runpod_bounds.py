"""Is each answer taken for what it says and nothing more, at the edges where a guard could be left out?"""

import json
from datetime import UTC, datetime, timedelta

import pytest

from controller.core.inventory import Present, Unreadable
from controller.providers.runpod.wire import instant_of, said_at
from controller.providers.writing import StopRefused
from tests.support.loop_clock import BEGIN
from tests.support.runpod_samples import KEY, ORDER, page, pod
from tests.support.scripted_runpod import Scripted, answer, problem

DATE = "Sun, 29 Nov 2026 12:00:07 GMT"
LATER = "Sun, 29 Nov 2026 12:00:09 GMT"


# The listing


@pytest.mark.parametrize(("dates", "passed_s"), [((DATE, LATER), 9), ((DATE, None), 7), ((None, LATER), 9)])
async def test_a_listing_tells_the_provider_s_latest_time(dates: tuple[str | None, str | None], passed_s: int) -> None:
    first, second = ({} if date is None else {"date": date} for date in dates)
    script = Scripted(answer(200, page(pod(), cursor="c"), **first), answer(200, page(), **second))
    assert (await script.reading.list_resources()).provider_time == BEGIN + timedelta(seconds=passed_s)


async def test_a_listing_whose_provider_tells_no_time_tells_none() -> None:
    assert (await Scripted(answer(200, page())).reading.list_resources()).provider_time is None


async def test_a_listing_that_is_not_complete_forgets_no_container_s_start() -> None:
    earlier = pod(startedAt="2026-11-29T11:00:00Z")
    script = Scripted(answer(200, page(pod())), problem(500), answer(200, page(earlier)))
    first, _, third = [await script.reading.list_resources() for _ in range(3)]
    assert third.resources[0].started_at == first.resources[0].started_at


async def test_nothing_is_seen_in_a_body_under_another_code() -> None:
    assert (await Scripted(answer(500, page(pod()))).reading.list_resources()).resources == ()


async def test_a_pod_that_was_terminated_is_shown_as_such() -> None:
    listing = await Scripted(answer(200, page(pod(status="TERMINATED")))).reading.list_resources()
    assert [seen.word for seen in listing.resources] == ["TERMINATED"]


async def test_of_two_entries_the_living_one_is_shown_whichever_comes_first() -> None:
    for entries in ([pod(), pod(status="TERMINATED")], [pod(status="TERMINATED"), pod()]):
        listing = await Scripted(answer(200, page(*entries))).reading.list_resources()
        assert [seen.word for seen in listing.resources] == ["RUNNING"]


# Reads and prices


@pytest.mark.parametrize("code", [201, 202, 404, 500])
async def test_a_pod_in_the_body_under_another_code_is_no_sighting(code: int) -> None:
    assert isinstance(await Scripted(answer(200, pod())).reading.read_resource(KEY), Present)
    assert isinstance(await Scripted(answer(code, pod())).reading.read_resource(KEY), Unreadable)


async def test_prices_under_another_code_are_none() -> None:
    catalog = {"gpus": [{"id": "NVIDIA L40S", "price": {"secure": 0.86, "community": 0.69}}]}
    prices = await Scripted(answer(500, catalog)).reading.read_prices()
    assert (prices.usd_per_hour, bool(prices.problem)) == ({}, True)


# Creates and stops


async def test_the_name_that_is_ordered_ends_with_the_request_id() -> None:
    script = Scripted(answer(201, pod()))
    await script.writing.create(ORDER)
    assert json.loads(script.requests[0].content)["name"].endswith(f"-{ORDER.tags.request}")


@pytest.mark.parametrize(("code", "wait"), [(429, timedelta(seconds=7)), (403, None), (409, None)])
async def test_a_stop_waits_where_a_rate_limit_asks_for_it_and_nowhere_else(code: int, wait: timedelta | None) -> None:
    outcome = await Scripted(problem(code, **{"retry-after": "7"})).writing.stop(KEY)
    assert isinstance(outcome, StopRefused)
    assert outcome.retry_after == wait


# The provider's time


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Thu, 01 Jan 1970 00:00:00 GMT", True),
        ("Wed, 31 Dec 1969 23:59:59 GMT", False),
        ("Tue, 31 Dec 2999 23:59:59 GMT", True),
        ("Wed, 01 Jan 3000 00:00:00 GMT", False),
    ],
)
def test_a_year_that_can_be_is_one_of_1970_to_2999(text: str, told: bool) -> None:
    assert (said_at({"date": text}) is not None) is told


def test_the_date_is_read_in_the_one_form_that_http_allows() -> None:
    assert said_at({"date": "Sun, 29 Feb 2032 23:05:09 GMT"}) == datetime(2032, 2, 29, 23, 5, 9, tzinfo=UTC)
    for text in ("Sun, 30 Feb 2032 23:05:09 GMT", "Sun, 29 Fev 2032 23:05:09 GMT", "Sun, 29 Feb 2032 24:05:09 GMT"):
        assert said_at({"date": text}) is None
    assert said_at({"date": "Sun, 29 Feb 2032 23:05:09 +0000"}) is None
    assert said_at({}) is None


@pytest.mark.parametrize("text", [DATE, "Sun, 29 Nov 2026 12:00:07 -0000", "Sun, 29 Nov 2026 13:00:07 +0100"])
def test_an_http_date_is_one_instant_however_its_zone_is_written(text: str) -> None:
    assert instant_of(text) == BEGIN + timedelta(seconds=7)


@pytest.mark.parametrize("text", ["", "soon", "Sun, 99 Nov 2026 12:00:07 GMT", "Fri, 31 Dec 9999 23:59:59 -2359"])
def test_a_date_that_makes_no_sense_is_none(text: str) -> None:
    assert instant_of(text) is None
