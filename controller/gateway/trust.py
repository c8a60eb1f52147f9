"""Does a machine that failed a request get another one?

Where a model has several, not before it is proven again: after a pause it is asked for one token until it answers, and
stays at the end of the line meanwhile. One that fails again soon after it came back, as one that breaks off streams and
answers questions would, stays away twice as long each time. Where it is the only one there is nothing to gain by that:
the next request is the proof. Like a doubted one it is asked without a stream lease, as the question must not look like
use.
"""

from datetime import timedelta
from typing import Final

import anyio
import structlog

from controller.gateway.config import Start
from controller.gateway.proof import Proofs
from controller.gateway.routes import Key, Route, RouteTable, View

log = structlog.get_logger(__name__)

PAUSE_LEAST: Final = timedelta(seconds=1)
PAUSE_MOST: Final = timedelta(seconds=30)
SOON: Final = timedelta(seconds=60)


class Trust:
    def __init__(self, *, proofs: Proofs, table: RouteTable, start: Start) -> None:
        self._proofs = proofs
        self._table = table
        self._start = start
        self._failed: set[Key] = set()
        self._returned: dict[Key, tuple[timedelta, float]] = {}
        """With the pause that it took last, and when."""
        self.failed: frozenset[Key] = frozenset()
        """Of all models."""

    def lost(self, key: Key) -> None:
        """A request failed there."""
        if key in self._failed or not self._one_of_several(key):
            return
        self._failed.add(key)
        self.failed = frozenset(self._failed)
        pause = self._first_pause(key)
        log.warning("left_rotation", deployment=key[0], epoch=key[1], pause=pause.total_seconds())

        async def prove() -> None:
            try:
                await self._until_proven(key, pause)
            finally:
                self._failed.discard(key)
                self.failed = frozenset(self._failed)

        self._start(prove)

    def _first_pause(self, key: Key) -> timedelta:
        pause, returned_at = self._returned.get(key, (PAUSE_LEAST, -SOON.total_seconds()))
        if anyio.current_time() - returned_at > SOON.total_seconds():
            return PAUSE_LEAST
        return min(pause * 2, PAUSE_MOST)

    async def _until_proven(self, key: Key, pause: timedelta) -> None:
        await anyio.sleep(pause.total_seconds())
        while (found := self._listed(key)) is not None:
            verdict = await self._proofs.question(*found)
            if verdict.kind == "proved":
                self._returned[key] = (pause, anyio.current_time())
                log.info("back_in_rotation", deployment=key[0], epoch=key[1])
                return
            pause = min(pause * 2, PAUSE_MOST)
            await anyio.sleep(pause.total_seconds())
        self._returned.pop(key, None)

    def _one_of_several(self, key: Key) -> bool:
        found = self._listed(key)
        return found is not None and len(found[0].routes) > 1

    def _listed(self, key: Key) -> tuple[View, Route] | None:
        for view in self._table.views.values():
            for route in view.routes:
                if route.key == key:
                    return view, route
        return None
