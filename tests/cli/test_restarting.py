"""When is a restart done, when has it failed, and what is told meanwhile?"""

import json
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.cli.fake_daemon import FakeDaemon

RESTART = "POST /v1/models/qwen/restart"
LIST = "GET /v1/deployments"


def entry(name: str, phase: str, **more: Any) -> dict[str, Any]:
    usual = {"id": name, "phase": phase, "reason": None, "replaces": None, "successor_refused": None}
    return usual | more


def lists(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"schema": 1, "deployments": list(entries)}


OLD = entry("qwen-1", "active")
GONE = entry("qwen-1", "stopped", reason="replaced")
NEW = entry("qwen-2", "active", replaces="qwen-1")


@pytest.fixture
def asked(daemon: FakeDaemon) -> FakeDaemon:
    daemon.will(RESTART, (202, {"schema": 1, "replaced": ["qwen-1"]}))
    return daemon


def test_a_restart_is_done_when_the_old_one_s_end_is_proven(run: Run, asked: FakeDaemon) -> None:
    draining = entry("qwen-1", "stop-required", reason="replaced")
    asked.will(LIST, lists(OLD), lists(draining, NEW), lists(GONE, NEW))
    ended = run("restart", "qwen")
    assert (ended.code, ended.out) == (0, "")
    assert "replaced, and the end of the old proven: qwen-1 by qwen-2" in ended.err
    assert "its successor serves" in ended.err


def test_for_scripts_there_is_json(run: Run, asked: FakeDaemon) -> None:
    asked.will(LIST, lists(GONE, NEW))
    ended = run("restart", "qwen", "--json")
    assert (ended.code, json.loads(ended.out)["replaced"]) == (0, {"qwen-1": "qwen-2"})


def test_without_waiting_it_says_accepted_only(run: Run, asked: FakeDaemon) -> None:
    ended = run("restart", "qwen", "--no-wait")
    assert ended.code == 0
    assert "accepted, not done" in ended.err
    assert [call for call, _ in asked.asked] == [RESTART]


def test_where_nothing_serves_there_is_nothing_to_replace(run: Run, daemon: FakeDaemon) -> None:
    daemon.will(RESTART, (202, {"schema": 1, "replaced": []}))
    ended = run("restart", "qwen")
    assert ended.code == 0
    assert "nothing to replace" in ended.err


def test_an_unknown_model_is_not_found(run: Run, daemon: FakeDaemon) -> None:
    daemon.refuses(RESTART, "unknown_model", "no model qwen", status=404)
    assert run("restart", "qwen").code == 5


def refused(code: str, *, final: bool) -> dict[str, Any]:
    return entry("qwen-1", "active", successor_refused={"code": code, "reason": "so it is", "final": final})


@pytest.mark.parametrize(
    ("old", "others", "code", "words"),
    [
        (refused("budget_exhausted", final=True), [], 6, "serves on, for no successor may be started: so it is"),
        (refused("no_funds", final=True), [], 4, "serves on"),
        (OLD, [entry("qwen-2", "stop-required", replaces="qwen-1", reason="crash-loop")], 1, "failed: crash-loop"),
        (entry("qwen-1", "stopped", reason="pod-exited"), [NEW], 1, "before it was replaced: pod-exited"),
        (entry("qwen-1", "disowned"), [NEW], 1, "before it was replaced: disowned"),
    ],
)
def test_what_keeps_it_from_being_replaced_ends_the_command(
    run: Run, asked: FakeDaemon, old: dict[str, Any], others: list[dict[str, Any]], code: int, words: str
) -> None:
    asked.will(LIST, lists(OLD), lists(old, *others))
    ended = run("restart", "qwen")
    assert ended.code == code
    assert words in ended.err


def test_a_successor_that_failed_before_is_no_failure_of_this_restart(run: Run, asked: FakeDaemon) -> None:
    earlier = entry("qwen-0", "stopped", replaces="qwen-1", reason="crash-loop")
    asked.will(LIST, lists(OLD, earlier), lists(earlier, OLD, NEW), lists(earlier, GONE, NEW))
    assert run("restart", "qwen").code == 0


def test_what_time_mends_is_waited_for_and_told(run: Run, asked: FakeDaemon) -> None:
    asked.will(LIST, lists(refused("no_capacity", final=False)), lists(GONE, NEW))
    ended = run("restart", "qwen")
    assert ended.code == 0
    assert "waits for its successor: so it is" in ended.err


def test_a_limit_ends_the_wait_and_not_the_replacement(run: Run, asked: FakeDaemon) -> None:
    asked.will(LIST, lists(OLD, entry("qwen-2", "requested", replaces="qwen-1")))
    ended = run("restart", "qwen", "--limit", "1ms")
    assert ended.code == 1
    assert "serves on, and the daemon goes on" in ended.err
