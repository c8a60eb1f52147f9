"""Which real programs run behind which pods?

A program is started when its pod's container is, started anew when the container is or when the program ends by
itself, and stopped when the pod ends: SIGTERM to its process group, SIGKILL three seconds later. It dies with the
emulator, however that one ends. `tend` makes it so; it is called again and again by `keep`, and by each request to a
pod.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import anyio.abc

from controller.emulators import tether
from controller.emulators.exchange import Exchange, Request, give, in_text
from controller.emulators.runpod import pods
from controller.emulators.runpod.launch import read_launch, resolve
from controller.emulators.runpod.pods import Pod
from controller.emulators.runpod.relay import NothingListens, relay

if TYPE_CHECKING:
    from controller.emulators.runpod.emulator import Emulator

_TEND_SECONDS: Final = 0.2
_GRACE_SECONDS: Final = 3.0
_RESTART_SECONDS: Final = 1.0
_INHERITED: Final = ("PATH", "HOME", "LANG", "LC_ALL", "VIRTUAL_ENV", "PYTHONPATH", "LD_LIBRARY_PATH", "TMPDIR")


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """A program behind a pod, and the life of the container it stands for."""

    process: anyio.abc.Process
    port: int
    container_since: float


class Children:
    def __init__(self) -> None:
        self._running: dict[str, Child] = {}
        self._turn = anyio.Lock()
        self._closed = False

    def pids(self) -> list[int]:
        """The programs that run now."""
        return [child.process.pid for child in self._running.values()]

    async def keep(self, emulator: Emulator) -> None:
        """Tend until cancelled."""
        while True:
            await self.tend(emulator)
            await anyio.sleep(_TEND_SECONDS)

    async def tend(self, emulator: Emulator) -> None:
        """Make the running programs those that should run now."""
        async with self._turn:
            now = emulator.settle()
            due = [pod_id for pod_id in self._running if self._is_due(emulator, pod_id, now)]
            ending = [self._running.pop(pod_id) for pod_id in due]
            for pod in tuple(emulator.pods.values()):
                await self._start_if_due(emulator, pod, now)
        # Outside the turn: a program that is slow to end must not hold up requests to the others.
        await _end_all(ending)

    async def pass_on(self, emulator: Emulator, pod: Pod, request: Request, exchange: Exchange) -> None:
        """Answer a request by the program behind this pod: 502 where none listens."""
        await self.tend(emulator)
        child = self._running.get(pod.id)
        try:
            if child is None:
                raise NothingListens
            if request.method == "POST":
                await self._count(pod, child, request, exchange)
            else:
                await relay(child.port, request, exchange)
        except NothingListens:
            await give(exchange, in_text(502, "error code: 502"))

    async def close(self) -> None:
        """End them all; none is started afterwards."""
        self._closed = True
        async with self._turn:
            children, self._running = list(self._running.values()), {}
        await _end_all(children)

    async def _count(self, pod: Pod, child: Child, request: Request, exchange: Exchange) -> None:
        upstream = pod.upstream
        upstream.requests += 1
        try:
            with upstream.open.one():
                await relay(child.port, request, exchange)
        except anyio.get_cancelled_exc_class():
            upstream.aborted += 1
            raise

    def _is_due(self, emulator: Emulator, pod_id: str, now: float) -> bool:
        """Whether this program has to end, or has: its container has changed, or it stopped by itself."""
        child, pod = self._running[pod_id], emulator.pods[pod_id]
        if child.process.returncode is not None and pod.alive:
            # Runpod starts a container anew for ever when its command ends.
            pods.restart_container(pod, now, after=_RESTART_SECONDS)
        return pods.container_since(pod, now) != child.container_since

    async def _start_if_due(self, emulator: Emulator, pod: Pod, now: float) -> None:
        since = pods.container_since(pod, now)
        program = emulator.settings.exec.get(pod.image) or emulator.settings.exec.get("*")
        if self._closed or since is None or program is None or pod.id in self._running:
            return
        port = _free_port()
        launch = read_launch(pod, emulator.secrets())
        name = launch.names[0] if launch is not None else pod.name
        argv = [word.replace("{port}", str(port)).replace("{model}", name) for word in program]
        tied = [sys.executable, "-I", "-S", str(Path(tether.__file__)), str(os.getpid()), *argv]
        process = await anyio.open_process(
            tied,
            env=_environment(emulator, pod),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._running[pod.id] = Child(process=process, port=port, container_since=since)


async def _end_all(children: list[Child]) -> None:
    async with anyio.create_task_group() as group:
        for child in children:
            group.start_soon(_end, child)


async def _end(child: Child) -> None:
    """SIGTERM, then SIGKILL, to the whole group; shielded, or a program could be left behind."""
    with anyio.CancelScope(shield=True):
        _signal_group(child.process.pid, signal.SIGTERM)
        with anyio.move_on_after(_GRACE_SECONDS):
            await child.process.wait()
        _signal_group(child.process.pid, signal.SIGKILL)
        await child.process.wait()
        await child.process.aclose()


def _signal_group(pid: int, sent: signal.Signals) -> None:
    try:
        os.killpg(pid, sent)
    except ProcessLookupError:
        return


def _environment(emulator: Emulator, pod: Pod) -> dict[str, str]:
    """The pod's own variables over those that Runpod injects; a pod-scoped key shadows one that was set."""
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    injected = {
        "RUNPOD_POD_ID": pod.id,
        "RUNPOD_DC_ID": pod.place or "",
        "RUNPOD_POD_HOSTNAME": f"{pod.id}-0",
        "RUNPOD_GPU_COUNT": str(pod.gpu_count),
    }
    return inherited | injected | resolve(pod.env, emulator.secrets()) | {"RUNPOD_API_KEY": emulator.injected_key(pod)}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
