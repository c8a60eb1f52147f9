"""Do tests hold on a machine that takes the processor away at any moment? `make stalled ARGS=tests/gateway`

Runs pytest with these arguments in one process, and stops that process again and again, each time for as long as a busy
machine might. What fails only here waits for a moment where it has to wait for what happens. SEED=2 makes the rhythm
another one; no rhythm meets the same moments twice.
"""

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from random import Random
from typing import Final

import anyio

RUNS_S: Final = (0.003, 0.08)
"""Between these two the process runs on."""
RESTS_S: Final = (0.03, 0.07, 0.12, 0.3)


def rhythm(seed: int) -> Iterator[tuple[float, float]]:
    """Seconds for which the process runs, and then rests."""
    chance = Random(seed)
    while True:
        yield chance.uniform(*RUNS_S), chance.choice(RESTS_S)


async def run_stalled(command: Sequence[str], pauses: Iterator[tuple[float, float]]) -> tuple[int, int]:
    """How the command ended, and how often it was stopped before it did."""
    count = 0
    async with await anyio.open_process(command, stdin=None, stdout=None, stderr=None) as child:
        for runs_s, rests_s in pauses:
            with anyio.move_on_after(runs_s):
                await child.wait()
                break
            with suppress(ProcessLookupError):  # it ended before it could be stopped
                child.send_signal(signal.SIGSTOP)
                await anyio.sleep(rests_s)
                child.send_signal(signal.SIGCONT)
                count += 1
        return await child.wait(), count


def main(arguments: Sequence[str]) -> int:
    if not arguments:
        sys.exit("which tests? For example: make stalled ARGS=tests/gateway")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    code, count = anyio.run(run_stalled, command, rhythm(int(os.environ.get("SEED", "1"))))
    print(f"stopped {count} times")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
