"""Does a deployment that the daemon doubts still write?

Asked with one request for one token, again and again for as long as the daemon doubts it, and told: a token that came,
or none in time. What could not be asked (no connection, a page of the proxy, a full queue) is told to nobody. Unlike
the first proof this question holds no stream lease: it must not look like use, and it goes to what serves already.
"""

from datetime import timedelta
from typing import Final

import anyio
import structlog

from controller.gateway.config import Start
from controller.gateway.proof import Proofs, Report, Verdict
from controller.gateway.routes import Key, Route, RouteTable, View

log = structlog.get_logger(__name__)

PAUSE: Final = timedelta(seconds=30)
NO_TOKEN: Final = "no-token"


class Doubts:
    """One question at a time for each deployment."""

    def __init__(self, *, proofs: Proofs, table: RouteTable, report: Report, start: Start) -> None:
        self._proofs = proofs
        self._table = table
        self._report = report
        self._start = start
        self._running: set[Key] = set()

    def look(self, aliases: set[str]) -> None:
        """These models' views changed."""
        for alias in aliases:
            view = self._table.views.get(alias)
            for route in () if view is None else view.routes:
                if route.doubted and route.key not in self._running:
                    self._begin(alias, route.key)

    def _begin(self, alias: str, key: Key) -> None:
        self._running.add(key)

        async def ask() -> None:
            try:
                while (found := self._doubted(alias, key)) is not None:
                    self._tell(key, await self._proofs.question(*found))
                    await anyio.sleep(PAUSE.total_seconds())
            finally:
                self._running.discard(key)

        self._start(ask)

    def _doubted(self, alias: str, key: Key) -> tuple[View, Route] | None:
        view = self._table.views.get(alias)
        for route in () if view is None else view.routes:
            if view is not None and route.key == key and route.doubted:
                return view, route
        return None

    def _tell(self, key: Key, verdict: Verdict) -> None:
        log.info("doubted_asked", deployment=key[0], kind=verdict.kind, silent=verdict.silent, detail=verdict.detail)
        if verdict.kind is not None:
            self._report(key, verdict.kind, verdict.detail)
        elif verdict.silent:
            self._report(key, NO_TOKEN, verdict.detail)
