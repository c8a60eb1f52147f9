"""What is left of a create when its daemon is killed at the worst instant?

At most one machine at a time, at most one create for a request, and in the end the machine serves or is proven gone.
Each test kills at an instant that it made last: by a provider that hangs, by a lock on the store, by a trigger in it.
"""

import sqlite3
from contextlib import closing

import pytest

from tests.processes.box import Box, box
from tests.processes.children import until

pytestmark = pytest.mark.process

SLOW_MARK = """
CREATE TRIGGER slow_mark BEFORE INSERT ON creates WHEN new.submitting_at_ms IS NOT NULL BEGIN
    SELECT count(*) FROM (
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 100000000) SELECT i FROM n
    );
END
"""


async def require_one_life(world: Box) -> None:
    """No request was sent twice, no two machines lived at once."""
    requests = [line["request"] for line in world.lines("create.submitted")]
    assert len(requests) == len(set(requests))
    spans = [(pod["created_at"], pod["deleted_at"] or float("inf")) for pod in await world.pods()]
    assert all(former[1] <= latter[0] for former, latter in zip(sorted(spans), sorted(spans)[1:], strict=False))
    await world.require_whole_evidence()


async def test_killed_before_the_commit_of_its_mark_nothing_is_on_record_and_nothing_was_sent() -> None:
    async with box() as world:
        daemon = await world.run_daemon()
        with closing(sqlite3.connect(world.store, isolation_level=None, timeout=5)) as connection:
            connection.execute(SLOW_MARK)
            await world.start_model()
            await until(lambda: _long_locked(world), within=10, what="the commit of an intent")
            await daemon.kill()
            connection.execute("DROP TRIGGER slow_mark")
        assert await world.creates() == []
        await world.run_daemon()
        assert await world.obligations() == []
        await world.serving()
        assert len(await world.pods()) == 1
        await require_one_life(world)


def _long_locked(world: Box) -> bool:
    """Is somebody in the midst of a commit that takes longer than any other?"""
    try:
        with closing(sqlite3.connect(world.store, isolation_level=None, timeout=0.3)) as connection:
            connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError:
        return True
    return False


async def test_killed_after_the_mark_with_nothing_made_the_duty_ends_by_proof_and_a_new_start_follows() -> None:
    async with box() as world:
        await world.fault({"hang": 60}, method="POST", path="/v2/pods")
        daemon = await world.run_daemon()
        await world.start_model()
        await world.eventually(lambda: _sent(world), within=10, what="the create")
        await daemon.kill()
        await world.clear_faults()
        ((_, epoch),) = world.open_duties()
        await world.run_daemon()
        (duty,) = [duty for duty in await world.obligations() if duty["ended_at"] is None]
        assert (await world.model())["phase"] == "uncertain"
        assert world.open_duties()[0][1] > epoch
        await world.all_ended(within=25)
        assert [line["obligation"] for line in await world.recorded("obligation.discharged")] == [duty["id"]]
        await world.serving()
        assert len(await world.pods()) == 1
        await require_one_life(world)


async def _sent(world: Box) -> bool:
    return len(await world.creates()) == 1


async def test_killed_after_the_machine_was_made_and_before_the_answer_it_is_adopted() -> None:
    async with box() as world:
        await world.fault({"hang": 60, "effect": True}, method="POST", path="/v2/pods")
        daemon = await world.run_daemon()
        await world.start_model()
        await world.eventually(lambda: _made(world), within=10, what="the pod")
        await daemon.kill()
        ((_, epoch),) = world.open_duties()
        await world.run_daemon()
        assert world.open_duties()[0][1] > epoch
        await _served_or_proven_gone(world)
        await require_one_life(world)


async def test_killed_while_the_provider_still_works_the_machine_that_comes_later_is_found() -> None:
    async with box() as world:
        await world.fault({"delay": 1.5}, method="POST", path="/v2/pods")
        daemon = await world.run_daemon()
        await world.start_model()
        await world.eventually(lambda: _sent(world), within=10, what="the create")
        await daemon.kill()
        assert await world.pods() == []
        await world.run_daemon()
        await world.eventually(lambda: _made(world), within=10, what="the pod")
        await _served_or_proven_gone(world)
        await require_one_life(world)


async def test_killed_after_the_answer_and_before_its_commit_the_machine_is_adopted() -> None:
    async with box() as world:
        await world.fault({"delay": 1}, method="POST", path="/v2/pods")
        daemon = await world.run_daemon()
        await world.start_model()
        await world.marked()
        with world.write_lock():
            await world.eventually(lambda: _answered(world), within=10, what="the answer")
            await daemon.kill()
        assert world.rows("SELECT answer FROM creates") == [(None,)]
        await world.run_daemon()
        await _served_or_proven_gone(world)
        await require_one_life(world)


async def _made(world: Box) -> bool:
    return len(await world.pods()) == 1


async def _answered(world: Box) -> bool:
    return [call["status"] for call in await world.creates()] == [201]


async def _served_or_proven_gone(world: Box) -> None:
    """Whoever wished for it before the crash is gone: it may be stopped as well as adopted, and nothing between."""

    async def settled() -> bool:
        duties = await world.obligations()
        return (await world.model())["phase"] == "ready" or all(duty["ended_at"] for duty in duties)

    await world.eventually(settled, within=25, what="a machine that serves or is gone")
    if (await world.model())["phase"] == "ready":
        assert len(await world.alive()) == 1
        await world.daemon.post("/v1/models/m1/stop", {"now": True})
    await world.all_ended()
    assert len(await world.creates()) == 1
