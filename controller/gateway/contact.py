"""Is the daemon there?

The last answer counts, whichever call got it. Being away changes nothing for a ready model; a cold caller is not left
waiting for a daemon that was away before it came.
"""

from collections.abc import Callable

import anyio
import structlog

log = structlog.get_logger(__name__)


class Contact:
    """`on_change` is called when the daemon goes away or returns."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self.down = False
        self.seen_at: float | None = None
        """On the loop's clock."""

    def reached(self) -> None:
        self.seen_at = anyio.current_time()
        if self.down:
            self.down = False
            log.warning("daemon_returned")
            self._on_change()

    def missed(self, detail: str) -> None:
        if not self.down:
            self.down = True
            log.warning("daemon_unreachable", detail=detail)
            self._on_change()
