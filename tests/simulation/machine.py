"""What runs on an operator's machine, and what can happen to it?

The real daemon and the real gateway, each as a program of the kernel: started, told to end, killed, stopped for a
while. A crash drops the program as it is and leaves the files: the store as of its last commit, the evidence file with
a torn line perhaps. The disk can fill up and the store can be locked by somebody else.
"""

import asyncio
import errno
import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar
from unittest import mock

import anyio

from controller.api.app import gateways_app, operators_app
from controller.api.board import Closing
from controller.api.client import DaemonClient
from controller.core.errors import Refusal
from controller.daemon.build import build
from controller.daemon.built import Daemon, Seams
from controller.daemon.modes import decide
from controller.daemon.serving import panel_of
from controller.gateway.app import Gateway
from controller.gateway.app import build as build_gateway
from controller.gateway.config import GatewayConfig
from controller.ids import SeededRandomness
from controller.settings import ConfigProblems
from controller.store import store as store_module
from controller.store.database import FileLock, prepare
from controller.store.errors import StoreError, StoreInUse
from controller.supervision import GaveUp
from tests.simulation.clocks import MachineClock, ProcessClock
from tests.simulation.kernel import Kernel, Program
from tests.simulation.wires import Around, Line, Outside, Wire
from tests.support.threadless_sqlite import ThreadlessConnection

T = TypeVar("T")
SERVER_KEY: Final = "open-sesame-canary-4711"
RESTART_AFTER_S: Final = 5.0
RESTART_AFTER_MOST_S: Final = 40.0
"""Doubling for who ends again and again: hours of a full disk are not worth thousands of starts."""
"""What the unit says: `RestartSec`."""
EXIT_BAD_CONFIG: Final = 78


class Disk:
    """What may be wrong with the machine's disk."""

    def __init__(self) -> None:
        self.full = False
        self.locked = False

    def write(self) -> None:
        """Raises what SQLite raises."""
        if self.full:
            raise sqlite3.OperationalError("database or disk is full")

    def begin(self) -> None:
        if self.locked:
            raise sqlite3.OperationalError("database is locked")


class Connection(ThreadlessConnection):
    """The store's connection: dies with its program, meets the disk's faults, and tells of each commit."""

    def __init__(self, path: Path, machine: "Machine", program: Program) -> None:
        super().__init__(path)
        self._machine, self._program = machine, program
        self._changes = 0
        program.at_death(self, super().stop)

    def stop(self) -> None:
        self._program.spare(self)
        super().stop()

    async def commit(self) -> None:
        changes = self._conn.total_changes
        if changes == self._changes:
            await super().commit()
            return
        await self._machine.around(self._program, "before commit")
        self._machine.disk.write()
        await super().commit()
        self._changes = changes
        self._machine.committed(self._program, self._conn)
        await self._machine.around(self._program, "after commit")

    def cursor(self) -> Any:
        self._machine.disk.begin()
        return super().cursor()


class Lock(FileLock):
    """The file's lock: given back by the kernel when its program dies."""

    def take(self) -> None:
        super().take()
        program = asyncio.get_running_loop().program  # type: ignore[attr-defined]
        program.at_death(self, super().give_back)
        program.lock = self

    def give_back(self) -> None:
        super().give_back()
        asyncio.get_running_loop().program.spare(self)  # type: ignore[attr-defined]


def with_locks() -> Any:
    """While inside, stores take locks that die with their program."""
    return mock.patch.object(store_module, "FileLock", Lock)


_template: list[Path] = []


def fresh_store(path: Path, scratch: Path) -> None:
    """A migrated file, migrated once."""
    if not _template or not _template[0].exists():
        _template.clear()
        made = scratch / "template" / "gpuwarden.db"
        prepare(made)
        _template.append(made)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    shutil.copy2(_template[0], path)
    path.chmod(0o600)


async def nothing(_: Program, __: str) -> None:
    """Around a call: nobody wants to end anything."""


class Machine:
    """One box: its clock, its disk, its daemon and its gateway."""

    def __init__(self, kernel: Kernel, name: str, folder: Path, provider: Line, *, seed: int) -> None:
        self.kernel, self.name, self.folder = kernel, name, folder
        self.clock = MachineClock(kernel)
        self.disk = Disk()
        self.draw = random.Random(f"machine {name} {seed}")
        self.provider = provider
        self.operators_line, self.gateways_line, self.front = Line(), Line(), Line()
        self.daemon: Daemon | None = None
        self.program: Program | None = None
        self.gateway: Gateway | None = None
        self.gateway_program: Program | None = None
        self.closing: Closing | None = None
        self.restarts_by_itself = True
        self._started_at, self._gap = 0.0, RESTART_AFTER_S / 2
        self.starts = 0
        self.around: Around = nothing
        self.on_commit: Callable[[Machine, Program, sqlite3.Connection], None] = lambda *_: None
        self.on_restored: Callable[[Machine], None] = lambda _: None
        self.on_exit: Callable[[Machine, int | None], None] = lambda *_: None

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def store(self) -> Path:
        return self.state / "gpuwarden.db"

    @property
    def config(self) -> Path:
        return self.folder / "config.toml"

    # The daemon

    def start_daemon(self) -> Program:
        """As systemd starts it; it restarts it by itself unless told not to."""
        self.starts += 1
        self._started_at = self.kernel.time
        program = self.program = self.kernel.program(f"{self.name}.{self.starts}")
        program.at_death(self, partial(self._killed, program))
        program.start(self._daemon_main(program))
        return program

    async def _daemon_main(self, program: Program) -> None:
        code: int | None = 1
        try:
            code = await self._serve(program)
        except ConfigProblems as problems:
            self.kernel.tell(program.name, f"bad config: {problems}")
            code = EXIT_BAD_CONFIG
        except StoreInUse:
            code = 6
        except (StoreError, Refusal) as refused:
            self.kernel.tell(program.name, f"refused: {refused}")
        program.spare(self)
        program.die()
        self._gone(program, code)

    async def _serve(self, program: Program) -> int:
        decided = decide(self.config, {})
        store = decided.settings.places.store
        if not store.exists():
            fresh_store(store, self.folder)
        seams = Seams(
            clock=ProcessClock(self.clock),
            randomness=SeededRandomness(self.draw.randrange(1 << 48)),
            transport=Outside(program, self.provider, around=self.around),
            creator=lambda: Connection(store, self, program),
            blocking=self._blocking(program),
        )
        daemon = await build(decided.settings, seams, mode=decided.mode)
        self.kernel.tell(program.name, f"up as {daemon.run_id}, {decided.mode.name}")
        closing = Closing()
        panel = panel_of(daemon, closing)
        failed: list[BaseException] = []
        if self.program is program:  # else another holds the sockets by now: this one was stopped while it came up
            self.daemon, self.closing = daemon, closing
            for line, app in ((self.operators_line, operators_app(panel)), (self.gateways_line, gateways_app(panel))):
                line.server, line.app = program, app
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(_tasks, daemon, failed, closing)
                await closing.wait()
                daemon.executor.shut()
                group.cancel_scope.cancel()
        finally:
            await daemon.close()
        for problem in failed:
            self.kernel.tell(program.name, f"gave up: {problem!r}")
        return 1 if failed else 0

    def _blocking(self, program: Program) -> Any:
        async def blocking(work: Callable[[], T]) -> T:
            await self.around(program, "before file")
            if self.disk.full:
                raise OSError(errno.ENOSPC, "No space left on device")
            done = work()
            await self.around(program, "after file")
            return done

        return blocking

    def committed(self, program: Program, connection: sqlite3.Connection) -> None:
        self.on_commit(self, program, connection)

    def _gone(self, program: Program, code: int | None) -> None:
        self.kernel.tell(program.name, "killed" if code is None else f"ended with {code}")
        if self.program is program:
            self.program = self.daemon = self.closing = None
            self.operators_line.app = self.gateways_line.app = None
            self.on_exit(self, code)
            if self.restarts_by_itself and code not in {0, EXIT_BAD_CONFIG, 6}:
                lived = self.kernel.time - self._started_at
                again = lived < RESTART_AFTER_MOST_S
                self._gap = min(2 * self._gap, RESTART_AFTER_MOST_S) if again else RESTART_AFTER_S
                self.kernel.after(self._gap, self.restart_if_down)

    def restart_if_down(self) -> None:
        if self.program is None and self.restarts_by_itself:
            self.start_daemon()

    def end_daemon(self) -> None:
        """SIGTERM."""
        if self.closing is not None:
            self.closing.set()

    def kill_daemon(self) -> None:
        """SIGKILL, or the power cut that only the daemon noticed."""
        if self.program is not None:
            self.program.die()

    def _killed(self, program: Program) -> None:
        self._tear()
        self._gone(program, None)

    def _tear(self) -> None:
        """The kill may have come in the middle of a line."""
        path = self.state / "evidence.jsonl"
        if path.exists() and self.draw.random() < 0.5:
            with path.open("ab") as file:
                file.write(b'{"seq": 12345, "at": "2026-11-'[: self.draw.randrange(1, 30)])
            self.kernel.tell(self.name, "the evidence file ends in a torn line")

    # The gateway

    def start_gateway(self, models: list[str]) -> None:
        program = self.gateway_program = self.kernel.program(f"{self.name}.gw")
        lines = {"socket": self.gateways_line, "127.0.0.1:1": self.provider}
        gateway = build_gateway(
            GatewayConfig(models={alias: lambda: SERVER_KEY for alias in models}),
            daemon=DaemonClient(Wire(program, lines), "unix:/run/gateway.sock:"),
            upstream=Wire(program, lines),
            clock=ProcessClock(self.clock),
            randomness=SeededRandomness(self.draw.randrange(1 << 48)),
        )
        self.gateway = gateway
        self.front.server, self.front.app = program, gateway.app
        program.start(gateway.run())

    def kill_gateway(self) -> None:
        if self.gateway_program is not None:
            self.gateway_program.die()
            self.gateway_program = self.gateway = None
            self.front.app = None

    # The machine itself

    def programs(self) -> list[Program]:
        return [program for program in (self.program, self.gateway_program) if program is not None]

    def sleep(self, seconds: float) -> None:
        """Suspend everything on it."""
        held = self.programs()
        for program in held:
            program.stopped += 1
        self.kernel.after(seconds, lambda: _wake(held))


def pause(program: Program, seconds: float) -> None:
    """SIGSTOP, and SIGCONT after a while."""
    program.stopped += 1
    program.kernel.after(seconds, lambda: _wake([program]))


def _wake(programs: list[Program]) -> None:
    for program in programs:
        program.stopped -= 1


async def _tasks(daemon: Daemon, failed: list[BaseException], closing: Closing) -> None:
    try:
        await daemon.run()
    except* GaveUp as gave_up:
        failed.append(gave_up)
        closing.set()


def copy_store(source: Path, target: Path) -> None:
    """A consistent copy of a store, as of its last commit."""
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with sqlite3.connect(source) as origin, sqlite3.connect(target) as copy:
        origin.backup(copy)
    copy.close()
    origin.close()
    target.chmod(0o600)


def replace_store(machine: Machine, backup: Path) -> None:
    """What an operator does who copies an old backup over the store, without any command of ours."""
    for suffix in ("", "-wal", "-shm"):
        path = machine.store.with_name(machine.store.name + suffix)
        if path.exists():
            os.unlink(path)
    shutil.copy2(backup, machine.store)
    machine.on_restored(machine)
