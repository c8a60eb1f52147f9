"""How are the measured processes started, watched and ended?

Each is a child in a group of its own, ended by its number; what it says is kept, to be shown when it fails. The
commands are gpuwarden's own, run as an installed one would run them.
"""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import anyio
from anyio.abc import TaskGroup

from controller.api.client import Problem, Unreachable
from controller.children import Child, start
from controller.http1 import Outgoing, Pool, WireError

END_LIMIT = timedelta(seconds=6)
LOOK_EVERY_S = 0.02


@dataclass(slots=True, kw_only=True)
class Started:
    """The children of one scene, ended newest first."""

    group: TaskGroup
    children: list[Child] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    async def command(self, name: str, *arguments: str, **environment: str) -> Child:
        """Run one of gpuwarden's commands."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("GPUWARDEN_")}
        child = await start(name, arguments, group=self.group, say=self._heard, environment=kept | environment)
        self.children.append(child)
        return child

    async def module(self, name: str, *arguments: str) -> tuple[Child, str]:
        """Run one of our own modules, which ends when its input does; returns the first line that it says."""
        process = await anyio.open_process(
            [sys.executable, "-m", name, *arguments], stdin=subprocess.PIPE, stderr=None, start_new_session=True
        )
        child = Child(name=name, process=process)
        self.children.append(child)
        assert process.stdout is not None
        with anyio.fail_after(20):
            return child, (await process.stdout.receive()).decode().strip()

    async def kill(self, child: Child) -> None:
        """End it as a crash would."""
        os.killpg(child.process.pid, signal.SIGKILL)
        await child.process.wait()
        self.children.remove(child)

    async def end(self, child: Child) -> None:
        await child.end(limit=END_LIMIT)
        self.children.remove(child)

    async def end_all(self) -> None:
        for child in reversed(self.children):
            await child.end(limit=END_LIMIT)
        self.children.clear()

    def _heard(self, name: str, line: str) -> None:
        self.lines.append(f"{name}: {line}")
        del self.lines[:-200]

    def last_words(self) -> str:
        return "\n".join(self.lines[-20:])


@asynccontextmanager
async def started() -> AsyncIterator[Started]:
    """On leaving, whatever happened, every child is over."""
    async with anyio.create_task_group() as group:
        running = Started(group=group)
        try:
            yield running
        finally:
            with anyio.CancelScope(shield=True):
                await running.end_all()
            group.cancel_scope.cancel()


async def answering(running: Started, child: Child, ask: Callable[[], Awaitable[object]]) -> None:
    """Wait until a child answers. Raises RuntimeError with its last words if it ends instead."""
    while True:
        if not child.running:
            raise RuntimeError(f"the {child.name} ended:\n{running.last_words()}")
        try:
            await ask()
        except (WireError, Unreachable, Problem):
            await anyio.sleep(LOOK_EVERY_S)
        else:
            return


async def fetched(url: str) -> bytes:
    """The body at a URL. Raises WireError while nothing answers."""
    pool = Pool()
    try:
        answer = await pool.send(Outgoing(method="GET", url=url, headers=(), body=b""))
        return await answer.read(1 << 24)
    finally:
        pool.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
