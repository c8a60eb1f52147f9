"""Is a bill read whole or not at all?"""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from controller.core.billing import Bill, Bucket
from controller.providers.runpod.account import Account, open_api
from controller.providers.runpod.billing import bill_path, buckets_in, read_bill
from controller.providers.runpod.document import Unreadable, document
from tests.support.loop_clock import HandClock
from tests.support.runpod_samples import API_KEY

BEGIN = datetime(2026, 11, 30, 12, tzinfo=UTC)
RECORD: dict[str, Any] = {
    "podId": "p1",
    "startTime": "2026-11-30T12:00:00Z",
    "endTime": "2026-11-30T13:00:00Z",
    "totalAmount": 0.79,
    "gpuAmount": 0.79,
    "cpuAmount": 0.0,
    "diskAmount": 0.0,
}


def answer(*records: Any, count: Any = None, **more: Any) -> bytes:
    metadata = {"recordCount": len(records) if count is None else count}
    return json.dumps({"records": list(records), "metadata": metadata, **more}).encode()


def test_records_become_buckets_in_whole_millionths_rounded_up() -> None:
    dust = RECORD | {"podId": "p2", "totalAmount": 1e-9}
    assert buckets_in(answer(RECORD, dust)) == (
        Bucket(incarnation="p1", begin=BEGIN, end=BEGIN + timedelta(hours=1), micros=790_000),
        Bucket(incarnation="p2", begin=BEGIN, end=BEGIN + timedelta(hours=1), micros=1),
    )


def test_an_empty_bill_is_a_bill() -> None:
    assert buckets_in(answer()) == ()


def test_what_is_no_document_is_told_as_that_and_not_as_a_bill_without_records() -> None:
    assert buckets_in(b"<html>") == document(b"<html>") != buckets_in(b"{}")


@pytest.mark.parametrize(
    "body",
    [
        b"<html>", b"[]", b"{}", b'{"records": {}}', b'{"records": []}', answer(RECORD, count=2), answer(count=True),
        answer(RECORD, pagination={"hasNextPage": True}), answer(RECORD, pagination={}), answer(None),
        *[
            answer(RECORD, RECORD | spoilt)
            for spoilt in (
                {"podId": None}, {"podId": 7}, {"totalAmount": -0.01}, {"totalAmount": "0.79"}, {"totalAmount": True},
                {"totalAmount": None}, {"totalAmount": 1e300}, {"startTime": None},
                {"startTime": "2026-11-30T12:00:00"},
                {"startTime": "2026-11-30T12:30:00Z"}, {"endTime": "2026-12-01T12:00:00Z"}, {"endTime": "soon"},
            )
        ],
    ],
)  # fmt: skip
def test_whatever_is_odd_makes_all_of_it_unreadable(body: bytes) -> None:
    assert isinstance(buckets_in(body), Unreadable)


def test_a_bill_that_says_that_there_is_no_further_page_is_whole() -> None:
    assert isinstance(buckets_in(answer(RECORD, pagination={"hasNextPage": False})), tuple)


@pytest.mark.parametrize(("usd", "believed"), [(-1e-6, False), (0, True), (1_000_000, True), (1_000_000.01, False)])
def test_an_amount_is_nought_to_a_million(usd: float, believed: bool) -> None:
    assert isinstance(buckets_in(answer(RECORD | {"totalAmount": usd})), tuple) is believed


def test_hours_are_asked_for_from_a_begin_in_utc() -> None:
    assert bill_path(BEGIN) == "/billing/pods?bucketSize=hour&startTime=2026-11-30T12%3A00%3A00Z"


def account(reply: httpx.Response | Exception) -> Account:
    """One whose calls take a second each."""
    clock = HandClock()

    def answered(_: httpx.Request) -> httpx.Response:
        clock.advance(timedelta(seconds=1))
        if isinstance(reply, Exception):
            raise reply
        return reply

    transport = httpx.MockTransport(answered)
    return Account(open_api(key=API_KEY, api_url="https://api.example/v2", transport=transport), clock=clock)


async def billed(reply: httpx.Response | Exception) -> Bill:
    return await read_bill(account(reply), BEGIN)


async def test_a_bill_counts_as_of_when_it_was_asked_for() -> None:
    bucket = Bucket(incarnation="p1", begin=BEGIN, end=BEGIN + timedelta(hours=1), micros=790_000)
    reply = httpx.Response(200, content=answer(RECORD))
    assert await billed(reply) == Bill(since=BEGIN, asked_at=HandClock().now(), buckets=(bucket,))


@pytest.mark.parametrize(
    ("reply", "problem", "denied"),
    [
        (httpx.Response(401, content=answer(RECORD)), "the bill was answered with 401", True),
        (httpx.Response(403, content=answer(RECORD)), "the bill was answered with 403", True),
        (httpx.Response(201, content=answer(RECORD)), "the bill was answered with 201", False),
        (httpx.Response(404, content=answer(RECORD)), "the bill was answered with 404", False),
        (httpx.Response(200, content=answer(RECORD, count=2)), "not all of the bill is there", False),
        (httpx.ReadError("broken"), None, False),
        (httpx.ConnectError("nobody"), None, False),
    ],
    ids=range(7),
)
async def test_a_bill_that_did_not_come_says_why_and_bills_nothing(
    reply: Any, problem: str | None, denied: bool
) -> None:
    bill = await billed(reply)
    assert (bill.since, bill.asked_at, bill.buckets, bill.denied) == (BEGIN, HandClock().now(), (), denied)
    assert bill.problem == problem if problem is not None else bill.problem


async def test_a_bill_that_may_not_be_asked_for_yet_says_so() -> None:
    busy = account(httpx.Response(429, headers={"retry-after": "60"}))
    first, second = [await read_bill(busy, BEGIN) for _ in range(2)]
    assert first.problem == "the bill was answered with 429"
    assert second.problem not in {None, first.problem}
    assert (second.buckets, second.denied) == ((), False)
