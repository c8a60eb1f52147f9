"""How is it made sure that a program dies with the one that started it?

Run as a script: `python tether.py PARENT_PID PROGRAM ARGS…`. Asks Linux to kill this process when its parent dies,
makes sure that the parent has not died before that, and becomes the program.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def die_with_parent(sent: signal.Signals) -> None:
    """The kernel sends `sent` to this process when the thread that started it ends. Raises OSError."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(sent), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def main(argv: list[str]) -> None:
    parent, program = int(argv[1]), argv[2:]
    die_with_parent(signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)
    os.execvp(program[0], program)  # noqa: S606 - that is what this file is for


if __name__ == "__main__":
    main(sys.argv)
