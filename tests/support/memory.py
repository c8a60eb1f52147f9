"""Where do the files of tests lie?

In memory where it can be had, as those of the simulation do: a store waits for its disk at each commit, four
milliseconds that prove nothing, some hundred thousand times a run. What a crash leaves is decided by the end of a
process here, not by a disk. Whoever names a TMPDIR is taken at their word.
"""

import os
import tempfile
from pathlib import Path
from typing import Final

MEMORY: Final = Path("/dev/shm")
ROOM_BYTES: Final = 1 << 30
"""Many times what a run holds at once. A container often has 64 MB there, and is left alone."""


def fit(folder: Path) -> bool:
    """Tests write there, start what they wrote, and must not run out of it."""
    if not os.access(folder, os.W_OK | os.X_OK):
        return False
    mounted = os.statvfs(folder)
    return not mounted.f_flag & os.ST_NOEXEC and mounted.f_bavail * mounted.f_frsize >= ROOM_BYTES


def lie_in_memory() -> None:
    """From here on, for this process and whatever it starts."""
    if "TMPDIR" not in os.environ and fit(MEMORY):
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None  # pytest has asked before
