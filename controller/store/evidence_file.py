"""Where does the evidence file end, and what does it tell that its store does not?

An append-only JSON-lines file beside its rotations, which others may move or compress at any time. Its last whole line
says how far it was written. Where it goes on past its store (an old copy of the store was put back), the rest of it is
all that is left of what happened in between: the highest epoch, and which deployment each create was for.
"""

import gzip
import json
import os
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final

from controller.core.identity import DeploymentId, RequestId
from controller.core.restoration import believable

TAIL_BYTES: Final = 1 << 20
SEQ_MAX: Final = 2**63 - 1
FILES_LOOKED_AT: Final = 4
"""Where none of the newest ends in this store's line, none older is worth its reading."""
_ASIDE: Final = ".aside-"


class EvidenceFile:
    """An append-only JSON-lines file that others may rotate."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._size = 0

    def append(self, lines: list[str]) -> bool:
        """Append whole lines and bring them to the disk. False, and nothing done, where the file is not as it was left:
        somebody emptied it, or another daemon writes it since this one was stopped."""
        descriptor = self._current()
        if os.fstat(descriptor).st_size != self._size:
            return False
        data = "".join(line + "\n" for line in lines).encode()
        while data:
            written = os.write(descriptor, data)
            self._size += written
            data = data[written:]
        os.fdatasync(descriptor)
        return True

    def _current(self) -> int:
        if self._descriptor is not None and not self._rotated(self._descriptor):
            return self._descriptor
        self.close()
        self._path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
        self._drop_torn_line(self._descriptor)
        self._size = os.fstat(self._descriptor).st_size
        return self._descriptor

    def reopen(self) -> None:
        self.close()
        self._current()

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
        """The file, then its rotations, however they are named after it; what was set aside is none of them."""
        names = self._path.parent.glob(self._path.name + "[.-]*")
        kept = (path for path in names if path.is_file() and not path.name.startswith(self._path.name + _ASIDE))
        rotated = sorted(kept, key=lambda path: path.stat().st_mtime_ns)
        return [self._path, *reversed(rotated)]

    def last_seq(self) -> int:
        """The number of the last whole line, in the file or its newest rotation that has one; 0 if there is none."""
        last = self.last()
        return 0 if last is None else last.seq

    def last(self) -> "LastLine | None":
        """The last whole line, in the file or its newest rotation that has one."""
        found = (last_line(path) for path in self.newest_first()[:FILES_LOOKED_AT])
        return next((last for last in found if last is not None), None)

    def set_aside(self) -> Path:
        """Give the file another name; the next line begins a new one."""
        self.close()
        free = (self._path.with_name(f"{self._path.name}{_ASIDE}{number}") for number in count(1))
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


@dataclass(slots=True, kw_only=True)
class Recalled:
    """What the files tell, from the oldest that is read to the newest."""

    epoch: int = 0
    """The highest that was granted."""
    installation: str | None = None
    """Whose run wrote last; `None` if no line says it."""
    shares: bool = False
    """The store's own last line stands in it: one is a copy of the other."""
    forks: bool = False
    """Another line stands where the store's last one should."""
    deployments: dict[RequestId, DeploymentId] = field(default_factory=dict)

    def of(self, installation: str) -> bool:
        """Was it written for the store of this installation?"""
        return self.shares or self.installation == installation


def recall(path: Path, *, stored: LastLine) -> Recalled:
    """Read the newest files whole; `stored` is where the store ends. Raises OSError, EOFError."""
    found = Recalled()
    for file in reversed(EvidenceFile(path).newest_first()[:FILES_LOOKED_AT]):
        for line in _lines(file):
            _take_in(found, line, stored)
    return found


def _take_in(found: Recalled, line: dict[str, Any], stored: LastLine) -> None:
    epoch, detail = line.get("epoch"), line.get("detail")
    if believable(epoch):
        found.epoch = max(found.epoch, epoch)
    if line.get("event") == "daemon.started" and isinstance(detail, dict):
        found.installation = detail.get("installation", found.installation)
    if line.get("event") == "create.submitted" and line.get("request") and line.get("deployment"):
        found.deployments[RequestId(str(line["request"]))] = DeploymentId(str(line["deployment"]))
    if line.get("seq") == stored.seq and stored.seq:
        found.shares |= line.get("hash") == stored.hash
        found.forks |= line.get("hash") != stored.hash


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """What can be read of its lines; a torn or odd one tells nothing."""
    if not path.exists():
        return
    with closing(gzip.open(path) if path.suffix == ".gz" else path.open("rb")) as file:
        for text in file:
            try:
                line = json.loads(text)
            except (ValueError, RecursionError):
                continue
            if isinstance(line, dict):
                yield line
