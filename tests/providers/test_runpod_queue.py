"""What waits in the queue under our name is seen, and what cannot be read there proves nothing."""

from datetime import timedelta
from typing import Any

import httpx
import pytest

from controller.core.deployment import ProviderState
from controller.core.evidence import StopReason
from controller.core.identity import ResourceKey
from controller.core.inventory import Listing, NotFound, Present
from controller.providers.writing import CreateUnknown, StopAccepted, StopNotFound, StopRefused
from tests.support.runpod_samples import NAME, ORDER, REQUEST, page, pod
from tests.support.scripted_runpod import Scripted, answer, problem

QUEUED: dict[str, Any] = {"id": "q1w2e3", "name": NAME, "status": "QUEUED", "queue": {"expiresAt": None}}
OTHER = QUEUED | {"id": "other1", "name": "jupyter"}
KEY = ResourceKey(provider="runpod", account="main", name=NAME, incarnation="queued:q1w2e3")
PODS = answer(200, page())


def queued(*entries: Any, cursor: str | None = None) -> httpx.Response:
    return answer(200, {"queuedPods": list(entries), "pagination": page(cursor=cursor)["pagination"]})


async def listed(*queue: httpx.Response | Exception) -> Listing:
    return await Scripted(PODS, queue=queue).reading.list_resources()


async def test_what_waits_under_our_name_is_listed_as_what_was_not_ordered() -> None:
    listing = await listed(queued(OTHER, cursor="c"), queued(QUEUED))
    (seen,) = listing.resources
    assert (seen.key, seen.tags.request, seen.state, seen.word) == (KEY, REQUEST, ProviderState.PENDING, "QUEUED")
    assert (seen.fault, seen.endpoint) == (StopReason.WRONG_RESOURCE, None)
    assert (listing.complete, listing.requests_readable) == (True, True)


async def test_each_page_of_the_queue_is_asked_for_by_the_name_that_the_one_before_gave_it() -> None:
    script = Scripted(PODS, queue=[queued(cursor="a b"), queued(cursor="c"), queued()])
    await script.reading.list_resources()
    assert [request.url.params.get("cursor") for request in script.queue_requests] == [None, "a b", "c"]


@pytest.mark.parametrize("word", ["DEPLOYED", "FAILED", "EXPIRED", "CANCELLED"])
async def test_what_waits_no_more_is_over(word: str) -> None:
    (seen,) = (await listed(queued(QUEUED | {"status": word}))).resources
    assert (seen.state, seen.fault) == (ProviderState.TERMINATED, None)


@pytest.mark.parametrize(
    ("queue", "readable"),
    [
        (queued(OTHER), True),
        (problem(404), True),
        (problem(405), True),
        (answer(404), False),
        (problem(403), False),
        (problem(500), False),
        (queued(QUEUED | {"name": None}), False),
        (queued(QUEUED | {"name": ""}), False),
        (queued(QUEUED | {"name": 7}), False),
        (queued(QUEUED | {"name": None, "status": ["EXPIRED"]}), False),
        (queued(QUEUED | {"name": None, "status": "EXPIRED"}), True),
        (queued(OTHER, None), False),
        (httpx.Response(500, content=queued(OTHER).content), False),
        (answer(200, {"queuedPods": None}), False),
        (answer(200, {"queuedPods": [], "pagination": {}}), False),
        (queued(cursor="c"), False),
        (httpx.ReadTimeout("silent"), False),
    ],
    ids=range(17),
)
async def test_a_queue_that_cannot_be_read_leaves_it_open_what_a_lost_create_made(queue: Any, readable: bool) -> None:
    listing = await listed(queue)
    assert (listing.complete, listing.requests_readable) == (True, readable)


async def test_while_something_of_ours_waits_a_listing_without_the_queue_is_not_complete() -> None:
    script = Scripted(PODS, queue=[queued(QUEUED), problem(500), queued()])
    assert [(await script.reading.list_resources()).complete for _ in range(3)] == [True, False, True]


async def test_the_queue_is_asked_every_ten_minutes_and_for_a_while_after_a_lost_create_in_each_listing() -> None:
    script, asked = Scripted(PODS), []

    async def after(minutes: float) -> None:
        script.clock.advance(timedelta(minutes=minutes))
        await script.reading.list_resources()
        asked.append(len(script.queue_requests))

    for minutes in (0, 9.9, 0.1, 1):
        await after(minutes)
    await script.writing.create(ORDER)
    for minutes in (1, 13.9, 0.1, 9.8, 0.1):
        await after(minutes)
    assert asked == [1, 1, 2, 2, 3, 4, 4, 4, 5]


@pytest.mark.parametrize(
    ("said", "known"),
    [(answer(201, pod()), True), (problem(402), True), (answer(202, {}), False), (httpx.ReadTimeout("silent"), False)],
    ids=["made", "refused", "accepted", "lost"],
)
async def test_a_create_of_which_is_known_what_it_made_is_not_looked_for_in_the_queue(said: Any, known: bool) -> None:
    script = Scripted(PODS, said, PODS)
    await script.reading.list_resources()
    outcome = await script.writing.create(ORDER)
    assert isinstance(outcome, CreateUnknown) is not known
    script.clock.advance(timedelta(minutes=1))
    await script.reading.list_resources()
    assert len(script.queue_requests) == (1 if known else 2)


async def test_a_stop_of_what_waits_is_its_cancellation() -> None:
    script = Scripted(answer(204), problem(404), problem(409))
    outcomes = [await script.writing.stop(KEY) for _ in range(3)]
    kinds: tuple[type[object], ...] = (StopAccepted, StopNotFound, StopRefused)
    assert all(isinstance(outcome, kind) for outcome, kind in zip(outcomes, kinds, strict=True))
    assert {(request.method, request.url.path) for request in script.requests} == {("DELETE", "/v2/queued-pods/q1w2e3")}


async def test_a_read_of_what_waits_tells_how_it_ended() -> None:
    script = Scripted(answer(200, QUEUED | {"status": "CANCELLED"}), problem(404), answer(200, pod()))
    shown = await script.reading.read_resource(KEY)
    assert isinstance(shown, Present)
    assert shown.resource.state is ProviderState.TERMINATED
    assert isinstance(await script.reading.read_resource(KEY), NotFound)
    assert not isinstance(await script.reading.read_resource(KEY), Present | NotFound)
