"""How does a command of ours start without a second of imports?

It is forked from a process that imported everything once and has done nothing since. What is forked is a process like
any other: it has its own id, session, environment and output, takes signals, dies by `kill -9`, runs the command line
as `python -m controller` does and ends as that would. What differs is what `/proc` says of its arguments and
environment: these are the nursery's. Tests that look there, or that put a module in the way of ours, start anew.

Orders come over a socket that ends with the test's process, and with it the nursery and everything forked from it.
"""

import atexit
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import controller

ORDER_BYTES = 1 << 18
PR_SET_PDEATHSIG = 1
LEFT_OUT = ("controller.__main__", "controller.demo", "controller.emulators.llama")
"""Not imported ahead: what runs when it is imported, and what needs other programs."""


class Forked:
    """A command that runs, to whoever ordered it; as a `subprocess.Popen` is."""

    def __init__(self, pid: int, report: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._report = report

    def poll(self) -> int | None:
        if self.returncode is None:
            told = select.poll()  # not `select`, which knows no descriptor beyond 1023
            told.register(self._report, select.POLLIN)
            if told.poll(0):
                self.wait()
        return self.returncode

    def wait(self) -> int:
        if self.returncode is None:
            told = os.read(self._report, 32)
            os.close(self._report)
            self.returncode = int(told) if told else -signal.SIGKILL  # with the nursery
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)


class Nursery:
    """One for each process that runs tests."""

    def __init__(self) -> None:
        self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._orders.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, ORDER_BYTES)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.processes.nursery", str(theirs.fileno()), str(os.getpid())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                cwd=os.path.dirname(os.path.dirname(os.path.dirname(__file__))),
            )

    def start(self, words: Sequence[str], *, stdout: int, stderr: int, environment: Mapping[str, str]) -> Forked:
        reading, writing = os.pipe()
        order = json.dumps({"words": list(words), "environment": dict(environment), "folder": os.getcwd()})
        try:
            socket.send_fds(self._orders, [order.encode()], [stdout, stderr, writing])
            pid = int(self._orders.recv(32))
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        return Forked(pid, reading)

    def close(self) -> None:
        self._orders.close()
        self._process.wait()


_nursery: list[Nursery] = []


def nursery() -> Nursery:
    """Started by the first who asks."""
    if not _nursery:
        _nursery.append(Nursery())
        atexit.register(_nursery[0].close)
    return _nursery[0]


# The nursery itself


class Rearing:
    """What is forked from here, until it ended."""

    def __init__(self, orders: socket.socket) -> None:
        self._orders = orders
        self._reports: dict[int, int] = {}
        self._ended, waking = os.pipe()
        os.set_blocking(waking, False)
        signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def run(self) -> bool:
        """Whether this is what was forked, that returns at once; the nursery itself does when it is needed no more."""
        while True:
            ready, _, _ = select.select([self._orders.fileno(), self._ended], [], [])
            if self._ended in ready:
                os.read(self._ended, 4096)
                self._report()
            if self._orders.fileno() in ready:
                told, descriptors, _, _ = socket.recv_fds(self._orders, ORDER_BYTES, 3)
                if not told:
                    return False
                if (pid := os.fork()) == 0:
                    self._orders.close()
                    return become(json.loads(told), descriptors)
                self._reports[pid] = descriptors.pop()
                for descriptor in descriptors:
                    os.close(descriptor)
                self._orders.send(str(pid).encode())

    def _report(self) -> None:
        while self._reports:
            pid, how = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            report = self._reports.pop(pid)
            with suppress(BrokenPipeError):
                os.write(report, str(os.waitstatus_to_exitcode(how)).encode())
            os.close(report)


def become(order: dict[str, Any], descriptors: list[int]) -> bool:
    """Nothing of the nursery is left but its modules."""
    nursery_pid = os.getppid()
    os.setsid()
    tether(nursery_pid)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.dup2(descriptors[0], 1)
    os.dup2(descriptors[1], 2)
    os.closerange(3, max(int(name) for name in os.listdir("/proc/self/fd")) + 1)
    # As an interpreter makes them; the nursery's own are bound to what it was given.
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    time.tzset()
    sys.argv = ["", *order["words"]]
    return True


def tether(parent: int) -> None:
    """Die with the parent, whatever becomes of that."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def import_all() -> None:
    """And make what every command makes alike."""
    from controller.cli.commands import tree
    from controller.cli.groups import app
    from controller.transport import trusted

    for found in pkgutil.walk_packages(controller.__path__, "controller."):
        if not found.name.startswith(LEFT_OUT):
            importlib.import_module(found.name)
    trusted()
    tree(app)
    gc.collect()
    gc.freeze()  # what is never looked at by the collector stays shared


def main() -> None:
    tether(int(sys.argv[2]))
    import_all()
    if Rearing(socket.socket(fileno=int(sys.argv[1]))).run():
        runpy.run_module("controller", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
