"""Which clock does the daemon run on?

One for all its parts, so that an instant of a listing and one of a record can be compared. It asks
`core.timekeeping` what to believe, hears the provider's Date, and remembers what is to be told. It also notices that
this process did not run for a while (a suspended machine, a stopped process): after it gateways have not spoken yet,
and what was seen is old.
"""

from datetime import datetime, timedelta
from typing import Final

from controller.clock import MachineClock
from controller.core import timekeeping
from controller.core.timekeeping import Jump, Kept, Reading, Word

BEAT: Final = timedelta(seconds=10)
"""Somebody asks for the time at least so often while the daemon runs."""
LOOKED: Final = timedelta(seconds=1)
"""The witnesses are compared so often; in between, boot time alone counts. One pass asks many thousand times."""
BEAT_AT_REST: Final = timedelta(seconds=60)
"""With nothing on record that could bill, nothing is judged by spans of time."""
LATE: Final = timedelta(seconds=15)
"""A beat that is so late: we did not run. With `BEAT`, shorter than a stream lease, which may have lapsed meanwhile."""
PAUSED: Final = BEAT + LATE
DATE_ROUNDED: Final = timedelta(seconds=1)


class Timekeeper:
    """A `Clock` whose time runs on boot time and goes on where an earlier process left it."""

    def __init__(self, machine: MachineClock, kept: Kept | None) -> None:
        self._machine = machine
        self._boot_id = machine.boot_id()
        self._keeping = timekeeping.begin(self._reading(), boot_id=self._boot_id, kept=kept)
        self._gap: timedelta | None = None
        """How soon the next beat was promised; `None`: nobody beats yet."""
        self._asked_at = machine.boot()
        self._compared: Reading | None = None
        """Of the machine's clocks, the latest."""
        self._told: tuple[timedelta | None, datetime] = (None, self._keeping.now(self._asked_at))
        """The latest answer, and the moment for which it holds until the witnesses are compared again."""
        self.jumps: list[Jump] = []
        """Not yet told, oldest first."""
        self.resumed_at: datetime | None = None
        """When this process ran again after a pause, or learned of time that boot time did not count: spans since an
        earlier moment say nothing about what was seen or heard in them."""

    def now(self) -> datetime:
        boot = self._machine.boot()
        if boot is not self._told[0]:  # a clock that stands, as a simulated one does, is asked many times an instant
            self._told = (boot, self._keeping.now(boot) if boot - self._asked_at < LOOKED else self._look(None))
        return self._told[1]

    def boot(self) -> timedelta:
        return self._machine.boot()

    def hear(self, said: datetime | None, *, round_trip: timedelta) -> None:
        """The provider answered just now, with this Date or none that can be read."""
        self._look(Word(said=said, boot=self._machine.boot(), doubt=round_trip + DATE_ROUNDED))

    def beat(self, gap: timedelta = BEAT) -> datetime:
        """The time, asked by the one who will ask again within `gap`: a longer silence is a pause."""
        now = self.now()
        self._gap = gap
        return now

    @property
    def sound(self) -> bool:
        """May something be created by this time?"""
        self._look(None)
        return timekeeping.sound(self._keeping, self._reading())

    @property
    def trouble(self) -> str | None:
        """What is wrong with the time, for people."""
        self._look(None)
        return timekeeping.trouble(self._keeping, self._reading())

    @property
    def kept(self) -> Kept:
        """What a later process may rely on."""
        now, boot = self._look(None), self._machine.boot()
        return Kept(mark=now, boot_id=self._boot_id, boot=boot, settled=self._keeping.settled)

    @property
    def contradicted(self) -> datetime | None:
        """The time by wall and provider, where ours is ahead of it."""
        return timekeeping.contradicted(self._keeping, self._reading())

    def _reading(self) -> Reading:
        return Reading(wall=self._machine.wall(), boot=self._machine.boot())

    def _look(self, word: Word | None) -> datetime:
        reading = self._reading()
        if word is None and reading == self._compared:
            return self._keeping.now(reading.boot)  # in this very instant there is nothing new to be found
        by_boot = self._keeping.now(reading.boot)
        self._keeping, jump = timekeeping.advance(self._keeping, reading, word)
        now = self._keeping.now(reading.boot)
        if jump is not None:
            self.jumps.append(jump)
        paused = self._gap is not None and reading.boot - self._asked_at > self._gap + LATE
        if paused or now - by_boot > PAUSED:
            self.resumed_at = now
        self._asked_at, self._compared = reading.boot, reading
        self._told = (None, now)
        return now
