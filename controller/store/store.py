"""Who writes, and what does everybody else read?

One writer, one held connection, whole transaction functions: a function gets a `Tx`, decides on what is on record now,
writes, and either all of it is committed or none. Readers take `store.book`, the value after the latest commit, and are
rung when it changes.
"""

import asyncio
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import anyio
import structlog
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from controller.clock import MachineClock
from controller.core.backoff import Holding
from controller.core.book import Book
from controller.core.deployment import Record
from controller.core.errors import Refusal
from controller.core.evidence import StopReason
from controller.core.restoration import newer
from controller.core.timekeeping import Kept
from controller.ids import Randomness
from controller.store import elapsed
from controller.store.aside import passes, read_aside, refusal_to_open
from controller.store.begun import Tried, another_began, begin, tried
from controller.store.database import Creator, FileLock, end_without_waiting, open_engine, prepare
from controller.store.errors import (
    Overtaken,
    Stale,
    StoreTaken,
    StoreUnreadable,
    StoreUnwritable,
)
from controller.store.load import kept_time, load, trimmed
from controller.store.timekeeper import Timekeeper
from controller.store.transaction import Moment, Tx
from controller.store.unwritten import Unwritten, news_of, taken_in, write_late

WRITE_LIMIT: Final = timedelta(seconds=15)
"""Longer than SQLite waits for another process's lock; then the connection is given up and made anew."""

TRIMMED_EVERY: Final = timedelta(hours=1)

T = TypeVar("T")

log = structlog.get_logger(__name__)


class Store:
    """The daemon's memory. Use `Store.open`; `close` before the process ends."""

    def __init__(
        self, engine: AsyncEngine, file_lock: FileLock, *, clock: MachineClock, randomness: Randomness
    ) -> None:
        self._engine = engine
        self._endings: list[asyncio.Future[object]] = []
        end_without_waiting(engine, self._endings)
        self._file_lock = file_lock
        self._machine = clock
        self._randomness = randomness
        self._turn = anyio.Lock()
        self._connection: AsyncConnection | None = None
        self._rings: list[Callable[[], None]] = []
        self._rings_later: asyncio.TimerHandle | None = None
        self._epoch_seen = 0
        self.epochs_known = 0
        """Former runs that this store remembers granted up to here: a stranger with more tells of runs it forgot."""
        self._identity = ("", "", "")
        self._doubtful = False
        """A commit's end was not seen: what is on record is read anew before the next decision."""
        self._trim_at: datetime
        self.book: Book
        self.clock: Timekeeper
        """The clock that everything which compares instants with the store's must run on."""
        self.holding = Holding()
        """How models are held after failed starts; the composition root sets it from the policy."""
        self.ceilings: elapsed.Ceilings | None = None
        """What time alone obliges, asked before every command; the composition root sets it once it took over."""
        self.unwritable_since: datetime | None = None
        self._unwritten: list[Unwritten] = []
        self._filed: Book | None = None
        """What the file holds, while the book tells of more."""
        self._first: Callable[[Tx], object] | None = None
        """What this run begins with, where that could not be written yet."""
        self._aside: Path | None = None  # the file, while it can only be read as it stands
        self._tried: Tried | None = None  # what was to be committed, and was not seen to be

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        identity: tuple[str, str, str],
        clock: MachineClock,
        randomness: Randomness,
        creator: Creator | None = None,
        locked_as: Path | None = None,
    ) -> "Store":
        """Take the file for this process and read it; `identity` is owner, provider, account. `locked_as`: the file in
        whose place it stands, so that one daemon alone uses either.

        Raises StoreInUse, StoreNewer, StoreDamaged, StoreUnwritable, or StoreError if the file belongs to another
        owner.
        """
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file_lock = FileLock(locked_as or path)
        file_lock.take()
        try:
            prepare(path)
            store = cls(open_engine(path, creator), file_lock, clock=clock, randomness=randomness)
            await store._begin(identity, path)
        except (DBAPIError, sqlite3.Error, OSError, ValueError) as problem:
            file_lock.give_back()
            raise refusal_to_open(path, problem) from problem
        except BaseException:
            file_lock.give_back()
            raise
        return store

    async def _begin(self, identity: tuple[str, str, str], path: Path) -> None:
        self._identity = identity
        try:
            await self._read_first(path)
        except BaseException:
            await self.close()
            raise
        self._trim_at = self.clock.now() + TRIMMED_EVERY
        self.epochs_known = self.book.epoch_latest

    async def _read_first(self, path: Path) -> None:
        try:
            await (await self._connected()).run_sync(_in_one, self._take_in)
        except (DBAPIError, sqlite3.Error, OSError) as problem:
            if not passes(problem):
                raise
            await self._drop_connection()
            read_aside(path, self._take_in, otherwise=problem)
            self._aside = path
            await self._failed()

    def _take_in(self, connection: Connection) -> None:
        self.clock = Timekeeper(self._machine, kept_time(connection))
        self.book = self._load(connection)

    def _load(self, connection: Connection) -> Book:
        owner, provider, account = self._identity
        now, draw = self.clock.now(), self._randomness
        return load(connection, owner=owner, provider=provider, account=account, now=now, draw=draw)

    def on_change(self, ring: Callable[[], None]) -> None:
        """Call `ring` after each commit. It must not wait or fail."""
        self._rings.append(ring)

    @property
    def now(self) -> datetime:
        """The time, never earlier than what the store has witnessed (HC-32)."""
        return self.clock.now()

    def witness_epoch(self, epoch: int | None) -> None:
        """Somebody outside carries this epoch of ours: the next grant is above it."""
        if newer(epoch, self._epoch_seen):
            self._epoch_seen = epoch

    async def write(
        self, work: Callable[[Tx], T], *, limit: timedelta = WRITE_LIMIT, lull: timedelta = timedelta(0)
    ) -> T:
        """Run one transaction to its end, whatever cancels the caller meanwhile. `lull`: so long after the commit is
        everybody rung, for what the caller does next is more urgent than what others make of it.

        Raises what `work` raises (then nothing is kept), StoreUnwritable, or StoreTaken.
        """
        async with self._turn:
            result: list[T] = []
            with anyio.move_on_after(limit.total_seconds(), shield=True) as scope:
                await self._catch_up()
                await self._oblige_elapsed()
                result.append(await self._write(work))
            if scope.cancelled_caught:
                await self._failed()
                raise StoreUnwritable(f"no commit within {limit}")
        if lull:
            self._rings_later = asyncio.get_running_loop().call_later(lull.total_seconds(), self._ring)
        else:
            self._ring()
        return result[0]

    @property
    def taken_over(self) -> bool:
        """Is it on record that this run has begun? Until then its leases are those of the run before."""
        return self._first is None

    async def take_over(self, work: Callable[[Tx], object]) -> None:
        """What a run begins with. Where it cannot be written and something is owed, the run begins all the same, to
        stop what is to be stopped, and this comes before all else once writing works. Raises as `write`, where nothing
        is owed or an old copy is not yet matched with what runs."""
        try:
            await self.write(work)
        except StoreUnwritable as problem:
            if self.book.matching_since is not None or not self.book.owing:
                raise
            self._first = work
            log.error("start_unrecorded", error=str(problem))

    def owe_unwritten(self, decided_on: Record, reason: StopReason, *, drain_until: datetime | None = None) -> None:
        """Take into the book that a stop is due, or sooner, which could not be written: see `owing`, `unwritten`."""
        owed = Unwritten(deployment=decided_on.id, reason=reason, drain_until=drain_until, at=self.now)
        if self.book.records.get(decided_on.id) != decided_on or not news_of(decided_on, owed):
            return
        filed = self._filed or self.book
        self._unwritten.append(owed)
        self._hold(filed)
        log.error("stop_due_unrecorded", deployment=decided_on.id, reason=reason.value)
        self._ring()

    async def _catch_up(self) -> None:
        """First of all, that this run has begun, and what fell due meanwhile."""
        if (first := self._first) is not None:
            await self._write(lambda tx: begin(tx, first, self._tried))
            self._first = None
        while self._unwritten:
            owed = self._unwritten[0]
            try:
                await self._write(partial(write_late, owed=owed), late=True)
            except Overtaken:
                raise
            except (Stale, Refusal) as dropped:
                log.info("late_stop_dropped", deployment=owed.deployment, why=str(dropped))
            del self._unwritten[0]
        if self._filed is not None:
            self._hold(self._filed)

    def _hold(self, filed: Book) -> None:
        """From now on this is what the file holds."""
        if self._unwritten:
            self._filed = filed
            self.book = taken_in(filed, self._unwritten, self._moment(self.now))
        else:
            self._filed, self.book = None, filed

    def _moment(self, now: datetime, *, late: bool = False) -> Moment:
        return Moment(
            now=now,
            clock_sound=self.clock.sound,
            randomness=self._randomness,
            holding=self.holding,
            epoch_seen=self._epoch_seen,
            late=late,
        )

    def _ring(self) -> None:
        for ring in self._rings:
            ring()

    async def _oblige_elapsed(self) -> None:
        """A commit of its own: what the command comes to, even if it is refused, takes nothing of it back."""
        ceilings = self.ceilings
        if ceilings is None or not elapsed.overdue(self.book, ceilings, now=self.now):
            return
        try:
            await self._write(lambda tx: elapsed.oblige(tx, ceilings))
        except Stale:
            self._doubtful = True  # the file knows better than the book; this must not keep every command away
        else:
            self._ring()

    async def _write(self, work: Callable[[Tx], T], *, late: bool = False) -> T:
        def run(connection: Connection) -> tuple[T, Book]:
            self._require_ours(connection)
            if self._doubtful:
                filed, self._doubtful = self._load(connection), False
                self._hold(filed)
            filed, kept = self._filed or self.book, self.clock.kept
            tx = Tx(connection, filed, self._moment(kept.mark, late=late))
            outcome = work(tx)
            if tx.book is not filed or self.unwritable_since is not None:  # else a full disk takes nothing for a write
                tx.put_mark(self._inherited(kept, tx.book))
            tx.finish()
            self._tried = tried(filed, tx.book, self._tried)
            return outcome, tx.book

        try:
            connection = await self._connected()
            outcome, book = await connection.run_sync(_in_one, run)
        except Overtaken:
            self._doubtful = True
            raise
        except (DBAPIError, sqlite3.Error, OSError) as problem:
            await self._failed()
            raise StoreUnwritable(str(problem.__cause__ or problem)) from problem
        self._hold(self._trimmed(book))
        self.unwritable_since = self._aside = self._tried = None
        return outcome

    def _require_ours(self, connection: Connection) -> None:
        """The lock on the file is meant to keep others out; where it was lost while this process slept, whoever began
        meanwhile has told so here. Asked in each transaction, for the book is only true where nobody else writes."""
        if another_began(connection, since=self.book.seq_latest, ours=self._tried):
            raise StoreTaken(self._file_lock.store)

    @property
    def holds_file(self) -> bool:
        """Does this process still hold the file's lock? What a store that cannot be written cannot tell itself."""
        return self._file_lock.held

    def _inherited(self, kept: Kept, book: Book) -> Kept:
        """What a later process begins with. A lead over everybody else's time is worth keeping only while something is
        owed: stamps of what is open rest on it."""
        truth = self.clock.contradicted
        return kept if truth is None or book.owing else replace(kept, mark=truth)

    async def _failed(self) -> None:
        self._doubtful = True
        self.unwritable_since = self.unwritable_since or self.clock.now()
        await self._drop_connection()

    def _trimmed(self, book: Book) -> Book:
        now = self.clock.now()
        if now < self._trim_at:
            return book
        self._trim_at = now + TRIMMED_EVERY
        return trimmed(book, now)

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Read rows that the book does not hold (old evidence, ended deployments).

        Raises StoreUnreadable, StoreTaken.
        """

        def run(connection: Connection) -> T:
            self._require_ours(connection)
            return work(connection)

        async with self._turn:
            found: list[T] = []
            with anyio.CancelScope(shield=True):
                found.append(await self._read(run))
        return found[0]

    async def _read(self, work: Callable[[Connection], T]) -> T:
        try:
            connection = await self._connected()
            return await connection.run_sync(_in_one, work)
        except (DBAPIError, sqlite3.Error) as problem:
            await self._drop_connection()
            unreadable = StoreUnreadable(str(problem.__cause__ or problem))
            if self._aside is None:
                raise unreadable from problem
            return read_aside(self._aside, work, otherwise=unreadable)

    async def _connected(self) -> AsyncConnection:
        if self._connection is None:
            self._connection = await self._engine.connect()
        return self._connection

    async def _drop_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        with anyio.move_on_after(5, shield=True):
            try:
                await connection.invalidate()
            finally:
                await connection.close()

    async def close(self) -> None:
        """Give the connection and the file back. Nothing may be written after it."""
        if self._rings_later is not None:
            self._rings_later.cancel()
        with anyio.CancelScope(shield=True):
            if self._connection is not None:
                await self._connection.close()
                self._connection = None
            await self._engine.dispose()
            with anyio.move_on_after(WRITE_LIMIT.total_seconds()):
                while self._endings:
                    await self._endings.pop()
        self._file_lock.give_back()


def _in_one(connection: Connection, work: Callable[[Connection], T]) -> T:
    """A whole transaction by one trip into SQLAlchemy, which makes a greenlet for each."""
    with connection.begin():
        return work(connection)
