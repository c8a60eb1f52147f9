"""Is a stalled command really stopped, does it go on afterwards, and is its exit code told?"""

import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import anyio
import pytest

from tests.stalled import RESTS_S, RUNS_S, main, rhythm, run_stalled

LOOKS = """
import sys, time
last, longest = time.monotonic(), 0
while open(sys.argv[1]).read() != "go":
    open(sys.argv[2], "w").close()
    last, before = time.monotonic(), last
    longest = max(longest, last - before)
longest = max(longest, time.monotonic() - last)
sys.exit(3 if longest >= 0.25 else 4)
"""


WAITS = """
import os, sys
open(sys.argv[2], "w").write(str(os.getpid()))
while open(sys.argv[1]).read() != "go":
    pass
sys.exit(5)
"""


async def test_it_is_stopped_for_so_long_and_ends_as_it_chooses(tmp_path: Path) -> None:
    told, runs = tmp_path / "told", tmp_path / "runs"
    told.write_text("")

    def pauses() -> Iterator[tuple[float, float]]:
        while not runs.exists():
            yield 0.01, 0.0
        yield 0.01, 0.3
        told.write_text("go")
        yield 5.0, 0.0

    with anyio.fail_after(60):
        code, count = await run_stalled([sys.executable, "-c", LOOKS, str(told), str(runs)], pauses())
    assert code == 3 and count > 0


async def test_one_that_has_ended_when_it_is_to_be_stopped_keeps_its_exit_code(tmp_path: Path) -> None:
    told, runs = tmp_path / "told", tmp_path / "runs"
    told.write_text("")

    def pauses() -> Iterator[tuple[float, float]]:
        while not (runs.exists() and runs.read_text()):
            yield 0.01, 0.0
        told.write_text("go")
        while Path("/proc", runs.read_text()).exists():  # and nobody here hears of its end
            pass
        yield 0.0, 0.1

    with anyio.fail_after(60):
        code, _ = await run_stalled([sys.executable, "-c", WAITS, str(told), str(runs)], pauses())
    assert code == 5


def test_a_rhythm_is_that_of_its_seed() -> None:
    once, again, another = (list(islice(rhythm(seed), 100)) for seed in (1, 1, 2))
    assert once == again != another
    assert all(RUNS_S[0] <= runs <= RUNS_S[1] and rests in RESTS_S for runs, rests in once)


def test_it_asks_which_tests() -> None:
    with pytest.raises(SystemExit, match="which tests"):
        main([])
