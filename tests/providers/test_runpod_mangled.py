"""Does no answer of Runpod's, however spoilt, raise, hide a machine of ours, or say more than it does?"""

from collections.abc import Callable
from dataclasses import fields
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, TypeVar

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.deployment import ProviderState, SeenResource
from controller.core.inventory import Listing, NotFound, Present, Read, Unreadable
from controller.providers.runpod.catalog import prices_in
from controller.providers.runpod.document import Unreadable as NoSense
from controller.providers.runpod.wire import Reader
from controller.providers.writing import (
    CreateAccepted,
    CreateOutcome,
    CreateRejected,
    CreateUnknown,
    StopAccepted,
    StopNotFound,
    StopOutcome,
    StopRefused,
    StopUnknown,
)
from controller.store.transaction import _plain_value
from tests.support.mangling import Raw, Twice, json_values, mangled, torn, written
from tests.support.runpod_samples import KEY, NAMESPACE, ORDER, POD_ID, REQUEST, page, pod, raw
from tests.support.scripted_runpod import PROBLEM_JSON, Scripted, answer
from tests.support.virtual_time import run_virtual

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
FOREIGN = pod(id="aaaaaaaaaaaaaa", name="jupyter", env={"A": "1"})
LISTED = page(FOREIGN, pod(), FOREIGN | {"id": "bbbbbbbbbbbbbb"})
OURS = ("pods", 1)
JSON = {"content-type": "application/json"}
T = TypeVar("T")


def asked(reply: httpx.Response, call: Callable[[Scripted], Any]) -> Any:
    return run_virtual(lambda: call(Scripted(reply)))


def ok(body: bytes, code: int = 200, headers: dict[str, str] | None = None) -> httpx.Response:
    return httpx.Response(code, content=body, headers=headers or JSON)


def listing(body: bytes) -> Listing:
    found: Listing = asked(ok(body), lambda runpod: runpod.reading.list_resources())
    return found


def read(reply: httpx.Response) -> Read:
    found: Read = asked(reply, lambda runpod: runpod.reading.read_resource(KEY))
    return found


def created(reply: httpx.Response) -> CreateOutcome:
    outcome: CreateOutcome = asked(reply, lambda runpod: runpod.writing.create(ORDER))
    return outcome


def stopped(reply: httpx.Response) -> StopOutcome:
    outcome: StopOutcome = asked(reply, lambda runpod: runpod.writing.stop(KEY))
    return outcome


def shown(found: Listing) -> bool:
    return any(seen.key.incarnation == POD_ID or seen.tags.request == REQUEST for seen in found.resources)


def assert_can_be_told(seen: SeenResource) -> None:
    """Everything in it goes into a row, a line and an answer as it is, and is no flood there."""
    for field in fields(seen):
        assert len(str(_plain_value(getattr(seen, field.name))).encode()) < 2000


# The listing


@given(mangled(LISTED, under=OURS).map(written))
def test_a_listing_with_our_pod_spoilt_shows_it_or_is_not_complete(body: bytes) -> None:
    found = listing(body)
    assert not found.complete or shown(found)
    for seen in found.resources:
        assert_can_be_told(seen)


@given(mangled(page(pod()), under=()).map(written))
def test_an_envelope_spoilt_around_our_pod_never_makes_a_complete_listing_without_it(body: bytes) -> None:
    found = listing(body)
    assert not found.complete or shown(found) or b'"id":"' not in body.replace(b" ", b"")


@given(torn(raw(LISTED)))
def test_a_torn_listing_is_not_complete(body: bytes) -> None:
    found = listing(body)
    assert not found.complete or shown(found)


@given(mangled(LISTED, under=("pods", 0)).map(written))
def test_a_foreign_pod_spoilt_hides_nothing_of_ours(body: bytes) -> None:
    found = listing(body)
    assert found.resources == () or shown(found)
    assert found.resources or not found.complete


@pytest.mark.parametrize(
    "spoilt",
    [
        LISTED | {"pods": Twice([pod()], [])},
        LISTED | {"pods": Twice([], [pod()])},
        page(pod(status=Twice("RUNNING", "TERMINATED"))),
        page(pod(id=Twice(POD_ID, "other"))),
        LISTED | {"pagination": Twice({"hasNextPage": True, "nextCursor": "c"}, {"hasNextPage": False})},
    ],
)
def test_a_field_said_twice_in_two_ways_says_nothing(spoilt: Any) -> None:
    assert not listing(written(spoilt)).complete


@pytest.mark.parametrize("queue", [False, True], ids=["listing", "queue"])
def test_half_a_character_as_the_next_page_ends_no_look(queue: bool) -> None:
    """It is in no URL: the look itself raised, and with it the observer's pass, for as long as it was said."""
    spoilt = {"hasNextPage": True, "nextCursor": "\ud800"}
    queued = answer(200, {"queuedPods": [{"id": "q", "name": "x", "status": "QUEUED"}], "pagination": spoilt})

    async def look() -> Listing:
        replies = answer(200, page(pod()) if queue else page(pod()) | {"pagination": spoilt})
        return await Scripted(replies, queue=[queued]).reading.list_resources()

    found = run_virtual(look)
    assert shown(found)
    assert (found.complete, found.requests_readable) == (queue, False)


def test_a_field_said_twice_in_one_way_is_said() -> None:
    assert listing(written(page(pod(status=Twice("RUNNING", "RUNNING"))))).complete


def test_a_foreign_pods_field_said_twice_leaves_the_listing_complete() -> None:
    assert listing(written(page(pod(), FOREIGN | {"env": {"A": Twice("1", "2")}}))).complete


@pytest.mark.parametrize(("cost", "known"), [("1e-10", None), ("1e-9", Decimal("1e-9")), ("0", 0), ("1e-999999", None)])
def test_a_rate_too_small_to_be_written_out_is_unknown(cost: str, known: Decimal | None) -> None:
    (seen,) = listing(written(page(pod(cost=Raw(cost))))).resources
    assert seen.usd_per_hour == known


@pytest.mark.parametrize(
    ("gpu", "offer"), [("\ud800", "?"), ("NVIDIA L40S", "NVIDIA L40S"), ("x" * 256, "x" * 256), ("x" * 257, "x" * 40)]
)
def test_a_type_of_machine_that_cannot_be_told_is_told_by_what_can(gpu: str, offer: str) -> None:
    (seen,) = listing(written(page(pod(gpu={"id": gpu, "count": 1})))).resources
    assert seen.offer == offer


# One read


@given(mangled(pod()).map(written) | torn(raw(pod())) | json_values.map(written))
def test_a_read_with_a_spoilt_answer_never_says_that_it_is_gone(body: bytes) -> None:
    found = read(ok(body))
    assert isinstance(found, Present | Unreadable)
    if isinstance(found, Present):
        assert found.resource.key.incarnation == POD_ID
        assert found.resource.state is not ProviderState.TERMINATED
        assert_can_be_told(found.resource)


SAID = {"title": "Not Found", "status": 404, "detail": "no such pod"}


@given(st.integers(200, 599), mangled(SAID).map(written) | torn(raw(SAID)), st.sampled_from([PROBLEM_JSON, JSON, {}]))
def test_only_a_404_that_says_so_itself_says_that_it_is_gone(code: int, body: bytes, headers: dict[str, str]) -> None:
    found = read(ok(body, code, headers))
    assert not isinstance(found, NotFound) or (code == 404 and headers == PROBLEM_JSON)
    assert not isinstance(found, Present)


# The calls that cost or stop


@given(mangled(pod()).map(written) | torn(raw(pod())) | json_values.map(written))
def test_a_create_with_a_spoilt_answer_is_ours_or_unknown(body: bytes) -> None:
    outcome = created(ok(body, 201))
    assert isinstance(outcome, CreateAccepted | CreateUnknown)
    if isinstance(outcome, CreateAccepted):
        assert outcome.resource.tags.request == REQUEST
        assert len(outcome.mismatch or "") <= 512


REFUSING = {400, 401, 402, 403, 404, 409, 413, 422, 429}


@given(
    st.integers(200, 599).filter(lambda code: code != 201),
    mangled(SAID).map(written) | mangled(pod()).map(written),
    st.sampled_from([PROBLEM_JSON, JSON]),
)
def test_a_create_is_refused_only_by_a_code_that_refuses(code: int, body: bytes, headers: dict[str, str]) -> None:
    outcome = created(ok(body, code, headers))
    if code in REFUSING and headers == PROBLEM_JSON:
        assert isinstance(outcome, CreateRejected | CreateUnknown)
    else:
        assert isinstance(outcome, CreateUnknown)


@given(
    st.integers(200, 599).filter(lambda code: code != 204),
    mangled(SAID).map(written) | torn(raw(SAID)),
    st.sampled_from([PROBLEM_JSON, JSON]),
)
def test_a_stop_is_accepted_by_a_204_alone(code: int, body: bytes, headers: dict[str, str]) -> None:
    outcome = stopped(ok(body, code, headers))
    assert isinstance(outcome, StopNotFound | StopRefused | StopUnknown)
    if isinstance(outcome, StopNotFound):
        assert code == 404
    if isinstance(outcome, StopRefused):
        assert code in {401, 403, 409, 429}


def test_a_stop_is_accepted_whatever_a_204_brings_along() -> None:
    assert isinstance(stopped(httpx.Response(204)), StopAccepted)


odd_headers = st.dictionaries(
    st.sampled_from(["retry-after", "date", "ratelimit"]),
    st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=40)
    | st.sampled_from(["9" * 400, "-1", "1e9", "Mon, 99 Xxx 99999 25:61:61 GMT", ";r=0;t=999999", "0", "1.5"]),
)


@given(st.sampled_from([200, 201, 204, 429, 503]), odd_headers)
def test_no_header_raises(code: int, headers: dict[str, str]) -> None:
    reply = answer(code, page(), **headers)
    read(reply), created(reply), stopped(reply)
    assert isinstance(asked(reply, lambda runpod: runpod.reading.list_resources()), Listing)


# The catalog

CATALOG = {"gpus": [{"id": "NVIDIA L40S", "price": {"secure": 0.79, "community": 0.5}}, {"id": "b", "price": {}}]}


@given(mangled(CATALOG).map(written) | torn(raw(CATALOG)) | json_values.map(written))
def test_a_spoilt_catalog_has_sensible_prices_or_none(body: bytes) -> None:
    prices = prices_in(body, wanted={})
    if not isinstance(prices, NoSense):
        assert all(0 < price <= 100_000 for price in prices.values())


def test_the_reader_of_one_page_forgets_what_it_cannot_describe() -> None:
    assert Reader(NAMESPACE).page(written(page(pod(id=Twice("a", "b")))), now=NOW).pods == ()
