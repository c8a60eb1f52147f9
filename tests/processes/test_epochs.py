"""Does an epoch never repeat, whoever else writes to the file and whenever a process is killed? (HC-28)"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from controller.store.database import prepare
from tests.processes.children import until

pytestmark = pytest.mark.process

GRANTING = """
import ctypes, signal, sys
from pathlib import Path
ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
import anyio
from controller.clock import SystemClock
from controller.ids import SystemRandomness
from controller.store.errors import Stale, StoreUnwritable
from controller.store.store import Store

async def main() -> None:
    store = await Store.open(
        Path(sys.argv[1]), identity=("acme", "runpod", "main"), clock=SystemClock(), randomness=SystemRandomness(),
        locked_as=Path(sys.argv[2]),
    )
    while True:
        try:
            print(await store.write(lambda tx: tx.next_epoch()), flush=True)
        except (Stale, StoreUnwritable):
            continue

anyio.run(main)
"""


def granting(store: Path, number: int) -> "subprocess.Popen[str]":
    """A process that grants epochs as fast as it can. Each has a lock of its own, as if somebody had removed it."""
    words = [sys.executable, "-c", GRANTING, str(store), str(store.with_name(f"lock-{number}"))]
    with store.with_name(f"granted-{number}").open("w") as log:
        return subprocess.Popen(words, stdout=log, stderr=log, cwd=os.getcwd(), text=True)


def granted(store: Path, number: int) -> list[int]:
    whole, _, _ = store.with_name(f"granted-{number}").read_text().rpartition("\n")
    return [int(line) for line in whole.splitlines()]


async def wait_for(store: Path, number: int, count: int) -> None:
    await until(lambda: len(granted(store, number)) >= count, within=30, what=f"{count} epochs of process {number}")


async def test_two_processes_on_one_file_and_a_kill_in_the_midst_grant_none_twice(tmp_path: Path) -> None:
    store = tmp_path / "gpuwarden.db"
    prepare(store)
    running = [granting(store, number) for number in range(2)]
    try:
        for number in range(2):
            await wait_for(store, number, 20)
        running[0].send_signal(signal.SIGKILL)
        running[0].wait()
        running.append(granting(store, 2))
        await wait_for(store, 2, 20)
    finally:
        for process in running:
            process.kill()
            process.wait()
    each = [granted(store, number) for number in range(3)]
    assert all(epochs == sorted(set(epochs)) for epochs in each)
    together = [epoch for epochs in each for epoch in epochs]
    assert len(together) == len(set(together))
    assert min(each[2]) > max(each[0])
