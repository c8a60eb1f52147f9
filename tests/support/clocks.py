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
        self._boot = timedelta(hours=1) + max(begin - NOON, timedelta())
        self._boot_id = "boot"

    def now(self) -> datetime:
        return self._now

    def boot(self) -> timedelta:
        return self._boot

    def wall(self) -> datetime:
        return self._now

    def boot_id(self) -> str:
        return self._boot_id

    def reboot(self, off: timedelta) -> None:
        """The machine is off for a while and starts again."""
        self._boot_id += "+"
        self._now += off
        self._boot = timedelta(seconds=20)

    def move(self, span: timedelta) -> None:
        self._now += span
        self._boot += span

    def set_wall(self, now: datetime) -> None:
        self._now = now
