"""Do our children speak under their names, end when told, and never outlive us?"""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import anyio
import pytest
from anyio.abc import TaskGroup

from controller import children
from controller.children import Child

pytestmark = pytest.mark.process

LIMIT_S = 20
BEGIN = "import os, signal, sys, time\n"
WAIT = "os.write(1, b'up %d\\n' % os.getpid())\nwhile True: time.sleep(60)\n"
DEAF = BEGIN + "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + WAIT
LEAVING = (
    BEGIN + "if os.fork() == 0:\n    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n    " + WAIT.replace("\n", "\n    ")
)


def test_beside_other_workers_tests_of_processes_run_in_one_group(request: pytest.FixtureRequest) -> None:
    assert request.node.nodeid.endswith("@process") == hasattr(request.config, "workerinput")


class Said:
    """What the children said, line by line."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []
        self._changed = anyio.Event()

    def __call__(self, name: str, line: str) -> None:
        self.lines.append((name, line))
        self._changed.set()
        self._changed = anyio.Event()

    async def line(self, beginning: str) -> str:
        """Wait for a line that begins so."""
        with anyio.fail_after(LIMIT_S):
            while True:
                found = [line for _, line in self.lines if line.startswith(beginning)]
                if found:
                    return found[0]
                await self._changed.wait()


@asynccontextmanager
async def running(
    script: str, monkeypatch: pytest.MonkeyPatch, *arguments: str
) -> AsyncIterator[tuple[Child, Said, TaskGroup]]:
    """A child that runs this script in place of one of our commands."""
    monkeypatch.setattr(children, "TETHERED", children.TETHERED.replace(RUN, script))
    said = Said()
    async with anyio.create_task_group() as group:
        child = await children.start("worker", arguments, group=group, say=said)
        try:
            yield child, said, group
        finally:
            await child.end(limit=timedelta(seconds=0.1))


RUN = 'runpy.run_module("controller", run_name="__main__", alter_sys=True)\n'


def alive(process_id: int) -> bool:
    try:
        return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def gone(process_id: int) -> bool:
    with anyio.move_on_after(LIMIT_S):
        while alive(process_id):  # noqa: ASYNC110 - a stranger's end can only be looked for
            await anyio.sleep(0.01)
        return True
    return False


async def test_lines_come_out_under_the_child_s_name_the_last_one_too(monkeypatch: pytest.MonkeyPatch) -> None:
    script = BEGIN + "print('one\\ntwo', flush=True); sys.stderr.write('three'); sys.stderr.flush()\n"
    async with running(script, monkeypatch) as (child, said, _):
        await said.line("three")
    assert said.lines == [("worker", "one"), ("worker", "two"), ("worker", "three")]
    assert not child.running


async def test_it_gets_its_arguments_and_its_code_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    script = BEGIN + "print('said', *sys.argv[1:], flush=True); sys.exit(7)\n"
    async with running(script, monkeypatch, "a b", "c") as (child, said, _):
        assert await said.line("said") == "said a b c"
        assert await child.process.wait() == 7


async def test_a_child_that_listens_ends_on_term(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(BEGIN + WAIT, monkeypatch) as (child, said, _):
        await said.line("up")
        assert await child.end() == -signal.SIGTERM


async def test_a_child_that_does_not_listen_is_killed_after_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(DEAF, monkeypatch) as (child, said, _):
        await said.line("up")
        assert await child.end(limit=timedelta(seconds=0.1)) == -signal.SIGKILL


async def test_what_a_child_leaves_behind_is_killed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    script = LEAVING + "\nos.write(1, b'leader\\n')\nwhile True: time.sleep(60)\n"
    async with running(script, monkeypatch) as (child, said, _):
        left = int((await said.line("up")).split()[1])
        await said.line("leader")
        assert await child.end() == -signal.SIGTERM
    assert await gone(left)


async def test_ending_a_child_that_has_ended_tells_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(BEGIN + "sys.exit(3)\n", monkeypatch) as (child, _, _group):
        with anyio.fail_after(LIMIT_S):
            await child.process.wait()
        assert await child.end() == 3


async def test_a_child_has_a_group_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(BEGIN + WAIT, monkeypatch) as (child, said, _):
        await said.line("up")
        assert os.getpgid(child.process.pid) == child.process.pid != os.getpgrp()


PARENT = """
import sys
import anyio
from controller import children

children.TETHERED = children.TETHERED.replace({run!r}, {script!r})


async def main():
    async with anyio.create_task_group() as group:
        await children.start("worker", [], group=group, say=lambda name, line: print(line, flush=True))
        await anyio.sleep_forever()


anyio.run(main)
"""


def test_a_child_dies_with_its_parent_however_that_ends() -> None:
    program = PARENT.format(run=RUN, script=BEGIN + WAIT)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline().split()[1])
        assert alive(child)
        parent.kill()
    assert anyio.run(gone, child)


async def test_our_own_command_is_what_runs() -> None:
    said = Said()
    async with anyio.create_task_group() as group:
        child = await children.start("us", ["--help"], group=group, say=said)
        with anyio.fail_after(LIMIT_S):
            assert await child.process.wait() == 0
    assert any("gpuwarden" in line for _, line in said.lines)
