"""How does one person run all of it with one command?

Daemon and gateway as two children under one log. Ctrl-C with a machine alive stops everything and waits for the proof
that nothing bills any more; `--leave` keeps the machines and says what they cost. If one child ends by itself, so does
the other: machines are never left without their daemon unnoticed.
"""

import os
import signal
import sys
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup

from controller.api.client import DaemonClient, Problem, Unreachable
from controller.children import Child, start
from controller.settings import ConfigProblems, Settings, find_config, load

START_LIMIT: Final = timedelta(seconds=30)
ASK_EVERY: Final = timedelta(milliseconds=500)
FAILED: Final = 1
BAD_CONFIG: Final = 78
INTERRUPTED: Final = 130


def main(config: Path | None, leave: bool) -> int:
    """Run both until Ctrl-C or SIGTERM; 0 if nothing bills at the end (or `leave`), 130 if interrupted before."""
    try:
        path = find_config(config, os.environ)
        settings = load(path, os.environ)
        settings.runpod_key()
    except ConfigProblems as problems:
        _say("up", str(problems))
        return BAD_CONFIG
    return anyio.run(partial(_Up(settings=settings, config=path, leave=leave).run))


def _say(name: str, line: str) -> None:
    sys.stderr.write(f"{name:>8} | {line}\n")
    sys.stderr.flush()


@dataclass(slots=True, kw_only=True)
class _Up:
    settings: Settings
    config: Path
    leave: bool
    interrupts: int = 0

    async def run(self) -> int:
        code = FAILED
        async with anyio.create_task_group() as group:
            asked = anyio.Event()
            group.start_soon(self._watch_signals, asked)
            children: list[Child] = []
            try:
                children = await self._start(group)
                code = await self._until_the_end(children, asked, group)
            finally:
                with anyio.CancelScope(shield=True):
                    for child in reversed(children):
                        await child.end()
            group.cancel_scope.cancel()
        return code

    async def _start(self, group: TaskGroup) -> list[Child]:
        option = ["--config", str(self.config)]
        daemon = await start("daemon", ["run", *option], group=group, say=_say)
        children = [daemon]
        if await self._answers(daemon):
            children.append(await start("gateway", ["gateway", *option], group=group, say=_say))
            _say("up", f"serving at http://{self.settings.written.gateway.listen}/v1 ; Ctrl-C stops everything")
        return children

    async def _answers(self, daemon: Child) -> bool:
        client = self._client()
        with anyio.move_on_after(START_LIMIT.total_seconds()):
            while daemon.running:
                try:
                    await client.get("/healthz")
                except (Unreachable, Problem):
                    await anyio.sleep(0.1)
                else:
                    return True
        return False

    async def _until_the_end(self, children: list[Child], asked: anyio.Event, group: TaskGroup) -> int:
        while not asked.is_set():
            ended = [child for child in children if not child.running]
            if ended or len(children) < 2:
                _say("up", f"{', '.join(child.name for child in ended) or 'the daemon'} ended; ending the rest")
                return ended[0].process.returncode or FAILED if ended else FAILED
            with anyio.move_on_after(ASK_EVERY.total_seconds()):
                await asked.wait()
        return await self._leave_it() if self.leave else await self._stop_all(children, group)

    async def _leave_it(self) -> int:
        try:
            status = await self._client().get("/v1/status")
        except (Unreachable, Problem) as problem:
            _say("up", f"what bills could not be asked: {problem}")
            return FAILED
        for model in status["models"]:
            if model["deployments"]:
                _say("up", f"left running and billing: {model['alias']} at {model['usd_per_hour']} USD an hour")
        return 0

    async def _stop_all(self, children: list[Child], group: TaskGroup) -> int:
        """Ask for every stop, then wait until nothing is owed; a second Ctrl-C leaves the rest to the next start."""
        _say("up", "stopping every machine; waiting for proof (Ctrl-C again leaves it owed to the next start)")
        daemon, *others = children
        for other in others:
            group.start_soon(other.end)  # at once: whoever still asks would have machines started anew
        client = self._client()
        told: str | None = None
        while self.interrupts < 2 and daemon.running:
            left = await _ask_for_stops(client)
            if left is None:
                _say("up", "nothing is owed; everything of ours is proven gone")
                return 0
            if left != told:
                told = left
                _say("up", left)
            await anyio.sleep(ASK_EVERY.total_seconds())
        return INTERRUPTED if daemon.running else FAILED

    async def _watch_signals(self, asked: anyio.Event) -> None:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
            async for _ in signals:
                self.interrupts += 1
                asked.set()

    def _client(self) -> DaemonClient:
        return DaemonClient.at_socket(str(self.settings.places.api_socket))


async def _ask_for_stops(client: DaemonClient) -> str | None:
    """What is still owed, in words; None if nothing is."""
    try:
        await client.post("/v1/stop", {"now": True})
        duties = (await client.get("/v1/obligations"))["obligations"]
    except (Unreachable, Problem) as problem:
        return f"the daemon does not answer, and is asked again: {problem}"
    return _owed_words(duties) if duties else None


def _owed_words(duties: list[dict[str, Any]]) -> str:
    waits = "; ".join(f"{duty['model'] or duty['id']}: waiting for {duty['waiting_for']}" for duty in duties)
    return f"{len(duties)} owed: {waits}"
