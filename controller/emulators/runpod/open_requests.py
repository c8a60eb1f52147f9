"""Which requests does a model server have open, and how are they cut when it dies?

The count is the set itself, so it cannot drift: a request is in it exactly as long as its block runs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import anyio

from controller.emulators.exchange import ConnectionCut


class OpenRequests:
    def __init__(self) -> None:
        self._scopes: set[anyio.CancelScope] = set()

    def __len__(self) -> int:
        return len(self._scopes)

    @contextlib.contextmanager
    def one(self, *, seconds_left: float | None = None) -> Iterator[None]:
        """Hold one request open. Raises ConnectionCut inside the block's place when the server dies under it."""
        scope = anyio.CancelScope() if seconds_left is None else anyio.move_on_after(seconds_left)
        self._scopes.add(scope)
        try:
            with scope:
                yield
        finally:
            self._scopes.discard(scope)
        if scope.cancelled_caught:
            raise ConnectionCut

    def cut(self) -> None:
        """The server dies: every open request loses its connection."""
        for scope in tuple(self._scopes):
            scope.cancel()
