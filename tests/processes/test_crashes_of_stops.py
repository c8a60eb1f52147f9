"""Is a machine stopped and its duty ended, whatever step of that the daemon is killed at?

`kill -9` comes before and after the commits of a declaration, a create's answer, a stop's mark, its answer and the
discharge. A trigger that takes long holds the daemon in the transaction it is to die in; the last line of the evidence
file is torn.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from tests.processes.box import TEST_LIMIT, Box, box
from tests.processes.children import until
from tests.processes.test_crashes import require_one_life

pytestmark = pytest.mark.process

SLOW = """
CREATE TRIGGER slow BEFORE {event} WHEN {when} BEGIN
    SELECT count(*) FROM (
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 100000000) SELECT i FROM n
    );
END
"""
MARK = "old.stop_submitted_at_ms IS NULL AND new.stop_submitted_at_ms IS NOT NULL"
ANSWER = "new.stop_answer IN ('accepted', 'not-found')"
DISCHARGE = "new.ending = 'discharged'"
LOOKS_LOCKED = 20


@contextmanager
def slow(world: Box, when: str, *, event: str = "UPDATE ON obligations") -> Iterator[None]:
    """While inside, a transaction that does this takes very long; whoever is in it is to be killed there."""
    with closing(sqlite3.connect(world.store, isolation_level=None, timeout=10)) as connection:
        connection.execute(SLOW.format(event=event, when=when))
        yield
        connection.execute("DROP TRIGGER slow")


async def killed_in_it(world: Box, *, within: float = 10) -> None:
    """Wait until the daemon is in a transaction that does not end, and kill it there."""
    locked = [0]

    def stuck() -> bool:
        with closing(sqlite3.connect(world.store, isolation_level=None, timeout=0)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("ROLLBACK")
                locked[0] = 0
            except sqlite3.OperationalError:
                locked[0] += 1
        return locked[0] >= LOOKS_LOCKED

    await until(stuck, within=within, what="a transaction that takes long")
    await killed(world)


async def killed(world: Box) -> None:
    """And the last line that it told is torn."""
    await world.children[-1].kill()
    with world.evidence.open("ab") as file:
        file.write(b'{"seq": 1234567, "at": "20')


def answered(world: Box) -> bool:
    return bool(world.rows(f"SELECT 1 FROM obligations AS new WHERE {ANSWER}"))


def ended(world: Box) -> bool:
    return world.open_duties() == []


async def test_start_outlives_a_kill_before_its_declaration_and_one_after_its_answer_is_on_record() -> None:
    async with box() as world:
        with slow(world, "1", event="INSERT ON deployments"):
            await world.run_daemon()
            await world.start_model()
            await killed_in_it(world)
        assert (world.rows("SELECT id FROM deployments"), await world.creates()) == ([], [])
        await world.run_daemon()
        await world.start_model()
        await until(lambda: world.rows("SELECT 1 FROM creates WHERE answer = 'accepted'"), within=10, what="its answer")
        await killed(world)
        await world.run_daemon()
        await world.phase("ready")
        assert len(await world.creates()) == 1
        await require_one_life(world)


async def test_stop_outlives_a_kill_at_each_of_its_steps() -> None:
    async with box(limit=2 * TEST_LIMIT) as world:
        await world.run_daemon()
        await world.serving()
        with slow(world, MARK):
            await world.daemon.post("/v1/models/m1/stop", {"now": True})
            await killed_in_it(world)
        assert await world.calls("DELETE") == []

        await world.fault({"hang": 60}, method="DELETE", path="/v2/pods/*")
        await world.run_daemon()
        await world.eventually(lambda: _asked(world), within=5, what="the stop, of itself")
        await killed(world)
        await world.clear_faults()
        assert len(await world.alive()) == 1

        with slow(world, ANSWER):
            await world.run_daemon()
            await killed_in_it(world)
        assert (await world.alive(), answered(world)) == ([], False)

        await world.fault({"answer": 500}, method="GET", path="/v2/pods*")  # nothing proves it meanwhile
        await world.run_daemon()
        await until(lambda: answered(world), within=10, what="the answer on record")
        await killed(world)
        await world.clear_faults()

        with slow(world, DISCHARGE):
            await world.run_daemon()
            await killed_in_it(world)
        assert not ended(world)

        await world.run_daemon()
        await until(lambda: ended(world), within=15, what="the discharge")
        await killed(world)

        await world.run_daemon()
        assert len(await world.recorded("obligation.discharged")) == 1
        assert len(world.lines("daemon.started")) == 7
        await require_one_life(world)


async def _asked(world: Box) -> bool:
    return len(await world.calls("DELETE")) == 1
