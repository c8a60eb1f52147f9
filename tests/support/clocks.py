"""What time is it in a test that moves its clock by hand?

Wall and boot time move together with `move`; `set_wall` turns the wall clock alone, as a wrong time server does.
"""

from datetime import UTC, datetime, timedelta
from typing import Final

NOON: Final = datetime(2026, 3, 1, 12, tzinfo=UTC)


class HandClock:
    """Stands still until it is moved."""

    def __init__(self, begin: datetime = NOON) -> None:
        self._now = begin
        self._boot = timedelta(hours=1)

    def now(self) -> datetime:
        return self._now

    def boot(self) -> timedelta:
        return self._boot

    def move(self, span: timedelta) -> None:
        self._now += span
        self._boot += span

    def set_wall(self, now: datetime) -> None:
        self._now = now
