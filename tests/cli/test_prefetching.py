"""When is a volume filled, when has it failed, and what is told meanwhile?"""

import json
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.cli.fake_daemon import FakeDaemon

PREFETCH = "POST /v1/models/qwen/prefetch"
LIST = "GET /v1/deployments"


def entry(phase: str, *, name: str = "qwen-1", place: str = "A", **more: Any) -> dict[str, Any]:
    return {"id": name, "phase": phase, "fills": place, "reason": None, "refused": None} | more


def lists(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"schema": 1, "deployments": list(entries)}


def asked(*places: str, **more: Any) -> tuple[int, dict[str, Any]]:
    told = [{"place": place, "deployment": None, "refusal": None} | more for place in places]
    return 202, {"schema": 1, "alias": "qwen", "places": told}


def refusal(code: str, *, final: bool, detail: str | None = None) -> dict[str, Any]:
    told = {"code": code, "reason": "so it is", "final": final, "retry_after_seconds": None, "detail": detail}
    return {"refusal": told}


FILLED = entry("stopped", reason="prefetched")


def test_a_volume_is_filled_when_the_end_of_what_filled_it_is_proven(run: Run, daemon: FakeDaemon) -> None:
    daemon.will(PREFETCH, asked("A"))
    stopping = entry("stop-required", reason="prefetched")
    daemon.will(LIST, lists(), lists(entry("declared")), lists(entry("requested")), lists(stopping), lists(FILLED))
    ended = run("prefetch", "qwen")
    assert (ended.code, ended.out) == (0, "")
    assert "A: being filled by qwen-1 (requested)" in ended.err
    assert "A: filled; the proof of its stop is awaited" in ended.err
    assert ended.err.endswith("qwen, A: filled, and the stop of what filled it proven\n")


def test_what_was_filled_before_does_not_count(run: Run, daemon: FakeDaemon) -> None:
    daemon.will(PREFETCH, asked("A"))
    again = entry("stopped", name="qwen-2", reason="startup-deadline")
    daemon.will(LIST, lists(FILLED), lists(FILLED), lists(FILLED, again))
    ended = run("prefetch", "qwen")
    assert ended.code == 1
    assert "not filled: qwen-2 ended, startup-deadline" in ended.err


def test_the_wish_is_repeated_only_until_something_came_of_it(run: Run, daemon: FakeDaemon) -> None:
    daemon.will(PREFETCH, asked("A", "B"), asked("B", **refusal("refused", final=False)), asked("B"))
    one = entry("requested")
    two = entry("stopped", name="qwen-2", place="B", reason="prefetched")
    daemon.will(LIST, lists(), lists(one), lists(one), lists(FILLED, two))
    assert run("prefetch", "qwen").code == 0
    posts = [body for call, body in daemon.asked if call == PREFETCH]
    assert posts == [{}, {"place": "B"}, {"place": "B"}]


def test_only_the_places_that_are_named_are_asked_for(run: Run, daemon: FakeDaemon) -> None:
    daemon.will(PREFETCH, asked("A"), asked("B"))
    daemon.will(LIST, lists(), lists(FILLED, entry("stopped", name="qwen-2", place="B", reason="prefetched")))
    ended = run("prefetch", "qwen", "--place", "A", "--place", "B", "--place", "A", "--json")
    assert [body for call, body in daemon.asked if call == PREFETCH] == [{"place": "A"}, {"place": "B"}]
    told = json.loads(ended.out)["prefetch"]
    assert (ended.code, told["A"]["filled"], told["B"]["deployment"]) == (0, True, "qwen-2")


def test_what_is_under_way_already_is_waited_for_and_said_to_be(run: Run, daemon: FakeDaemon) -> None:
    daemon.will(PREFETCH, asked("A", deployment="qwen-1"))
    daemon.will(LIST, lists(entry("requested")), lists(FILLED))
    ended = run("prefetch", "qwen")
    assert ended.code == 0
    assert "qwen-1 fills it already; nothing more was asked for" in ended.err
    assert [call for call, _ in daemon.asked].count(PREFETCH) == 1


def test_without_waiting_it_says_what_was_asked_for_only(run: Run, daemon: FakeDaemon) -> None:
    daemon.will(PREFETCH, asked("A"))
    daemon.will(LIST, lists())
    ended = run("prefetch", "qwen", "--no-wait")
    assert (ended.code, ended.err) == (0, "qwen, A: asked for\n")


@pytest.mark.parametrize(
    ("told", "shown", "code", "words"),
    [
        (refusal("no_funds", final=True, detail="top up"), [], 4, "not begun: so it is: top up"),
        (refusal("budget_exhausted", final=True), [], 6, "not begun: so it is"),
        ({}, [entry("cancelled", refused="no instances available")], 4, "to be had there: no instances available"),
        ({}, [entry("stopped", reason="crash-loop")], 1, "not filled: qwen-1 ended, crash-loop"),
        ({}, [entry("disowned")], 1, "not filled: qwen-1 ended, disowned"),
    ],
)
def test_what_cannot_be_begun_or_comes_to_nothing_ends_with_why(
    run: Run, daemon: FakeDaemon, told: dict[str, Any], shown: list[dict[str, Any]], code: int, words: str
) -> None:
    daemon.will(PREFETCH, asked("A", **told))
    daemon.will(LIST, lists(), lists(*shown))
    ended = run("prefetch", "qwen")
    assert ended.code == code
    assert words in ended.err


def test_one_place_that_failed_does_not_end_the_wait_for_another(run: Run, daemon: FakeDaemon) -> None:
    daemon.will(PREFETCH, asked("A", "B"))
    failed = entry("cancelled", refused="none left")
    two = entry("requested", name="qwen-2", place="B")
    daemon.will(LIST, lists(), lists(failed, two), lists(failed, two | {"phase": "stopped", "reason": "prefetched"}))
    ended = run("prefetch", "qwen", "--json")
    told = json.loads(ended.out)["prefetch"]
    assert (ended.code, told["A"]["filled"], told["B"]["filled"]) == (4, False, True)


def test_when_the_limit_is_over_it_says_that_it_goes_on(run: Run, daemon: FakeDaemon) -> None:
    daemon.will(PREFETCH, asked("A"))
    daemon.will(LIST, lists(), lists(entry("requested")))
    ended = run("prefetch", "qwen", "--limit", "1s")
    assert ended.code == 1
    assert "what is under way goes on" in ended.err


@pytest.mark.parametrize(
    ("code", "status", "ends"), [("unknown_model", 404, 5), ("not_found", 404, 5), ("refused", 409, 6)]
)
def test_what_the_daemon_refuses_to_ask_for_ends_at_once(
    run: Run, daemon: FakeDaemon, code: str, status: int, ends: int
) -> None:
    daemon.will(LIST, lists())
    daemon.refuses(PREFETCH, code, "qwen has no volumes", status=status)
    ended = run("prefetch", "qwen")
    assert (ended.code, ended.err) == (ends, "qwen has no volumes\n")
