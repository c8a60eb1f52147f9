"""Did a story end as it must, wherever its daemon ended?

The design's invariants, asked of truth, store and file once everything is quiet; and what only a crash can break: every
stop that was owed at the end left within 60 s of the restart, nothing bills, nothing is owed, and nobody acted on a
store that another had taken.
"""

import sqlite3
from collections.abc import Callable
from contextlib import closing

from tests.scenarios.invariants import Scene, check
from tests.simulation.crash_stage import LIMIT_S, QUIET_WITHIN_S, STOPS_WITHIN_S, Owed, Stage
from tests.simulation.kernel import BEGIN
from tests.simulation.machine import SERVER_KEY
from tests.simulation.stories import Story
from tests.simulation.town import ACCOUNT_KEY


def play(story: Story, stage: Stage) -> int:
    """Play it to its end, then until all is quiet, and end the daemon. Returns how many points the story itself had."""
    told = stage.town.clients.start(story.play(stage))
    _run(stage, told.done, within=LIMIT_S, what="the story's end")
    told.result()
    points = len(stage.points)
    stage.kernel.tell("story", "is told; now everything gets quiet")
    _run(stage, stage.quiet, within=QUIET_WITHIN_S, what="quiet")
    stage.box.end_daemon()
    _run(stage, lambda: stage.box.program is None, within=60, what="the daemon's end")
    return points


def _run(stage: Stage, holds: Callable[[], object], *, within: float, what: str) -> None:
    """Holding is asked for once a second: it is not cheap."""
    ends = stage.kernel.time + within
    while not holds():
        assert stage.kernel.time < ends, f"not within {within} s: {what}"
        tick = stage.kernel.time + 1.0
        stage.kernel.at(tick, lambda: None)
        stage.kernel.run(until=lambda: stage.kernel.time >= tick, limit=ends + 10)  # noqa: B023 - runs at once


def require(stage: Stage) -> None:
    """Raises AssertionError at the first rule that does not hold."""
    assert not stage.acts_of_others, stage.acts_of_others
    problems = [told for who in (stage.town.provider_program, *stage.daemons) for told in who.problems]
    assert not problems, problems
    given_up = [str(event) for event in stage.kernel.trace.last if "gave up" in event.what]
    assert stage.taken_from or not given_up, given_up
    truth = stage.provider.truth()
    _stops_left_in_time(stage)
    scene = Scene(
        state=stage.box.state,
        truth=truth,
        secrets=(SERVER_KEY, ACCOUNT_KEY),
        excepted=frozenset(stage.excepted),
    )
    check(scene)
    still_open = scene.rows("SELECT id, resource FROM obligations WHERE ended_at_ms IS NULL")
    assert not [row for row in still_open if not any(pod in (row["resource"] or "") for pod in stage.spared)]


def _stops_left_in_time(stage: Stage) -> None:
    """Invariant 9: what was due and addressable at the end was sent within 60 s of the restart, or had ended."""
    latest = max((owed.since for owed in stage.owed), default=0.0)
    for owed in stage.owed:
        if owed.since == latest:  # who ended again meanwhile had no 60 s
            assert _sent(stage, owed) or _ended(stage, owed), owed


def _sent(stage: Stage, owed: Owed) -> bool:
    began = BEGIN.timestamp() + owed.since
    return any(
        call.method == "DELETE" and call.path.endswith(owed.incarnation) and began <= call.at <= began + STOPS_WITHIN_S
        for call in stage.provider.calls
    )


def _ended(stage: Stage, owed: Owed) -> bool:
    with closing(sqlite3.connect(stage.box.store)) as connection:
        (ended,) = connection.execute("SELECT ended_at_ms FROM obligations WHERE id = ?", (owed.duty,)).fetchone()
    return ended is not None and ended / 1000 <= BEGIN.timestamp() + owed.since + STOPS_WITHIN_S
