"""How does evidence get from the store into the file that operators tail?

Lines are stored with what they record; this task appends them to the file in order, each exactly once by its number: at
start the last number is read back from the file or its newest rotation. A file that goes on where this store does not
(the store was lost, or restored from an older copy) is another chain: it is set aside whole, and a new one begun. The
file is opened anew when it was rotated. Trouble with the file never holds up a stop: the lines wait in the store.
"""

import gzip
import json
import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final, Protocol, TypeVar

import structlog

from controller.store.errors import StoreError
from controller.store.outbox import hash_of, lines_after
from controller.store.store import Store

BATCH: Final = 500
TAIL_BYTES: Final = 1 << 20
SEQ_MAX: Final = 2**63 - 1
FILES_LOOKED_AT: Final = 4
"""Where none of the newest ends in this store's line, none older is worth its reading."""
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
        """The number of the last line of this store's that is in the file or a rotation of it; 0 if there is none."""
        for path in (await self._blocking(self._file.newest_first))[:FILES_LOOKED_AT]:
            last = await self._blocking(partial(last_line, path))
            if last is None:
                continue
            if await self._store.read(partial(hash_of, seq=last.seq)) == last.hash:
                return last.seq
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
        await self._blocking(lambda: self._file.append([text for _, text in lines]))
        return lines[-1][0]

    async def close(self) -> None:
        """Write what is left, then let the file go; what cannot be written now waits in the store."""
        try:
            await self.run_pass()
        except (StoreError, OSError) as problem:
            log.warning("evidence_left_in_store", error=str(problem))
        finally:
            self._file.close()


class EvidenceFile:
    """An append-only JSON-lines file that others may rotate."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def append(self, lines: list[str]) -> None:
        """Append whole lines and bring them to the disk."""
        descriptor = self._current()
        data = "".join(line + "\n" for line in lines).encode()
        while data:
            data = data[os.write(descriptor, data) :]
        os.fdatasync(descriptor)

    def _current(self) -> int:
        if self._descriptor is not None and not self._rotated(self._descriptor):
            return self._descriptor
        self.close()
        self._path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
        self._drop_torn_line(self._descriptor)
        return self._descriptor

    def _rotated(self, descriptor: int) -> bool:
        try:
            named = self._path.stat()
        except FileNotFoundError:
            return True
        held = os.fstat(descriptor)
        return (named.st_ino, named.st_dev) != (held.st_ino, held.st_dev)

    def _drop_torn_line(self, descriptor: int) -> None:
        """A crash may have left half a line; the store has the whole one and it is written again."""
        size = os.fstat(descriptor).st_size
        tail = os.pread(descriptor, min(size, TAIL_BYTES), max(size - TAIL_BYTES, 0))
        if tail and not tail.endswith(b"\n"):
            os.ftruncate(descriptor, size - len(tail) + tail.rfind(b"\n") + 1)

    def newest_first(self) -> list[Path]:
        """The file, then its rotations, however they are named after it."""
        names = self._path.parent.glob(self._path.name + "[.-]*")
        rotated = sorted((path for path in names if path.is_file()), key=lambda path: path.stat().st_mtime_ns)
        return [self._path, *reversed(rotated)]

    def last_seq(self) -> int:
        """The number of the last whole line, in the file or its newest rotation that has one; 0 if there is none."""
        found = (last_line(path) for path in self.newest_first())
        return next((last.seq for last in found if last is not None), 0)

    def set_aside(self) -> Path:
        """Give the file another name; the next line begins a new one."""
        self.close()
        free = (self._path.with_name(f"{self._path.name}.aside-{number}") for number in count(1))
        target = next(path for path in free if not path.exists())
        self._path.rename(target)
        return target

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


@dataclass(frozen=True, slots=True)
class LastLine:
    """Where a file ends."""

    seq: int
    hash: str | None


def last_line(path: Path) -> LastLine | None:
    """The last whole numbered line of a file, compressed or not; `None` if it has none.

    A compressed file that is not whole has none: its first part would say that what follows was never written.
    """
    if not path.exists():
        return None
    if path.suffix == ".gz":
        try:
            with gzip.open(path) as opened:
                return _last_line(opened.read())
        except (EOFError, gzip.BadGzipFile, zlib.error):
            return None
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - TAIL_BYTES, 0))
        return _last_line(file.read())


def _last_line(data: bytes) -> LastLine | None:
    whole = data[: data.rfind(b"\n") + 1]
    for text in reversed(whole.splitlines()):
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            continue
        seq, digest = (line.get("seq"), line.get("hash")) if isinstance(line, dict) else (None, None)
        if type(seq) is int and 0 < seq <= SEQ_MAX:
            return LastLine(seq, digest if isinstance(digest, str) else None)
    return None
