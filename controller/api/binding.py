"""How does a Unix socket get its place, and its mode?

Bound under a umask, so that the file never exists with another mode than it should have; a file that a crash left is
taken away, one that somebody listens on is not.
"""

import errno
import os
import socket
import stat
from pathlib import Path
from typing import Final

BACKLOG: Final = 128


def bind_unix(place: Path, *, mode: int) -> socket.socket:
    """A listening socket at `place`, with exactly `mode`. Raises OSError."""
    _clear_stale(place)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o777 & ~mode)
    try:
        listener.bind(str(place))
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except OSError as problem:
        listener.close()
        raise OSError(problem.errno, f"{place}: {problem.strerror or problem}") from problem
    finally:
        os.umask(before)
    return listener


def _clear_stale(place: Path) -> None:
    """Take away what a crash left; raises OSError for anything that is in use or is no socket."""
    try:
        found = place.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise FileExistsError(f"{place} is there and is no socket")
    if _listened_on(place):
        raise OSError(errno.EADDRINUSE, f"{place}: somebody listens there already")
    place.unlink(missing_ok=True)


def _listened_on(place: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
        try:
            caller.connect(str(place))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        return True
