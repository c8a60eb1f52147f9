"""How does a test run a command of ours to its end, and what did that say?"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import anyio

from tests.processes.children import LOOK_EVERY
from tests.processes.nursery import nursery


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A command that ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out)
        return found


async def ran_anew(words: list[str], environment: Mapping[str, str]) -> Ran:
    """In an interpreter of its own."""
    done = await anyio.run_process(
        [sys.executable, "-m", "controller", *words], check=False, stdin=subprocess.DEVNULL, env=environment
    )
    return Ran(code=done.returncode, out=done.stdout.decode(), err=done.stderr.decode())


async def ran_forked(words: list[str], environment: Mapping[str, str]) -> Ran:
    """The same in a moment: see `nursery`."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = nursery().start(words, stdout=out.fileno(), stderr=err.fileno(), environment=environment)
        try:
            while (code := process.poll()) is None:  # noqa: ASYNC110 - its nursery rings nobody
                await anyio.sleep(LOOK_EVERY)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
        out.seek(0)
        err.seek(0)
        return Ran(code=code, out=out.read().decode(), err=err.read().decode())


def inherited() -> dict[str, str]:
    """What a command of ours finds in its environment; nothing that would override its config."""
    return {key: value for key, value in os.environ.items() if not key.startswith("GPUWARDEN_")}
