"""What does one seed do?

Draws the plan, lets the hours pass under audit, then makes the provider honest and reachable and the clients silent: in
bounded time nothing may be billed that is not wanted, and nothing may be owed. What the run measured is its result.
"""

import shutil
import sqlite3
import tempfile
import time
import traceback
from contextlib import closing, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.simulation.audit import Audit
from tests.simulation.excuses import UNSURE
from tests.simulation.filed import lines_of, missing_from, problems_in, secrets_in
from tests.simulation.machine import Machine
from tests.simulation.overdue import Overdue
from tests.simulation.plan import plan, settle_in
from tests.simulation.playing import playing
from tests.simulation.stage import Stage
from tests.simulation.town import SECRETS, Town

HOUR: Final = 3600.0
QUIET_WITHIN_S: Final = 3 * HOUR
"""Idle 300 s, a drain of 600 s, a startup deadline of 900 s that may double, proof of absence: with room."""
BILL_QUIET_WITHIN_S: Final = 12 * HOUR
"""What was owed by its bill is so until the bill was quiet for whole hours, and those could not change any more."""
FULL_EVERY_S: Final = 2 * HOUR
MODELS: Final = ("m1", "m2")
FILED_WITHIN_S: Final = 120.0
ON_ITS_WAY_S: Final = 5.0
BILLED: Final = "billed-after-stop"
UNFILED: Final = UNSURE | {"evidence-rotated", "config-broken", "clock-jump"}
"""Without these, what was committed is in the file some seconds later."""
SCRATCH: Final = Path("/dev/shm")


@dataclass(kw_only=True)
class Result:
    """What one run came to. Times in simulated seconds, `cpu_s` in real ones."""

    seed: int
    hours: float
    digest: str
    failed: str | None = None
    invariant: int | None = None
    at: float = 0.0
    cpu_s: float = 0.0
    numbers: dict[str, float] = field(default_factory=dict)
    staged: dict[str, int] = field(default_factory=dict)
    last: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Draft:
    """What one run is to play. `only` and `without` narrow the kinds of trouble down."""

    hours: float
    mix: str = "standard"
    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


def run(seed: int, draft: Draft, *, trace: Path | None = None) -> Result:
    """Play one seed in this process. It is to end without looking back: what died in it must not be collected.
    `trace`: a file that gets every event."""
    began = time.process_time()
    folder = Path(tempfile.mkdtemp(prefix="gpuwarden-sim-", dir=SCRATCH if SCRATCH.is_dir() else None))
    try:
        with playing(), nullcontext() if trace is None else trace.open("w") as file:
            played = _Run(folder, seed, draft)
            if file is not None:
                played.town.kernel.trace.sink = lambda event: print(event, file=file)
            return played.play(began)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Run:
    def __init__(self, folder: Path, seed: int, draft: Draft) -> None:
        self.seed, self.draft = seed, draft
        self.town = Town(folder, seed=seed, models=MODELS)
        self.town.kernel.trace.folder = str(folder)
        self.audit = Audit(self.town)
        self.overdue = Overdue(self.audit)
        self.town.on_machine = self.audit.watch
        self.failure: str | None = None

    def play(self, began: float) -> Result:
        kernel, invariant = self.town.kernel, None
        try:
            self.overdue.begin()
            settle_in(self.town)
            draft = self.draft
            drawn = plan(self.town, self.seed, draft.hours, draft.mix, only=draft.only or None, without=draft.without)
            kernel.after(FULL_EVERY_S, self._look_fully)
            self._until(draft.hours * HOUR)
            drawn.make_honest()
            self._look_again(drawn.stage)
            kernel.tell("plan", "the provider is honest, the clients are gone")
            self._quiet()
            self._look_fully()
            self._raise()
        except Exception as problem:
            self.failure = "".join(traceback.format_exception_only(problem)).strip()
            invariant = getattr(problem, "invariant", None)
            if invariant is None:
                self.failure = "".join(traceback.format_exception(problem))
        return self._result(time.process_time() - began, invariant)

    def _until(self, end: float) -> None:
        kernel = self.town.kernel
        kernel.at(end, lambda: None)
        kernel.run(until=lambda: kernel.time >= end or self.audit.first is not None, limit=end + 1)
        self._raise()

    def _raise(self) -> None:
        if self.audit.first is not None:
            raise self.audit.first

    def _look_again(self, stage: Stage) -> None:
        """A provider that asked for a day of patience has it; who reads the alarm, and knows better, restarts."""
        for machine in self.town.machines.values():
            if machine.daemon is not None and self.overdue.told_to_wait(machine):
                stage.cycle(machine)

    def _quiet(self) -> None:
        kernel = self.town.kernel
        begun, limit = kernel.time, kernel.time + QUIET_WITHIN_S
        while self._left() and kernel.time < limit:
            self._until(kernel.time + 60.0)
        if left := self._left():
            self.audit.numbers["owed at the end"] += len(left)
            self.audit.violated(10, f"after {QUIET_WITHIN_S:.0f} s of quiet there is still {', '.join(left)}")
            self._raise()
        self.audit.numbers["quiet after s"] = int(kernel.time - begun)
        while self._billed() and kernel.time < begun + BILL_QUIET_WITHIN_S:
            self._until(kernel.time + 600.0)
        if billed := self._billed():
            self.audit.numbers["owed at the end"] += len(billed)
            self.audit.violated(10, f"after {BILL_QUIET_WITHIN_S:.0f} s of a quiet bill there is still {billed[0]}")
            self._raise()

    def _billed(self) -> list[str]:
        """What is owed for having been billed after its end."""
        return [
            f"obligation {duty.id} of {name}"
            for name, told in self.audit.told.items()
            for duty in told.duties.values()
            if duty.open and duty.reason == BILLED
        ]

    def _left(self) -> list[str]:
        """What is billed, or owed, though nobody wants anything any more; but for what only the bill can end."""
        known = {told.installation for told in self.audit.told.values()}
        alive = [
            f"pod {life.pod.id}"
            for life in self.audit.lives.values()
            if life.pod.alive and life.installation in known and life.pod.account == self.town.provider.settings.account
        ]
        owed = [
            f"obligation {duty.id} of {name}"
            for name, told in self.audit.told.items()
            for duty in told.duties.values()
            if duty.open and duty.reason != BILLED
        ]
        return alive + owed

    # The full look

    def _look_fully(self) -> None:
        for machine in self.town.machines.values():
            if machine.store.exists() and not machine.disk.locked:
                _compare(self.audit, machine)
        for problem in self.town.kernel.problems():
            self.audit.violated(0, problem)
        self.town.kernel.after(FULL_EVERY_S, self._look_fully)

    def _result(self, cpu_s: float, invariant: int | None) -> Result:
        kernel, audit = self.town.kernel, self.audit
        numbers: dict[str, float] = dict(audit.numbers)
        numbers["leaked s"] = round(self.overdue.leaked)
        numbers["worst due s"] = self.overdue.worst_due
        numbers["deaths"] = kernel.deaths
        numbers["epochs repeated"] = sum(told.repeated for told in audit.told.values())
        for told in audit.told.values():
            for event, count in told.events.items():
                numbers[f"line {event}"] = numbers.get(f"line {event}", 0) + count
        return Result(
            seed=self.seed,
            hours=kernel.time / HOUR,
            digest=kernel.trace.digest,
            failed=self.failure,
            invariant=invariant,
            at=kernel.time,
            cpu_s=cpu_s,
            numbers=dict(numbers),
            staged=dict(self.town.staged.counts),
            last=[str(event) for event in kernel.trace.last] if self.failure else [],
        )


def _compare(audit: Audit, machine: Machine) -> None:
    """Rows and lines agree, the file says what the store says, and nothing secret is written (invariants 1, 7, 8)."""
    told = audit.told.get(machine.name)
    if told is None:
        return
    with closing(sqlite3.connect(f"file:{machine.store}?mode=ro", uri=True)) as connection:
        rows = dict(connection.execute("SELECT id, ending FROM obligations").fetchall())
        stored = [text for (text,) in connection.execute("SELECT line FROM evidence ORDER BY seq")]
    lines = {duty.id: duty.ending for duty in told.duties.values()}
    if rows != lines:
        audit.violated(1, f"rows and lines differ: {set(rows.items()) ^ set(lines.items())}")
    if machine.daemon is not None and audit.town.kernel.time - told.added_at >= ON_ITS_WAY_S:
        _compare_file(audit, machine, stored)
    for name in secrets_in(machine, SECRETS):
        audit.violated(7, f"a secret is in {name} of {machine.name}")


def _compare_file(audit: Audit, machine: Machine, stored: list[str]) -> None:
    """While a daemon is up, and has declared that its store is an old copy, if it is one."""
    filed = lines_of(machine)
    for problem in problems_in(filed, stored):
        audit.violated(8, f"{machine.name}: {problem}")
    if _writes(audit, machine) and (missing := missing_from(filed, stored)):
        audit.violated(8, f"{missing} lines of {machine.name} are not in the file")


def _writes(audit: Audit, machine: Machine) -> bool:
    """Has its daemon been up for a while, with nothing in the way of the file?"""
    if machine.daemon is None or machine.program is None or machine.program.stopped:
        return False
    now = audit.town.kernel.time
    return not audit.town.staged.touching(UNFILED, now - FILED_WITHIN_S, now)
