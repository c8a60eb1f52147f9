"""What has each client spent since midnight UTC, whichever process of the gateway served it?

One private file for all processes that share a folder: each adds what it counted, under a lock that it does not wait
for, and reads what it comes to with the others'. It is replaced whole. A file of another day counts for nothing, and so
does an empty one, which a power cut may leave; any other that cannot be read is an error, because nothing would let
everybody spend anew.
"""

import fcntl
import json
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

FILE_BYTES_MAX: Final = 1024 * 1024

Micros = Mapping[str, int]
"""Micro-USD by client."""


class Unreadable(Exception):
    """The file is there and says nothing that can be believed."""


class Busy(Exception):
    """Another process writes at this moment."""


@dataclass(frozen=True, slots=True)
class DayBook:
    path: Path

    def signature(self) -> tuple[int, int] | None:
        """Another one for each file that is put there."""
        try:
            found = self.path.stat(follow_symlinks=False)
        except OSError:
            return None
        return (found.st_ino, found.st_mtime_ns)

    def read(self, day: str) -> dict[str, int]:
        """Raises Unreadable."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
            with open(descriptor, "rb") as opened:
                content = opened.read(FILE_BYTES_MAX)
            return _of_day(json.loads(content), day) if content else {}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise Unreadable(f"{type(error).__name__}: {self.path}") from error

    def add(self, day: str, more: Micros) -> dict[str, int]:
        """What everybody has spent, with `more`. Raises OSError, Busy, Unreadable, and then has written nothing."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # Never waited for: one who was stopped while it held the lock would stop all streams here.
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            totals = self.read(day)
            for client, micros in more.items():
                totals[client] = totals.get(client, 0) + micros
            self._write({"schema": 1, "day": day, "usd_micros": totals})
        except BlockingIOError as error:
            raise Busy from error
        finally:
            os.close(folder)
        return totals

    def _write(self, content: object) -> None:
        descriptor, beside = tempfile.mkstemp(dir=self.path.parent, prefix=".spent-")
        try:
            with open(descriptor, "w") as opened:
                json.dump(content, opened)
            os.replace(beside, self.path)
        except BaseException:
            with suppress(OSError):
                os.unlink(beside)
            raise


def _of_day(content: Any, day: str) -> dict[str, int]:
    totals = {str(client): int(micros) for client, micros in content["usd_micros"].items()}
    if min(totals.values(), default=0) < 0:
        raise ValueError("less than nothing was spent")
    return totals if str(content["day"]) == day else {}
