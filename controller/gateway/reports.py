"""What did the gateway see of a deployment that the daemon should know?

Hints: the daemon decides what follows. The same sight is told at most once in ten seconds, and a failed telling is
tried again a few times, because a lost "proved" costs the other gateways a proof.
"""

from datetime import timedelta
from typing import Final

import anyio
import structlog

from controller.api.client import DaemonClient, Problem, Unreachable
from controller.gateway.config import Start
from controller.gateway.routes import Key

log = structlog.get_logger(__name__)

SILENCE: Final = timedelta(seconds=10)
TRIES: Final = 5
REMEMBERED: Final = 256


class Reports:
    def __init__(self, *, name: str, daemon: DaemonClient, start: Start) -> None:
        self._name = name
        self._daemon = daemon
        self._start = start
        self._told_at: dict[tuple[Key, str], float] = {}

    def tell(self, key: Key, kind: str, detail: str) -> None:
        now = anyio.current_time()
        told_at = self._told_at.get((key, kind))
        if told_at is not None and now - told_at < SILENCE.total_seconds():
            return
        if len(self._told_at) >= REMEMBERED:
            self._told_at.clear()
        self._told_at[key, kind] = now
        log.info("reported", deployment=key[0], epoch=key[1], kind=kind, detail=detail)

        async def send() -> None:
            await self._send(key, kind, detail)

        self._start(send)

    async def _send(self, key: Key, kind: str, detail: str) -> None:
        for _ in range(TRIES):
            try:
                await self._daemon.report(
                    gateway=self._name, deployment=key[0], epoch=key[1], kind=kind, detail=detail[:500]
                )
            except Problem as problem:
                log.warning("report_refused", kind=kind, code=problem.code)
                return
            except Unreachable:
                await anyio.sleep(SILENCE.total_seconds())
            else:
                return
