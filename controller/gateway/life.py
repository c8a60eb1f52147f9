"""How does a client that waits for a stream see that somebody is there?

By a comment whenever nothing was sent for so long, from the wait for a machine to the last token: it also ends whatever
limit a proxy on the client's side has. Most streams never need one, so there is a timer that looks when it fires, and a
task only from the first comment on.
"""

import asyncio
from collections.abc import Callable
from datetime import timedelta

import anyio

from controller.gateway.reply import Reply


class Life:
    """Whoever made it ends it. `failed` is called if it cannot go on, and `end` raises why."""

    __slots__ = ("_every_s", "_failed", "_loop", "_reply", "_task", "_timer", "_words")

    def __init__(self, reply: Reply, every: timedelta, words: Callable[[], str], *, failed: Callable[[], None]) -> None:
        self._reply = reply
        self._every_s = every.total_seconds()
        self._words = words
        self._failed = failed
        self._task: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_at(self._due, self._look)

    @property
    def _due(self) -> float:
        return self._reply.sent_at + self._every_s

    def _look(self) -> None:
        if self._loop.time() < self._due:
            self._timer = self._loop.call_at(self._due, self._look)
        else:
            self._task = self._loop.create_task(self._show())
            self._task.add_done_callback(self._over)

    async def _show(self) -> None:
        reply = self._reply
        while not reply.done:
            if self._loop.time() < self._due:
                await anyio.sleep_until(self._due)
                continue
            if reply.plain:
                return
            if not reply.begun:
                await reply.open_events()
            if reply.takes_comment:
                await reply.comment(self._words())
            else:
                await anyio.sleep(self._every_s)

    def _over(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self._failed()

    async def end(self) -> None:
        """Nothing is written any more."""
        self._timer.cancel()
        task = self._task
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error
