"""How are the store and its ideal told the same, step by step, through crashes and old copies?

One store file after another, each opened by a process of its own, and `ideal` beside them. After each command both must
agree; what the one refuses the other must refuse, with nothing changed. Which commands there are stands in the test.
"""

import asyncio
import json
import shutil
import tempfile
from collections.abc import Callable
from copy import deepcopy
from dataclasses import fields
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from sqlalchemy import select
from sqlalchemy.engine import Connection

from controller.core.errors import Refusal
from controller.core.evidence_chain import BEFORE_THE_FIRST, verify
from controller.core.identity import RequestId, Tags
from controller.store import ledger, restoring, schema
from controller.store.errors import Stale
from controller.store.load import trimmed
from controller.store.store import Store
from controller.store.transaction import Tx
from controller.tasks.lease_keeper import LeaseKeeper
from tests.core.samples import hosting_policy
from tests.store.ideal import Ideal, Refused
from tests.support.clocks import HandClock
from tests.support.stores import open_store
from tests.support.virtual_time import VirtualLoop

POLICY = hosting_policy(max_active=3, usd_per_day=Decimal(40))
HOLDERS = ("daemon-1", "daemon-2")
REFUSALS = (Refusal, Stale, ledger.BudgetExhausted)
S = timedelta(seconds=1)
T = TypeVar("T")

numbers = st.integers(0, 40)
holders = st.sampled_from((HOLDERS[0], HOLDERS[0], HOLDERS[0], HOLDERS[1]))


class SideBySide(RuleBasedStateMachine):
    """One store and its ideal, through any number of processes."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self._runner = asyncio.Runner(loop_factory=VirtualLoop)
        self._clock = HandClock()
        self._processes = 0
        self.declared = 0
        self._copies: list[tuple[Path, Ideal]] = []
        self._epochs: set[tuple[str, int]] = set()
        self.holder = HOLDERS[0]
        self.ideal = Ideal(most=3, usd_per_day=40_000_000)

    @initialize()
    def begin(self) -> None:
        self._open(self._new_home())
        self._rows = self._run(self.store.read(rows_of))

    def teardown(self) -> None:
        self._check_evidence()
        self._run(self.store.close())
        self._runner.close()
        self._folder.cleanup()

    # Machinery

    def _run(self, awaited: Any) -> Any:
        return self._runner.run(awaited)

    def _new_home(self) -> Path:
        self._processes += 1
        home = Path(self._folder.name) / f"process-{self._processes}"
        home.mkdir()
        return home

    def _open(self, home: Path) -> None:
        self._home = home
        self.store: Store = self._run(open_store(home, self._clock, seed=self._processes, threads=False))

    @property
    def now(self) -> datetime:
        return self.store.now

    def both(self, real: Callable[[Tx], T], ideal: Callable[[Ideal, T | None], None]) -> None:
        """Play one command on both; a refusal leaves the book and every row as they were."""
        book, result, refused = self.store.book, None, False
        now, expected = self.now, deepcopy(self.ideal)
        try:
            result = self._run(self.store.write(real))
        except REFUSALS:
            refused = True
        try:
            ideal(expected, result)
        except Refused:
            assert refused, "the contract refuses it"
            assert self.store.book is book
            assert self._run(self.store.read(rows_of)) == self._rows
            return
        assert not refused, "the contract allows it"
        self.ideal = expected
        self._rows = self._run(self.store.read(rows_of))
        assert self.now >= now

    def pick(self, found: Any, number: int) -> str:
        listed = sorted(found)
        return listed[number % len(listed)] if listed else ""

    def clock_back(self) -> bool:
        return not self.store.clock.sound

    def tags(self, request: str, *, foreign: bool = False) -> Tags:
        owner = self.store.book.owner
        name = "somebody" if foreign else owner.name
        return Tags(owner=name, installation=owner.installation, epoch=1, request=RequestId(request))

    # Time and processes

    @rule(seconds=st.sampled_from([1, 59, 300, 301, 3600, 40_000]))
    def time_passes(self, seconds: int) -> None:
        self._clock.move(seconds * S)

    @rule(seconds=st.sampled_from([1, 400, 90_000]))
    def the_wall_clock_goes_back(self, seconds: int) -> None:
        self._clock.set_wall(self._clock.now() - seconds * S)

    @rule()
    def leases_are_renewed(self) -> None:
        now, keeper = self.now, LeaseKeeper(store=self.store, policy=POLICY, holder=self.holder)
        self.both(keeper._renew, lambda ideal, _: ideal.renewed(self.holder, now))

    @rule()
    def lapsed_leases_are_taken_anew(self) -> None:
        now = self.now
        self.both(
            lambda tx: restoring.take_leases(tx, policy=POLICY, holder=self.holder),
            lambda ideal, _: ideal.lapsed_taken(self.holder, now),
        )

    @rule(holder=holders)
    def crash_and_restart(self, holder: str) -> None:
        """The next process finds the file as of the last commit, and reads from it the book that there was."""
        expected = shown(trimmed(self.store.book, self._clock.now()))
        home = self._copied()
        self._run(self.store.close())
        self._open(home)
        assert shown(self.store.book) == expected
        self._restore(holder)

    def _copied(self) -> Path:
        home = self._new_home()
        for name in ("store.db", "store.db-wal"):
            if (self._home / name).exists():
                shutil.copy(self._home / name, home / name)
        return home

    def _restore(self, holder: str) -> None:
        self.holder, now = holder, self.now
        self.both(
            lambda tx: restoring.restore(tx, policy=POLICY, holder=holder),
            lambda ideal, _: ideal.restarted(holder, now),
        )

    @rule()
    def back_up(self) -> None:
        self._copies.append((self._copied(), deepcopy(self.ideal)))

    @rule(n=numbers, holder=holders)
    def restore_an_old_copy(self, n: int, holder: str) -> None:
        """What came after it is forgotten: as of today its epochs too (RP-52 will have them raised above those)."""
        if self._copies:
            self._check_evidence()
            home, ideal = self._copies.pop(n % len(self._copies))
            self._run(self.store.close())
            self._open(home)
            self.ideal, self._rows = deepcopy(ideal), self._run(self.store.read(rows_of))
            self._epochs = granted(self.store)
            self._restore(holder)

    # What holds at any time

    @invariant()
    def both_agree(self) -> None:
        book, ideal = self.store.book, self.ideal
        assert {record.id for record in book.live()} == set(ideal.live())
        for name, record in book.records.items():
            place = ideal.places[name]
            found = record.key and record.key.incarnation
            assert (record.phase.value, record.reason, found) == (place.phase, place.reason, place.key), name
            wished, proven = record.restart_asked_at is not None, record.proven_at is not None
            assert (record.replaces, wished, proven) == (place.replaces, place.restart_asked, place.proven), name
        assert {duty.id for duty in book.obligations.values() if duty.open} == set(ideal.open())
        for obligation, duty in book.obligations.items():
            owed = ideal.owed[obligation]
            told = (duty.key and duty.key.incarnation, duty.due_at is not None, duty.ending, duty.stop_in_flight)
            assert told == (owed.key, owed.due, owed.ending, owed.in_flight), obligation
            assert duty.stop_answer == owed.answer
        day = self.now.date().isoformat()
        exposures = [held.exposure_micros for held in book.reservations.values() if held.day == day]
        assert sum(exposures) == ideal.exposure(day)

    @invariant()
    def each_submitted_create_has_one_obligation(self) -> None:
        for request, call in self.ideal.calls.items():
            if call.marked_at is not None:
                assert len([duty for duty in self.ideal.owed.values() if duty.request == request]) == 1

    @invariant()
    def leases_stand_as_granted_under_epochs_that_rise(self) -> None:
        book = self.store.book
        held = {name: (lease.holder, lease.expires_at) for name, lease in book.leases.items() if lease.expires_at}
        assert held == self.ideal.leases
        new = granted(self.store) - self._epochs
        latest = max((epoch for _, epoch in self._epochs), default=0)
        assert all(epoch > latest for _, epoch in new)
        assert len({epoch for _, epoch in new}) == len(new)
        assert book.epoch_latest >= max((epoch for _, epoch in new), default=latest)
        self._epochs |= new
        for record in book.live():
            assert record.epoch == book.leases[record.id].epoch

    def _check_evidence(self) -> None:
        texts = self._run(self.store.read(lambda sql: list(sql.execute(select(schema.evidence.c.line)).scalars())))
        lines = sorted(map(json.loads, texts), key=lambda line: int(line["seq"]))
        assert [line["seq"] for line in lines] == list(range(1, self.store.book.seq_latest + 1))
        assert verify(lines, BEFORE_THE_FIRST) is None
        assert self.store.book.hash_latest == (lines[-1]["hash"] if lines else BEFORE_THE_FIRST)


def granted(store: Store) -> set[tuple[str, int]]:
    return {(lease.deployment, lease.epoch) for lease in store.book.leases.values()}


def rows_of(sql: Connection) -> dict[str, list[Any]]:
    tables = [table.name for table in schema.metadata.sorted_tables]
    return {table: [tuple(row) for row in sql.exec_driver_sql(f"SELECT * FROM {table}")] for table in tables}


def shown(book: Any) -> dict[str, Any]:
    return {field.name: getattr(book, field.name) for field in fields(book)}
