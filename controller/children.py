"""How does one command run others of ours, and how do all of them end?

Each child has a process group of its own, so that Ctrl-C reaches only us and the order of the end is ours; its lines
come out under its name. At the end: TERM, a bounded wait, then KILL of the group, by pid. A child whose parent dies
gives itself TERM.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Protocol

import anyio
from anyio.abc import ByteReceiveStream, Process, TaskGroup

END_LIMIT: Final = timedelta(seconds=20)
TETHERED: Final = """
import os, runpy, signal, sys, threading
def end_with_parent():
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGTERM)
threading.Thread(target=end_with_parent, daemon=True).start()
runpy.run_module("controller", run_name="__main__", alter_sys=True)
"""
"""What a child runs first: a parent that is killed must not leave it behind.

Nothing is ever written to its stdin, which ends with the parent. Linux's own PR_SET_PDEATHSIG comes once for each
thread of a parent that had several, and a second TERM means: at once (seen November 2026).
"""


class Say(Protocol):
    """Takes one line of a child's output."""

    def __call__(self, name: str, line: str) -> None: ...


@dataclass(slots=True, kw_only=True)
class Child:
    """One running process of ours."""

    name: str
    process: Process

    @property
    def running(self) -> bool:
        return self.process.returncode is None

    async def end(self, *, limit: timedelta = END_LIMIT) -> int:
        """TERM, wait, KILL what is left of its group; returns its exit code."""
        if self.running:
            self._signal(signal.SIGTERM)
            with anyio.move_on_after(limit.total_seconds(), shield=True):
                await self.process.wait()
            self._signal(signal.SIGKILL)  # whatever it started and left behind, too
        return await self.process.wait()

    def _signal(self, number: int) -> None:
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            return


async def start(
    name: str, arguments: Sequence[str], *, group: TaskGroup, say: Say, environment: Mapping[str, str] | None = None
) -> Child:
    """Run one of our own commands as a child; its lines go to `say` until it ends."""
    process = await anyio.open_process(
        [sys.executable, "-c", TETHERED, *arguments],
        stdin=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        env=None if environment is None else dict(environment),
    )
    if process.stdout is not None:
        group.start_soon(_tell, name, process.stdout, say)
    return Child(name=name, process=process)


async def _tell(name: str, stream: ByteReceiveStream, say: Say) -> None:
    rest = b""
    async for piece in stream:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            say(name, line.decode(errors="replace"))
    if rest:
        say(name, rest.decode(errors="replace"))
