"""Does a demo that is told to end, however often, end well?"""

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace

import anyio
import pytest

from controller.demo import stage, story, table


@asynccontextmanager
async def no_children(group: object) -> AsyncIterator[SimpleNamespace]:
    yield SimpleNamespace(address="http://127.0.0.1:1/v1", evidence="e", config="c", setup_seconds=1.0)


@pytest.fixture(autouse=True)
def empty_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "stage", no_children)


def test_a_second_signal_before_the_table_has_seen_the_first_is_a_good_end(monkeypatch: pytest.MonkeyPatch) -> None:
    async def asked_twice(scene: object, asked: anyio.Event) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await asked.wait()
        os.kill(os.getpid(), signal.SIGINT)
        await anyio.sleep_forever()

    monkeypatch.setattr(table, "show", asked_twice)
    assert stage.run(script=False) == 0


def test_one_signal_ends_a_script_which_has_then_not_come_out_well(monkeypatch: pytest.MonkeyPatch) -> None:
    async def cut_short(scene: object) -> int:
        os.kill(os.getpid(), signal.SIGINT)
        await anyio.sleep_forever()
        return 0

    monkeypatch.setattr(story, "play", cut_short)
    assert stage.run(script=True) == 1
