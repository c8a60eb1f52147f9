"""Is a command that was forked the same to a test as one that was started?"""

import signal
from pathlib import Path

import pytest

from tests.processes.children import Child, pids_mentioning, until
from tests.processes.commands import inherited, ran_anew, ran_forked
from tests.processes.nursery import Nursery, nursery

pytestmark = pytest.mark.process


@pytest.mark.parametrize("words", [["--help"], ["owed"], ["owed", "--unheard-of"], ["emulate", "runpod", "--listen=x"]])
async def test_it_says_and_ends_as_one_in_an_interpreter_of_its_own(words: list[str], tmp_path: Path) -> None:
    environment = inherited() | {"GPUWARDEN_CONFIG": str(tmp_path / "config.toml")}
    forked = await ran_forked(words, environment)
    assert forked == await ran_anew(words, environment)
    assert forked.out + forked.err != ""


async def test_it_ends_by_a_signal_as_it_chooses_and_by_a_kill_as_killed(tmp_path: Path) -> None:
    told, killed = await emulator(nursery(), tmp_path / "told"), await emulator(nursery(), tmp_path / "killed")
    told.signal(signal.SIGTERM)
    killed.signal(signal.SIGKILL)
    assert [await child.ended(within=10) for child in (told, killed)] == [0, -signal.SIGKILL]


async def test_it_knows_nothing_of_the_one_before(tmp_path: Path) -> None:
    named = str(tmp_path / "config.toml")
    assert named in (await ran_forked(["owed"], inherited() | {"GPUWARDEN_CONFIG": named})).err
    assert named not in (await ran_forked(["owed"], inherited())).err


async def test_it_does_not_outlive_its_nursery(tmp_path: Path) -> None:
    ended = Nursery()
    child = await emulator(ended, tmp_path / "log")
    ended.close()
    await until(lambda: child.pid not in pids_mentioning("processes.nursery"), within=10, what="its end")


async def emulator(where: Nursery, log: Path) -> Child:
    """One that serves."""
    words = ["emulate", "runpod", "--listen", "127.0.0.1:0"]
    with log.open("wb") as said:
        process = where.start(words, stdout=said.fileno(), stderr=said.fileno(), environment=inherited())
    child = Child("emulator", process, log=log)
    await until(lambda: "base_url" in child.text(), within=20, what="its address")
    return child
