"""How does evidence get from the store into the file that operators tail?

Lines are stored with what they record; this task appends them to the file in order, each exactly once by its number: at
start the last number is read back from the file or its newest rotation. A file that goes on past its store, because an
older copy of the store was put back, goes on with the line that declares so (`store.restored`). Any other file that
this store did not write (the store was lost) is another chain: it is set aside whole, and a new one begun. The file is
opened anew when it was rotated. Trouble with the file never holds up a stop: the lines wait in the store.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final, Protocol, TypeVar

import structlog

from controller.news import Looks
from controller.store.errors import StoreError
from controller.store.evidence_file import FILES_LOOKED_AT, EvidenceFile, last_line
from controller.store.outbox import declared_after, hash_of, lines_after
from controller.store.store import Store

BATCH: Final = 500
RETRY: Final = timedelta(seconds=10)
ALARM: Final = "evidence-file"
T = TypeVar("T")
log = structlog.get_logger(__name__)


class Blocking(Protocol):
    """Runs a function that blocks on files: in a thread, or at once in a simulation."""

    async def __call__(self, work: Callable[[], T]) -> T: ...


class EvidenceWriter:
    """Appends what is stored and not yet in the file."""

    name = "evidence_writer"
    period = timedelta(seconds=60)
    looks_at = Looks.of(book=("seq_latest", "alarms"))

    def __init__(self, *, store: Store, path: Path, blocking: Blocking) -> None:
        self._store = store
        self._path = path
        self._file = EvidenceFile(path)
        self._blocking = blocking
        self._written: int | None = None

    def reopen(self) -> None:
        """The file was rotated: use the new one from the next line on."""
        self._file.close()

    async def run_pass(self) -> datetime | None:
        try:
            await self._catch_up()
        except OSError as problem:
            return await self._wait(problem)
        if (ALARM, str(self._path)) in self._store.book.alarms:
            await self._store.write(lambda tx: tx.clear_alarm(ALARM, subject=str(self._path)))
        return None

    async def _catch_up(self) -> None:
        if self._written is None:
            self._written = await self._resume()
        while self._written < self._store.book.seq_latest:
            self._written = await self._write_batch(self._written)

    async def _resume(self) -> int:
        """The number after which lines are missing in the file and its rotations; 0 if all are."""
        await self._blocking(self._file.reopen)  # before it is read: what comes later is noticed
        for path in (await self._blocking(self._file.newest_first))[:FILES_LOOKED_AT]:
            last = await self._blocking(partial(last_line, path))
            if last is None:
                continue
            if await self._store.read(partial(hash_of, seq=last.seq)) == last.hash:
                return last.seq
            if (broken := await self._store.read(partial(declared_after, last=last.hash))) is not None:
                return broken - 1
            if path == self._path:
                moved = await self._blocking(self._file.set_aside)
                log.warning("evidence_of_another_store", moved_to=str(moved))
        return 0

    async def _wait(self, problem: OSError) -> datetime:
        """The file may hold a part of what was to be written: it is read anew before the next attempt."""
        self._written = None
        self._file.close()
        log.error("evidence_not_written", error=str(problem))
        if (ALARM, str(self._path)) not in self._store.book.alarms:
            detail = f"lines wait in the store: {problem}"
            await self._store.write(lambda tx: tx.raise_alarm(ALARM, subject=str(self._path), detail=detail))
        return self._store.now + RETRY

    async def _write_batch(self, after: int) -> int:
        lines = await self._store.read(lambda connection: lines_after(connection, after, limit=BATCH))
        if not await self._blocking(lambda: self._file.append([text for _, text in lines])):
            log.warning("evidence_changed_by_another")
            return await self._resume()
        return lines[-1][0]

    async def close(self) -> None:
        """Write what is left, then let the file go; what cannot be written now waits in the store."""
        try:
            await self.run_pass()
        except (StoreError, OSError) as problem:
            log.warning("evidence_left_in_store", error=str(problem))
        finally:
            self._file.close()
