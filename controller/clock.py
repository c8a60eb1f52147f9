"""What time is it, and how long has it been?

The one seam for time. `now` is UTC and never goes back within a process (HC-33); `boot` is a span that nobody sets and
that counts suspended time; waiting is done by anyio alone, so that a test's loop can move time.

The wall clock is asked once, at the start: whoever sets it later moves no deadline, forward or back (B40).
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

AGREEMENT: Final = timedelta(seconds=60)
"""Two clocks agree if they are no further apart."""


class Clock(Protocol):
    def now(self) -> datetime:
        """UTC, never earlier than a value given before."""
        ...

    def boot(self) -> timedelta:
        """Time since some fixed start, suspension included; not settable."""
        ...


def _wall() -> datetime:
    return datetime.now(UTC)


def _boot() -> timedelta:
    # Slewed by time servers and never stepped; it goes on while the machine sleeps.
    return timedelta(seconds=time.clock_gettime(time.CLOCK_BOOTTIME))


class SystemClock:
    """The machine's clocks: the wall's word at the start, and the boot clock's span since."""

    def __init__(self, *, wall: Callable[[], datetime] = _wall, boot: Callable[[], timedelta] = _boot) -> None:
        self._wall = wall
        self.boot = boot
        self._ahead = wall() - _EPOCH - boot()

    def now(self) -> datetime:
        return _EPOCH + self._ahead + self.boot()

    def heard(self, said: datetime) -> None:
        """Take in what time the provider says it is. Two of three count: where the wall agrees with it and we are
        behind both, we go on from there (a virtual machine that its host put aside). Nothing ever sets us back."""
        wall, now = self._wall(), self.now()
        if abs(wall - said) <= AGREEMENT < said - now:
            self._ahead += wall - now


def to_ms(instant: datetime) -> int:
    """Milliseconds since 1970 UTC: how the store and the wire write an instant."""
    return round(instant.timestamp() * 1000)


def from_ms(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, tz=UTC)


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
