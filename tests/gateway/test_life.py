"""When does a waiting client get a comment, and what ends them?"""

import asyncio
from collections.abc import MutableMapping
from datetime import timedelta
from typing import Any

import pytest

from controller.gateway.life import Life
from controller.gateway.passage import Passage
from controller.gateway.reply import OverAsgi, Reply
from tests.support.virtual_time import run_virtual

EVERY = timedelta(seconds=10)


class Scene:
    def __init__(self) -> None:
        self.began = asyncio.get_running_loop().time()
        self.comments: list[int] = []
        self.taken = asyncio.Event()
        self.taken.set()
        self.error: Exception | None = None
        self.failed = 0
        self.passage = Passage("r", self.began)
        self.reply = Reply(OverAsgi(self._send, {}), self.passage)
        self.life = Life(self.reply, EVERY, lambda: "still here", failed=self._fail)

    def _fail(self) -> None:
        self.failed += 1

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        await self.taken.wait()
        if self.error is not None:
            raise self.error
        if message.get("body") == b": still here\n\n":
            self.comments.append(round(asyncio.get_running_loop().time() - self.began))

    async def passes(self, data: bytes = b"data: {}\n\n") -> None:
        if not self.reply.begun:
            await self.reply.start(200, [], events=True)
        await self.reply.piece(data)


def test_a_comment_comes_whenever_nothing_was_sent_for_so_long() -> None:
    async def work() -> list[int]:
        scene = Scene()
        await asyncio.sleep(25)
        await scene.passes()
        await asyncio.sleep(21)
        await scene.life.end()
        return scene.comments

    assert run_virtual(work) == [10, 20, 35, 45]


def test_while_something_is_sent_there_is_no_task_for_it() -> None:
    async def work() -> tuple[list[int], int]:
        scene = Scene()
        for _ in range(10):
            await asyncio.sleep(7)
            await scene.passes()
        tasks = len(asyncio.all_tasks())
        await scene.life.end()
        return scene.comments, tasks

    assert run_virtual(work) == ([], 1)


def test_what_passed_as_it_came_was_sent() -> None:
    async def work() -> list[int]:
        scene = Scene()
        await scene.passes()
        await asyncio.sleep(8)
        scene.passage.passed(1, asyncio.get_running_loop().time())
        await asyncio.sleep(11)
        await scene.life.end()
        return scene.comments

    assert run_virtual(work) == [18]


@pytest.mark.parametrize("after_s", [5, 15])
def test_no_comment_comes_after_its_end(after_s: int) -> None:
    async def work() -> list[int]:
        scene = Scene()
        await asyncio.sleep(after_s)
        await scene.life.end()
        await asyncio.sleep(30)
        return scene.comments

    assert run_virtual(work) == [10] * (after_s > 10)


def test_its_end_waits_for_no_client() -> None:
    async def work() -> tuple[list[int], float]:
        scene = Scene()
        scene.taken.clear()
        await asyncio.sleep(15)
        await scene.life.end()
        after = asyncio.get_running_loop().time() - scene.began
        scene.taken.set()
        await asyncio.sleep(30)
        return scene.comments, after

    assert run_virtual(work) == ([], 15)


def test_a_comment_that_cannot_be_made_ends_the_exchange_with_what_is_wrong() -> None:
    async def work() -> int:
        scene = Scene()
        scene.error = RuntimeError("no answer has begun")
        await asyncio.sleep(15)
        with pytest.raises(RuntimeError, match="no answer has begun"):
            await scene.life.end()
        return scene.failed

    assert run_virtual(work) == 1


@pytest.mark.parametrize("how", ["done", "plain"])
def test_an_answer_that_ended_or_is_to_be_plain_gets_none(how: str) -> None:
    async def work() -> list[int]:
        scene = Scene()
        setattr(scene.reply, how, True)
        await asyncio.sleep(30)
        await scene.life.end()
        return scene.comments

    assert run_virtual(work) == []


def test_no_comment_stands_within_an_event() -> None:
    async def work() -> list[int]:
        scene = Scene()
        await scene.passes(b"data: {")
        await asyncio.sleep(25)
        await scene.passes(b"}\n\n")
        await asyncio.sleep(21)
        await scene.life.end()
        return scene.comments

    assert run_virtual(work) == [35, 45]
