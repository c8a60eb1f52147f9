"""How does a test run a command of ours as a process of its own, and how does none of them outlive it?

A child's words go to a file. It is an interpreter of its own, or forked from one that has imported everything: see
`nursery`. It dies with the test's process, whatever becomes of that, and is killed with its whole
group at the end; nothing is ever ended by name.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import anyio

from tests.processes.nursery import Forked, nursery

TETHERED = """
import ctypes, os, runpy, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
if os.getppid() != {parent}:
    sys.exit(1)
runpy.run_module("controller", run_name="__main__", alter_sys=True)
"""
LOOK_EVERY = 0.01


class Child:
    """One running command."""

    def __init__(self, name: str, process: subprocess.Popen[bytes] | Forked, *, log: Path) -> None:
        self.name = name
        self.log = log
        self._process = process

    @classmethod
    def started(
        cls, name: str, words: list[str], *, log: Path, output: int | None, environment: Mapping[str, str]
    ) -> Self:
        with log.open("wb") as opened:
            process = subprocess.Popen(
                [sys.executable, "-c", TETHERED.format(parent=os.getpid()), *words],
                stdin=subprocess.DEVNULL,
                stdout=opened if output is None else output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=dict(environment),
            )
        return cls(name, process, log=log)

    @classmethod
    def forked(
        cls, name: str, words: list[str], *, log: Path, output: int | None, environment: Mapping[str, str]
    ) -> Self:
        with log.open("wb") as opened:
            into = opened.fileno() if output is None else output
            process = nursery().start(words, stdout=into, stderr=into, environment=environment)
        return cls(name, process, log=log)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def signal(self, number: int) -> None:
        """To the process itself, by its id."""
        self._process.send_signal(number)

    async def ended(self, *, within: float) -> int:
        """Its exit code."""
        await until(lambda: not self.running, within=within, what=f"the end of the {self.name}")
        return self._process.wait()

    async def kill(self) -> None:
        """`kill -9`, of it alone."""
        self.signal(signal.SIGKILL)
        await self.ended(within=5)

    def end(self) -> None:
        """Whatever it is at, and whatever it started."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()


async def until(condition: Callable[[], Any], *, within: float, what: str) -> Any:
    """Wait for something that nobody rings for; returns what `condition` said."""
    with anyio.move_on_after(within):
        while not (found := condition()):  # noqa: ASYNC110 - as said
            await anyio.sleep(LOOK_EVERY)
        return found
    raise AssertionError(f"not within {within} s: {what}")


def parent_of(pid: int) -> int | None:
    try:
        told = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return int(told.rpartition(")")[2].split()[1])


def pids_mentioning(text: str) -> list[int]:
    """Processes whose arguments or environment name `text`, this one aside."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            told = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
        except OSError:
            continue
        if text.encode() in told:
            found.append(int(entry.name))
    return found
