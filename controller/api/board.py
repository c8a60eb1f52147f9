"""What does the API itself remember, and how do those who wait learn of a change?

In memory only: which deployments a gateway has proven, the version of the routes, and with which version each failure
first showed. After a restart the gateways prove again, and versions count anew under another controller's name.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import anyio

from controller.core.book import Book
from controller.core.deployment import Record


@dataclass(slots=True)
class Board:
    """One for both sockets."""

    version: int = 0
    shown: dict[str, Any] = field(default_factory=dict)
    """Of each model, what made the present version."""
    at_rest: dict[str, tuple[timedelta | None, Any, Any]] = field(default_factory=dict)
    """Of each model that was, how long its last start had taken, its view then, and what of that is steady."""
    failures: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Of each model, the latest failure's evidence number and the version with which it first showed."""
    proven: set[tuple[str, int]] = field(default_factory=set)
    """Deployments and epochs to which a gateway got through with its key."""
    counted_to: int = 0
    """The last evidence line that `counts` holds."""
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Evidence lines since this run began, by event and reason."""
    _changed: anyio.Event = field(default_factory=anyio.Event)
    _grouped: tuple[Book, dict[str, list[Record]]] | None = None

    def live(self, book: Book, alias: str) -> Sequence[Record]:
        """The model's deployments that occupy a slot. Sorted once a book: whoever waits looks at every ring."""
        if self._grouped is None or self._grouped[0] is not book:
            grouped: dict[str, list[Record]] = {}
            for record in book.live():
                grouped.setdefault(record.model, []).append(record)
            self._grouped = (book, grouped)
        return self._grouped[1].get(alias, ())

    def ring(self) -> None:
        """Something may have changed: whoever waits looks again."""
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    @property
    def changed(self) -> anyio.Event:
        """Take it before looking, and wait for it after: then no change is missed."""
        return self._changed


class Closing:
    """The daemon ends: whoever waits is answered at once."""

    def __init__(self) -> None:
        self._event = anyio.Event()
        self._rings: list[Callable[[], None]] = []

    def on_set(self, ring: Callable[[], None]) -> None:
        self._rings.append(ring)

    def set(self) -> None:
        self._event.set()
        for ring in self._rings:
            ring()

    def is_set(self) -> bool:
        return self._event.is_set()

    async def wait(self) -> None:
        await self._event.wait()


async def wait_until(
    seen: Callable[[], bool],
    *,
    board: Board,
    closing: Closing,
    limit: timedelta,
) -> None:
    """Return when `seen`, when closing (which rings the board), or after `limit`."""
    with anyio.move_on_after(limit.total_seconds()):  # one for all the rings: there are many an hour
        while True:
            changed = board.changed
            if seen() or closing.is_set():
                return
            await changed.wait()
    seen()  # what is told at the end is how it is then
