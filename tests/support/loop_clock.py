"""What time is it on the loop that a test runs on?

A clock whose spans are the loop's own, so that it moves with virtual time; `ahead` sets the wall clock apart from the
loop.
"""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Final

BEGIN: Final = datetime(2026, 11, 29, 12, tzinfo=UTC)


class LoopClock:
    def __init__(self) -> None:
        self.ahead = timedelta()

    def now(self) -> datetime:
        return BEGIN + self.boot() + self.ahead

    def boot(self) -> timedelta:
        return timedelta(seconds=asyncio.get_running_loop().time())


class HandClock:
    """Moves only when told to."""

    def __init__(self) -> None:
        self.elapsed = timedelta()

    def now(self) -> datetime:
        return BEGIN + self.elapsed

    def boot(self) -> timedelta:
        return self.elapsed

    def advance(self, span: timedelta) -> None:
        self.elapsed += span
