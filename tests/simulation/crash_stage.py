"""In what is a story played whose daemon may end at any point?

A town with one machine, whose every commit, file write and call outward is a numbered point. At the points chosen the
daemon ends (or is stopped while another takes its store over), and comes back after five seconds. The people of a story
do as real ones do: what was cut or refused for now is asked again.
"""

import asyncio
import json
import re
import sqlite3
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from controller.api.client import Problem, Unreachable
from controller.core.book import Book
from controller.http1 import Disconnected, NotConnected, Overdue, TooLarge
from controller.store.database import FileLock
from tests.simulation.kernel import BEGIN, Program
from tests.simulation.machine import RESTART_AFTER_S, Machine
from tests.simulation.town import OWNER, Town

POLICY: Final = """
settle = "30s"
orphan_grace = "30s"
stop_again_after = "20s"
stop_backoff_max = "20s"
stream_lease = "6s"
stream_lease_renewal = "2s"
listing_fast = "10s"
listing_steady = "30s"
listing_idle = "30s"
listing_fast_for = "30s"
round_gap = "5s"
starts_per_hour = 100
starts_per_day = 100
"""
SHORTER: Final = {'"300s"': '"40s"', '"900s"': '"60s"'}
"""Idle time and startup deadline of the stories."""
AGAIN_S: Final = 5.0
ATTEMPTS: Final = 60
PATIENCE_S: Final = 900.0
"""So long a client asks again; the gateway itself lets it wait for most of that."""
QUIET_WITHIN_S: Final = 1800.0
LIMIT_S: Final = 7200.0
STOPS_WITHIN_S: Final = 60.0
IDENTIFIERS: Final = re.compile(r"(?<=/)(?=[a-z0-9]*[0-9])[a-z0-9]{10,}(?=/|$)")


@dataclass(frozen=True, slots=True)
class Point:
    """One place where the daemon may end."""

    number: int
    at: float
    who: str
    what: str

    @property
    def kind(self) -> str:
        return IDENTIFIERS.sub("…", self.what.partition("?")[0])

    @property
    def always(self) -> bool:
        """May no visit of it be saved? Those that only look are sampled."""
        words = self.what.split()
        return len(words) == 2 or (words[1] not in {"GET", "HEAD"} and not words[2].startswith("/graphql"))


@dataclass(frozen=True, slots=True)
class Owed:
    """A stop that was due and addressable when the daemon ended."""

    duty: str
    incarnation: str
    since: float
    """When the daemon that has to send it came up."""


class Stage:
    """One story's world. `ends`: the points at which the daemon ends; `stops`: at which it is stopped instead, for
    longer than anything lasts that it holds, while another takes its store over."""

    def __init__(
        self, folder: Path, *, seed: int, ends: Collection[int] = (), stops: Collection[int] = (), **settings: Any
    ) -> None:
        usual = {"boot_seconds": 2, "ready_seconds": 3, "token_rate": 50}
        self.town = Town(folder, seed=seed, **{**usual, **settings})
        self.kernel = self.town.kernel
        self.box: Machine = self.town.machine()
        self.box.around = self._around
        self.box.on_exit = self._left
        self.provider = self.town.provider
        self.ends, self.stops = frozenset(ends), frozenset(stops)
        self.points: list[Point] = []
        self.ended_at: list[Point] = []
        self.owed: list[Owed] = []
        self.acts_of_others: list[str] = []
        """Calls that cost or stop, by a daemon whose store another has taken over."""
        self.excepted: set[str] = set()
        self.spared: set[str] = set()
        """What bills on in the end, and rightly: it is somebody else's."""
        self._due: list[tuple[str, str]] = []
        self.daemons: set[Program] = set()
        self.taken_from: set[Program] = set()
        self.provider.on_call = lambda call, _: self.kernel.tell("provider", f"{call.method} {call.path}")

    # Points

    async def _around(self, program: Program, what: str) -> None:
        point = Point(len(self.points) + 1, self.kernel.time, program.name, what)
        self.points.append(point)
        self.daemons.add(program)
        self.kernel.tell(program.name, f"#{point.number} {what}")
        if program in self.taken_from and point.always and len(what.split()) == 3 and what.startswith("before"):
            self.acts_of_others.append(f"{program.name} {what}")
        if point.number in self.ends:
            self.ended_at.append(point)
            self.box.draw.seed(point.number)  # is a line torn? Not at all points alike
            program.die()
            await program.nevermore()
        if point.number in self.stops:
            self.ended_at.append(point)
            self.take_over(program)
            await asyncio.sleep(0)

    def take_over(self, program: Program, *, seconds: float = 400.0) -> None:
        """Stop a daemon, lose its file's lock, and start another on its store; the first is continued later."""
        self.taken_from.add(program)
        program.stopped += 1
        lock = program.lock  # type: ignore[attr-defined]
        FileLock.give_back(lock)
        program.spare(lock)
        self._left(self.box, None)
        self.kernel.after(RESTART_AFTER_S, self._start_another)
        self.kernel.after(seconds, lambda: setattr(program, "stopped", program.stopped - 1))

    def _start_another(self) -> None:
        self.box.start_daemon()
        self._came()

    def _left(self, machine: Machine, code: int | None) -> None:
        """Note what is owed by whoever comes next."""
        if not machine.store.exists():
            return
        now_ms = (BEGIN.timestamp() + self.kernel.time + RESTART_AFTER_S) * 1000
        with closing(sqlite3.connect(machine.store)) as connection:
            rows = connection.execute(
                """SELECT o.id, o.resource FROM obligations o LEFT JOIN deployments d ON d.id = o.deployment
                WHERE o.ended_at_ms IS NULL AND o.due_at_ms IS NOT NULL AND o.resource IS NOT NULL
                AND coalesce(o.stop_answer, '') NOT IN ('accepted', 'not-found')
                AND coalesce(o.stop_not_before_ms, 0) <= ? AND coalesce(d.drain_until_ms, 0) <= ?
                AND coalesce(o.reason, '') <> 'ownership-lost'""",
                (now_ms, now_ms),
            ).fetchall()
        self._due = [(duty, json.loads(resource)[-1]) for duty, resource in rows]
        if code is None:
            self.kernel.after(RESTART_AFTER_S, self._came)

    def _came(self) -> None:
        self.owed += [Owed(duty, incarnation, self.kernel.time) for duty, incarnation in self._due]
        self._due = []

    # People

    def configure(self, *models: str, policy: Mapping[str, str] | None = None, extra: str = "") -> None:
        written = POLICY
        for key, value in (policy or {}).items():
            written = re.sub(rf"^{key} = .*\n", "", written, flags=re.MULTILINE) + f'{key} = "{value}"\n'
        self.town.configure(self.box, *models, policy=written, extra=extra)
        text = self.box.config.read_text()
        for long, short in SHORTER.items():
            text = text.replace(long, short)
        self.box.config.write_text(text)

    async def chat(self, alias: str = "m1", *, attempts: int = ATTEMPTS, **options: Any) -> int:
        """Ask until there is a whole answer; returns its status, the last one where none was 200."""
        status, ends = 0, self.kernel.time + PATIENCE_S
        for _ in range(attempts):
            try:
                answer = await self.town.chat(self.box, alias, **options)
                try:
                    await answer.read(1 << 20)
                finally:
                    answer.close()
                status = answer.status
            except (Disconnected, NotConnected, Overdue, TooLarge):
                status = 0
            if status == 200 or self.kernel.time > ends:
                break
            await asyncio.sleep(AGAIN_S)
        return status

    async def order(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """An operator's command, repeated until the daemon took it or has nothing like that any more."""
        client = self.town.operators(self.box)
        for _ in range(ATTEMPTS):
            try:
                return await client.post(path, body)
            except Unreachable:
                pass
            except Problem as problem:
                if problem.status in {404, 409}:
                    return {}
            await asyncio.sleep(AGAIN_S)
        raise AssertionError(f"{path} was never taken")

    async def until(self, holds: Callable[[], Any], *, within: float, what: str) -> None:
        ends = self.kernel.time + within
        while not holds():
            if self.kernel.time > ends:
                raise AssertionError(f"not within {within} s: {what}")
            await asyncio.sleep(0.5)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    # What is known

    @property
    def book(self) -> Book | None:
        """What the daemon holds; `None` while it is down."""
        return self.box.daemon.store.book if self.box.daemon is not None else None

    def ours(self) -> list[str]:
        """What bills, and is not somebody else's."""
        return [pod.id for pod in self.town.alive() if pod.id not in self.spared]

    def over(self) -> bool:
        """Nothing bills, and nothing is owed."""
        book = self.book
        return not self.ours() and book is not None and not self.open(book)

    def quiet(self) -> bool:
        """It is over, and who lost its store has ended by itself."""
        return self.over() and not any(program.alive for program in self.taken_from)

    def stray_on_the_books(self) -> bool:
        """Was the stop of something owed that no deployment holds? Its money tells, for the rest of the day."""
        book = self.book
        return book is not None and any(held.deployment not in book.records for held in book.reservations.values())

    def open(self, book: Book) -> list[str]:
        return [
            duty.id
            for duty in book.obligations.values()
            if duty.open and (duty.key is None or duty.key.incarnation not in self.spared)
        ]

    def tags(self, **changed: str) -> dict[str, str]:
        """The environment of a resource that this store's daemon might have made."""
        book = self.book
        assert book is not None
        marks = {"owner": OWNER, "installation": book.owner.installation, "epoch": "1", "request": "r0123456789abcdef"}
        return {f"GPUWARDEN_{name.upper()}": value for name, value in (marks | changed).items()}
