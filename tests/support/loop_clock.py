"""What time is it on the loop that a test runs on?

A clock whose spans are the loop's own, so that it moves with virtual time. `true` is what the rest of the world says;
`ahead` sets the wall clock of this machine apart from it; the machine can be suspended, frozen and started anew.
"""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Final

BEGIN: Final = datetime(2026, 11, 29, 12, tzinfo=UTC)


class LoopClock:
    def __init__(self) -> None:
        self.ahead = timedelta()
        self._suspended = timedelta()
        self._uncounted = timedelta()
        self._boots = 1
        self._looked: tuple[float, timedelta] = (0.0, timedelta())
        """The loop's time when it was asked for last: it stands still while a pass runs, and is asked for often."""

    def true(self) -> datetime:
        """The time that nobody's clock can change."""
        return BEGIN + self.boot() + self._uncounted

    def wall(self) -> datetime:
        return self.true() + self.ahead

    def now(self) -> datetime:
        return self.wall()

    def boot(self) -> timedelta:
        seconds = asyncio.get_running_loop().time()
        if seconds != self._looked[0]:
            self._looked = (seconds, timedelta(seconds=seconds))
        return self._looked[1] + self._suspended

    def boot_id(self) -> str:
        return f"boot-{self._boots}"

    def suspend(self, span: timedelta) -> None:
        """The machine sleeps, or everything on it is stopped: boot time counts it, the loop does not."""
        self._suspended += span

    def freeze(self, span: timedelta) -> None:
        """The machine is frozen from outside: nothing on it counts the time."""
        self._uncounted += span

    def reboot(self, off: timedelta) -> None:
        """The machine is off for a while, then boot time begins anew."""
        self._boots += 1
        before = self.boot()
        self._suspended -= before - timedelta(seconds=20)
        self._uncounted += before - timedelta(seconds=20) + off


class HandClock:
    """Moves only when told to."""

    def __init__(self) -> None:
        self.elapsed = timedelta()
        self.ahead = timedelta()

    def now(self) -> datetime:
        return BEGIN + self.elapsed

    def wall(self) -> datetime:
        return self.now() + self.ahead

    def boot(self) -> timedelta:
        return self.elapsed

    def boot_id(self) -> str:
        return "boot-1"

    def advance(self, span: timedelta) -> None:
        self.elapsed += span
