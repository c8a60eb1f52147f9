"""How is a block of one request ended from outside, at no cost while nobody does?

By cancelling its task, and by taking that cancellation back where the block ends. anyio's own scope does the same, and
more; entering and leaving one took a twentieth of a plain request (November 2026). Around task groups and limits, which
need to know of each other, that one stands; this one is for the block around all of them.
"""

import asyncio
from types import TracebackType
from typing import Self


class Cut:
    def __init__(self) -> None:
        self._task: asyncio.Task[object] | None = None
        self._asked = False

    def __enter__(self) -> Self:
        self._task = asyncio.current_task()
        return self

    def cancel(self) -> None:
        """From another task or a callback. Once; afterwards, and once the block is left, it does nothing."""
        if self._task is not None and not self._asked:
            self._asked = True
            self._task.cancel()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        task, self._task = self._task, None
        if not self._asked or task is None:
            return False
        # Somebody else may have cancelled the task as well: then it goes on being cancelled.
        others = task.uncancel()
        return kind is not None and issubclass(kind, asyncio.CancelledError) and not others
