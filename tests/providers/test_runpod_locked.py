"""A pod that somebody locked is unlocked before its stop, and nothing else of a pod is ever changed."""

from typing import Any

import httpx
import pytest

from controller.providers.writing import StopAccepted, StopRefused
from tests.support.runpod_samples import KEY, page, pod
from tests.support.scripted_runpod import Scripted, answer, problem


def asked(script: Scripted) -> list[tuple[str, bytes]]:
    return [(request.method, request.content) for request in script.requests]


@pytest.mark.parametrize("shown", [page(pod(locked=True)), pod(locked=True)], ids=["listed", "read"])
@pytest.mark.parametrize("unlocked", [answer(200, pod()), problem(403), httpx.ReadTimeout("silent")], ids=range(3))
async def test_a_locked_pod_is_unlocked_before_its_stop_whatever_comes_of_that(shown: Any, unlocked: Any) -> None:
    script = Scripted(answer(200, shown), unlocked, answer(204))
    await (script.reading.list_resources() if "pods" in shown else script.reading.read_resource(KEY))
    assert isinstance(await script.writing.stop(KEY), StopAccepted)
    assert asked(script)[1:] == [("PATCH", b'{"locked": false}'), ("DELETE", b"")]


@pytest.mark.parametrize("locked", [False, None, ..., "yes"])
async def test_a_pod_that_is_not_locked_is_stopped_by_one_call(locked: Any) -> None:
    script = Scripted(answer(200, page(pod(locked=locked))), answer(204))
    await script.reading.list_resources()
    await script.writing.stop(KEY)
    assert asked(script)[1:] == [("DELETE", b"")]


async def test_a_pod_that_was_unlocked_since_is_stopped_by_one_call() -> None:
    script = Scripted(answer(200, page(pod(locked=True))), answer(200, page(pod())), answer(204))
    for _ in range(2):
        await script.reading.list_resources()
    await script.writing.stop(KEY)
    assert asked(script)[2:] == [("DELETE", b"")]


async def test_a_rate_limit_holds_the_unlocking_back_with_the_stop() -> None:
    slow = problem(429, **{"retry-after": "60"})
    script = Scripted(answer(200, page(pod(locked=True))), slow, answer(204))
    await script.reading.list_resources()
    outcomes = [await script.writing.stop(KEY) for _ in range(2)]
    assert all(isinstance(outcome, StopRefused) and outcome.retry_after for outcome in outcomes)
    assert [method for method, _ in asked(script)] == ["GET", "PATCH"]
