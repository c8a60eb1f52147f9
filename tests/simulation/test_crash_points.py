"""Do the crash points hold, in short, and would the harness see it if they did not?

Each run is a process of its own: what a crash leaves suspended is never collected. `make crash-points` plays them all.
"""

import os
import subprocess
import sys

import pytest

from tests.simulation.crash_points import Plan
from tests.simulation.crash_stage import Point


def report(*words: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation.crash_report", *words],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONHASHSEED": "0"},
    )
    return done.returncode, done.stdout + done.stderr


def test_daemon_that_ends_at_any_point_between_a_request_and_the_proof_of_its_stop_loses_nothing() -> None:
    code, told = report("--short")
    assert (code, told.splitlines()[-1]) == (0, "all hold"), told
    for kind in (
        "before commit",
        "during POST /v2/pods",
        "after DELETE /v2/pods/…",
        "before file",
        "after GET /",  # a few of the mere looks are drawn, whichever they are
    ):
        assert f" × {kind}" in told


@pytest.mark.parametrize(
    ("plant", "story", "kinds"),
    [
        ("mark-after-create", "start", "POST"),
        ("stop-stays-in-flight", "stop-now", "DELETE"),
        ("torn-line-stays", "start", "file"),
        ("book-is-believed", "take-over", "POST"),
    ],
)
def test_planted_defect_is_caught(plant: str, story: str, kinds: str) -> None:
    code, told = report("--plant", plant, "--stories", story, "--kinds", kinds, "--first")
    assert code == 1
    assert f"does not hold: {story}" in told


@pytest.mark.parametrize(
    "plan", [Plan("start"), Plan("start", (7,)), Plan("stop-now", (7, 31)), Plan("start", (), (9,))]
)
def test_plan_is_read_back_from_the_word_that_replays_it(plan: Plan) -> None:
    assert Plan.read(plan.word) == plan


@pytest.mark.parametrize(
    ("what", "kind", "always"),
    [
        ("before commit", "before commit", True),
        ("after file", "after file", True),
        ("during POST /v2/pods", "during POST /v2/pods", True),
        ("after DELETE /v2/pods/apjl3w9sisxy3c", "after DELETE /v2/pods/…", True),
        ("before GET /v2/pods?limit=1000", "before GET /v2/pods", False),
        ("after POST /graphql", "after POST /graphql", False),
    ],
)
def test_point_that_writes_costs_or_stops_is_always_visited(what: str, kind: str, always: bool) -> None:
    point = Point(1, 0.0, "box.1", what)
    assert (point.kind, point.always) == (kind, always)
