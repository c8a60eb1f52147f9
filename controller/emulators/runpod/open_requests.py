"""Which requests does a model server have open, how far has each come, and how are they cut when it dies?

The count is the set itself, so it cannot drift: a request is in it exactly as long as its block runs. Each has the
lowest slot that is free, and a slot remembers its last one, as llama.cpp's do.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import anyio

from controller.emulators.exchange import ConnectionCut


@dataclass(slots=True, kw_only=True, eq=False)
class Work:
    """How far one request has come: its prompt is taken in at `begins` (the loop's time), then words are written, one
    by one or, where the answer comes as a whole, one each `pace` seconds."""

    number: int
    slot: int
    open: bool = True
    prompt: int = 0
    most: int = 0
    begins: float | None = None
    pace: float | None = None
    words: int = 0

    def taken(self, now: float) -> int:
        return self.prompt if self.begins is not None and now >= self.begins else 0

    def written(self, now: float) -> int:
        if self.begins is None or self.pace is None:
            return self.words
        return min(self.most, max(0, int((now - self.begins) / self.pace)))


class OpenRequests:
    def __init__(self) -> None:
        self._scopes: dict[anyio.CancelScope, Work] = {}
        self._last: dict[int, Work] = {}
        self._number = 0

    def __len__(self) -> int:
        return len(self._scopes)

    @contextlib.contextmanager
    def one(self, *, seconds_left: float | None = None) -> Iterator[Work]:
        """Hold one request open. Raises ConnectionCut inside the block's place when the server dies under it."""
        scope = anyio.CancelScope() if seconds_left is None else anyio.move_on_after(seconds_left)
        work = self._scopes[scope] = self._next()
        try:
            with scope:
                yield work
        finally:
            del self._scopes[scope]
            work.open = False
        if scope.cancelled_caught:
            raise ConnectionCut

    def in_slot(self, slot: int) -> Work | None:
        """What it works on, or did last."""
        return self._last.get(slot)

    def _next(self) -> Work:
        taken = {work.slot for work in self._scopes.values()}
        slot = next(number for number in range(len(taken) + 1) if number not in taken)
        work = self._last[slot] = Work(number=self._number, slot=slot)
        self._number += 1
        return work

    def cut(self) -> None:
        """The server dies: every open request loses its connection."""
        for scope in tuple(self._scopes):
            scope.cancel()
        self._last, self._number = {}, 0
