"""Does a short campaign hold, repeat itself, and notice a daemon that is wrong?

In processes of their own: what dies in a simulation is never collected.
"""

import os
import subprocess
import sys

import pytest

LIMIT_S = 300


def _simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.simulation", "--jobs", "1", *arguments]
    environment = os.environ | {"PYTHONHASHSEED": "0"}
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, env=environment, check=False)


@pytest.mark.process
def test_hours_of_troubles_lose_nothing_and_are_the_same_hours_twice() -> None:
    done = _simulate("--seeds", "1", "--first", "44", "--hours", "10", "--twice")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "seeds                    2, failed 0" in done.stdout
    assert "seeds that ran differently the second time: none" in done.stdout


@pytest.mark.process
@pytest.mark.parametrize(
    ("defect", "seed", "invariant"), [("never-stops", "1", "invariant 10"), ("absence-once", "3", "invariant 11")]
)
def test_a_wrong_daemon_is_noticed_and_can_be_replayed(defect: str, seed: str, invariant: str) -> None:
    done = _simulate("--seeds", "1", "--first", seed, "--hours", "6", "--plant", defect)
    assert done.returncode == 1, done.stdout[-4000:] + done.stderr[-2000:]
    assert invariant in done.stdout
    assert f"replay: make simulate FIRST={seed} SEEDS=1 HOURS=6 ARGS='--plant {defect}'" in done.stdout
