"""What time is it, and how long has it been?

The one seam for time. `now` is UTC and never goes back within a process (HC-33); `wall` is what the machine is set to;
`boot` is a span that nobody sets and that counts suspended time; waiting is done by anyio alone, so that a test's loop
can move time.
"""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """UTC, never earlier than a value given before."""
        ...

    def boot(self) -> timedelta:
        """Time since some fixed start, suspension included; not settable."""
        ...


class MachineClock(Clock, Protocol):
    """What the machine itself says, for the one place that decides what to believe of it."""

    def wall(self) -> datetime:
        """UTC as it is set at this moment; goes back where somebody sets it back."""
        ...

    def boot_id(self) -> str | None:
        """Another one after each start of the machine; `None` where it does not say."""
        ...


BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class SystemClock:
    """The machine's clocks."""

    def __init__(self) -> None:
        self._latest = datetime.now(UTC)

    def now(self) -> datetime:
        self._latest = max(self._latest, datetime.now(UTC))
        return self._latest

    def boot(self) -> timedelta:
        return timedelta(seconds=time.clock_gettime(time.CLOCK_BOOTTIME))

    def wall(self) -> datetime:
        return datetime.now(UTC)

    def boot_id(self) -> str | None:
        try:
            return BOOT_ID.read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            return None


def to_ms(instant: datetime) -> int:
    """Milliseconds since 1970 UTC: how the store and the wire write an instant."""
    return round(instant.timestamp() * 1000)


def from_ms(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, tz=UTC)
