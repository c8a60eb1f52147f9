"""How is one mutant tried at the cost of a fork?

A child is a copy of a process that has everything ready. It plants, runs tests until one fails, and says through a
pipe which. What it may burn is limited, so that an endless loop is a verdict too; its files are in a folder of its own
that goes with it.
"""

import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

WALL_LIMIT_S: Final = 3600
FAILED_ITSELF: Final = 70


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What became of a child: what it said, and how it ended."""

    said: Any
    exit: int | None
    """`None`: the system ended it, by a limit."""
    cpu_s: float


class ChildBroke(Exception):
    """The machinery failed, not the tests."""


def in_child(work: Callable[[], Any], *, cpu_limit_s: float) -> Ended:
    """Run `work` in a fork of this process; what it returns is passed on as JSON."""
    folder = tempfile.mkdtemp(prefix="gpuwarden-mutant-")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _be_child(work, writing, folder, cpu_limit_s)
    os.close(writing)
    try:
        with os.fdopen(reading, "rb") as pipe:
            said = pipe.read()
        _, how, used = os.wait4(child, 0)
    except BaseException:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    code = os.WEXITSTATUS(how) if os.WIFEXITED(how) else None
    if code == FAILED_ITSELF:
        raise ChildBroke(json.loads(said))
    return Ended(said=json.loads(said) if said else None, exit=code, cpu_s=used.ru_utime + used.ru_stime)


def _be_child(work: Callable[[], Any], writing: int, folder: str, cpu_limit_s: float) -> None:
    code = FAILED_ITSELF
    try:
        limit = int(cpu_limit_s) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 2))
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
        signal.setitimer(signal.ITIMER_REAL, WALL_LIMIT_S)
        os.environ["PYTEST_DEBUG_TEMPROOT"] = folder
        os.environ["TMPDIR"] = folder
        tempfile.tempdir = folder
        quiet = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(quiet, stream)
        said, code = work(), 0
    except BaseException:
        said = traceback.format_exc()
    with os.fdopen(writing, "wb") as pipe:
        pipe.write(json.dumps(said).encode())
    with suppress(Exception):
        sys.stdout.flush()
    os._exit(code)


def folder_of_results() -> Path:
    """Outside of the checkout: a verdict is no source."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    folder = Path(cache) / "gpuwarden" / "mutants"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
