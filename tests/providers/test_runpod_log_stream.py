"""Is a pod's log read to its newest lines and left, within its limits, and what cannot be read told as that?"""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from controller.core.inventory import Unreadable
from controller.core.machine_log import Log, LogLine
from controller.providers.runpod.log_stream import lines_in
from tests.providers.emulated import World, in_world


def told(log: Log | Unreadable) -> list[str]:
    assert isinstance(log, Log)
    return [line.text for line in log.lines]


def test_the_newest_lines_are_read_and_the_stream_is_left() -> None:
    async def story(world: World) -> tuple[list[str], bool, float]:
        key = await world.make()
        world.emulator.change_pod(key.incarnation, {"log": [f"line {number}" for number in range(500)]})
        began = asyncio.get_running_loop().time()
        log = await world.reading.read_log(key)
        assert isinstance(log, Log)
        return told(log), log.whole, asyncio.get_running_loop().time() - began

    lines, whole, took = in_world(story)
    assert lines == [f"line {number}" for number in range(300, 500)]
    assert whole
    assert 2 <= took <= 2.1


def test_a_log_without_a_line_is_empty_after_ten_seconds_and_no_failure() -> None:
    async def story(world: World) -> tuple[list[str], float]:
        key = await world.make()
        began = asyncio.get_running_loop().time()
        return told(await world.reading.read_log(key)), asyncio.get_running_loop().time() - began

    lines, took = in_world(story)
    assert lines == []
    assert 10 <= took <= 10.1


def test_one_that_never_falls_silent_is_left_after_ten_seconds_as_not_whole() -> None:
    async def story(world: World) -> tuple[bool, float]:
        key = await world.make()

        async def chatter() -> None:
            while True:
                world.emulator.change_pod(key.incarnation, {"log": ["more"]})
                await asyncio.sleep(0.5)

        busy, began = asyncio.ensure_future(chatter()), asyncio.get_running_loop().time()
        log = await world.reading.read_log(key)
        busy.cancel()
        assert isinstance(log, Log)
        return log.whole, asyncio.get_running_loop().time() - began

    whole, took = in_world(story)
    assert not whole
    assert 10 <= took <= 10.1


@pytest.mark.parametrize("do", [{"answer": 403}, {"answer": 404}, {"answer": 500}, {"drop": "before"}, {"hang": 60}])
def test_a_log_that_may_not_or_cannot_be_read_is_unreadable(do: dict[str, Any]) -> None:
    async def story(world: World) -> None:
        key = await world.make()
        world.fault("GET", f"/v2/pods/{key.incarnation}/logs", **do)
        assert isinstance(await world.reading.read_log(key), Unreadable)

    in_world(story)


def test_what_is_no_event_of_a_line_is_left_out() -> None:
    body = (
        b'id: 1\ndata: {"ts":"t1","source":"container","line":"one"}\n\n'
        b'data: {"ts":7,"line":"two"}\n\ndata: {"line":5}\n\ndata: [1]\n\ndata: {"line":"  "}\n\n'
        b': comment\ndata: nonsense\n\ndata: \xff\n\ndata: {"ts":"t3","source":"conta'
    )
    assert list(lines_in(body)) == [LogLine(said="t1", text="one"), LogLine(said="", text="two")]


def test_a_log_is_asked_for_as_any_call_and_paced_with_them() -> None:
    async def story(world: World) -> None:
        key = await world.make()
        world.fault("GET", "/v2/pods", answer=429, headers={"retry-after": "60"})
        await world.reading.list_resources()
        assert isinstance(await world.reading.read_log(key), Unreadable)
        await asyncio.sleep(timedelta(seconds=61).total_seconds())
        assert isinstance(await world.reading.read_log(key), Log)

    in_world(story)
