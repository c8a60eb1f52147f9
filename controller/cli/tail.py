"""Which lines came since we last looked, whatever was done to the file meanwhile?

Rotation by rename: what is left in the old file is read to its end before the new one is opened, and files that came
and were renamed in between are read too. Copy and truncate: a file shorter than what was read begins anew. Deletion:
the open file is read on until another one is there. A line counts when its newline is written.
"""

import os
from pathlib import Path
from typing import Final

_BLOCK: Final = 1 << 16
_ROTATIONS_LOOKED_AT: Final = 100


class Tail:
    """Follows one path. Nothing is opened before the first `lines`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._offset = 0
        self._partial = b""

    def lines(self) -> list[str]:
        """Whole lines that came since the last call; none where the file is not there."""
        found: list[str] = []
        if self._descriptor is None and not self._open(self._path):
            return found
        found += self._rest()
        if (now := _identity(self._path)) is None or now == self._own():
            return found
        # Another file has the name: nothing will come to ours any more, but the last of it may have come just now.
        found += self._rest()
        for between in self._renamed_meanwhile():
            if self._open(between):
                found += self._rest()
        if self._open(self._path):
            found += self._rest()
        return found

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _open(self, path: Path) -> bool:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        self.close()
        self._descriptor, self._offset, self._partial = descriptor, 0, b""
        return True

    def _own(self) -> tuple[int, int] | None:
        if self._descriptor is None:
            return None
        found = os.fstat(self._descriptor)
        return found.st_dev, found.st_ino

    def _renamed_meanwhile(self) -> list[Path]:
        """Rotations newer than the file that we hold, oldest first; none if ours is not among them."""
        newer: list[Path] = []
        for number in range(1, _ROTATIONS_LOOKED_AT):
            path = self._path.with_name(f"{self._path.name}.{number}")
            if (found := _identity(path)) is None:
                return []
            if found == self._own():
                return newer[::-1]
            newer.append(path)
        return []

    def _rest(self) -> list[str]:
        if self._descriptor is None:
            return []
        if os.fstat(self._descriptor).st_size < self._offset:
            self._offset, self._partial = 0, b""
        pieces = [self._partial]
        while block := os.pread(self._descriptor, _BLOCK, self._offset):
            pieces.append(block)
            self._offset += len(block)
        *whole, self._partial = b"".join(pieces).split(b"\n")
        return [line.decode("utf-8", "replace") for line in whole if line]


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
