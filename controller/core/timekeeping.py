"""What time is it for us, and may it be believed?

Three witnesses can be wrong each for itself: the wall clock (set by people and time servers), boot time (counts only
what the machine lived through) and the provider's Date. Our time runs on boot time from an anchor and is moved forward
only where wall and Date agree against it: then time really passed (a frozen machine), or the anchor was wrong. It never
goes back and never stands still, so that spans go on whatever is set.

After a reboot nobody knows how long the machine was off. Until wall and Date agree, time is the least that it can be:
what was witnessed, and the boot time since. A deadline that is past by then is past by any clock.

`sound` says that a second witness stands beside our time: only then may something be created.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

AGREED: Final = timedelta(seconds=60)
"""Witnesses no further apart agree; beyond it a clock jumped."""
FOLLOWED: Final = timedelta(seconds=1)
"""A Date is whole seconds: a smaller lead of the wall is no lead."""
WORD_KEPT: Final = timedelta(minutes=15)
"""An older word of the provider's says nothing: boot time may have missed a freeze since."""
TWICE_APART: Final = timedelta(seconds=10)
ALONE: Final = timedelta(minutes=10)
"""With a provider that never tells a usable date, a wall that kept step with boot time for so long is believed: else
nothing that fell due while the machine was off would ever be stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The machine's clocks at one moment."""

    wall: datetime
    boot: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """What the provider's Date said when its answer came; `said` is `None` where it was absent or unreadable."""

    said: datetime | None
    boot: timedelta
    doubt: timedelta
    """How far off it may be and still be right: the call's round trip and the second that it is rounded to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What an earlier process witnessed last."""

    mark: datetime
    boot_id: str | None = None
    boot: timedelta | None = None
    settled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Jump:
    """The wall clock and our time came apart by more than can be passed over."""

    by: timedelta
    was: datetime
    """Our time then."""
    to: datetime
    """What the wall clock says."""
    followed: bool
    """Did our time go with it?"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """Where our time is anchored, and what the witnesses said."""

    anchor: datetime
    anchor_boot: timedelta
    settled: bool
    """Is the anchor right, or only the least that the time can be?"""
    wall_lead: timedelta = timedelta()
    """By how much the wall led our time when that was told last."""
    word: Word | None = None
    """The provider's latest usable word."""
    pledge: Word | None = None
    """Its earliest word that the latest is in step with."""
    alone_since: timedelta | None = None
    """Since when (boot time) the wall keeps step and the provider answers without a date that can be right."""

    def now(self, boot: timedelta) -> datetime:
        return self.anchor + (boot - self.anchor_boot)


def begin(reading: Reading, *, boot_id: str | None, kept: Kept | None) -> Keeping:
    """Take time up where an earlier process left it."""
    if kept is None:
        return Keeping(anchor=reading.wall, anchor_boot=reading.boot, settled=True)
    least, settled = kept.mark, False
    if kept.boot is not None and boot_id is not None and kept.boot_id == boot_id:
        least += max(reading.boot - kept.boot, timedelta())
        settled = kept.settled
    lead = reading.wall - least
    if not settled and timedelta() <= lead <= AGREED:
        return Keeping(anchor=reading.wall, anchor_boot=reading.boot, settled=True)
    silent = timedelta() if settled else max(lead, timedelta())  # how long a machine was off is no jump
    return Keeping(anchor=least, anchor_boot=reading.boot, settled=settled, wall_lead=silent)


def advance(keeping: Keeping, reading: Reading, word: Word | None = None) -> tuple[Keeping, Jump | None]:
    """Look at the clocks again, and hear the provider if it spoke. A jump is told once."""
    heard = keeping if word is None else _heard(keeping, word)
    if not heard.settled:
        heard = _settled(heard, reading)
    now = heard.now(reading.boot)
    confirmed = _confirmed(heard, reading) if heard.settled else None
    if confirmed is not None and confirmed - now > FOLLOWED:
        jump = Jump(by=confirmed - now, was=now, to=confirmed, followed=True)
        return _anchored(heard, confirmed, reading), jump if jump.by > AGREED else None
    lead = reading.wall - now
    change = lead - heard.wall_lead
    if abs(change) <= AGREED:
        return heard, None
    alone_since = None if heard.alone_since is None else reading.boot
    jump = Jump(by=change, was=now, to=reading.wall, followed=False)
    return replace(heard, wall_lead=lead, alone_since=alone_since), jump


def sound(keeping: Keeping, reading: Reading) -> bool:
    """Does a second witness say what our time says?"""
    now = keeping.now(reading.boot)
    return keeping.settled and (abs(reading.wall - now) <= AGREED or _says(keeping, reading, now))


def contradicted(keeping: Keeping, reading: Reading) -> datetime | None:
    """What wall and provider say together, where our time is ahead of it: it does not go back in this process, but a
    later one need not inherit the lead once nothing is owed."""
    confirmed = _confirmed(keeping, reading) if keeping.settled else None
    if confirmed is None or keeping.now(reading.boot) - confirmed <= AGREED:
        return None
    return confirmed


def trouble(keeping: Keeping, reading: Reading) -> str | None:
    """What is wrong with the time, for people; `None` where nothing is, or where nobody could be asked yet."""
    lead = reading.wall - keeping.now(reading.boot)
    apart = f"the wall clock is {_spoken(abs(lead))} {'ahead of' if lead > timedelta() else 'behind'} our time"
    if not keeping.settled:
        heard = keeping.word is not None or keeping.alone_since is not None
        return f"{apart}, and the provider does not confirm it; nothing is created" if heard else None
    if abs(lead) <= AGREED:
        return None
    if contradicted(keeping, reading) is not None:
        return f"{apart}, and the provider agrees with it; nothing is created: restart once nothing is owed"
    if sound(keeping, reading):
        return f"{apart}; boot time and the provider say what we say: set the wall clock right"
    return f"{apart}, and nothing else says what we say; nothing is created until they agree"


def _heard(keeping: Keeping, word: Word) -> Keeping:
    if keeping.settled:
        return keeping if word.said is None else replace(keeping, word=word)
    if word.said is None or word.said < keeping.now(word.boot) - AGREED - word.doubt:
        # Nobody who is right is behind what was witnessed: as a second witness this is none.
        return replace(keeping, alone_since=word.boot if keeping.alone_since is None else keeping.alone_since)
    pledge = keeping.pledge if keeping.pledge is not None and _in_step(keeping.pledge, word) else word
    return replace(keeping, word=word, pledge=pledge, alone_since=None)


def _in_step(first: Word, then: Word) -> bool:
    if first.said is None or then.said is None:
        return False
    return abs((then.said - first.said) - (then.boot - first.boot)) <= AGREED + first.doubt + then.doubt


def _settled(keeping: Keeping, reading: Reading) -> Keeping:
    """Find two witnesses for what the time is after a reboot. Where the provider repeats itself and the wall says
    otherwise, the earlier of the two that can be right is taken: a stop that comes too early cannot be undone."""
    least = keeping.now(reading.boot)
    confirmed = _confirmed(keeping, reading)
    if confirmed is not None:
        return _anchored(keeping, max(confirmed, least), reading)
    said = _word_now(keeping, reading)
    if said is not None and keeping.word is not None and keeping.pledge is not None:
        if keeping.word.boot - keeping.pledge.boot < TWICE_APART:
            return keeping
        wall_possible = reading.wall >= least - AGREED
        return _anchored(keeping, max(min(said, reading.wall) if wall_possible else said, least), reading)
    if keeping.alone_since is not None and reading.boot - keeping.alone_since >= ALONE:
        return _anchored(keeping, max(reading.wall, least), reading)
    return keeping


def _anchored(keeping: Keeping, at: datetime, reading: Reading) -> Keeping:
    settled = replace(keeping, anchor=at, anchor_boot=reading.boot, settled=True, pledge=None, alone_since=None)
    return replace(settled, wall_lead=reading.wall - at if abs(reading.wall - at) <= AGREED else timedelta())


def _confirmed(keeping: Keeping, reading: Reading) -> datetime | None:
    """What wall and provider say together, if they do: no later than either of them can mean."""
    said, word = _word_now(keeping, reading), keeping.word
    if said is None or word is None or not _says(keeping, reading, reading.wall):
        return None
    return min(reading.wall, said + word.doubt)


def _says(keeping: Keeping, reading: Reading, instant: datetime) -> bool:
    """Does the provider say this?"""
    said, word = _word_now(keeping, reading), keeping.word
    return said is not None and word is not None and abs(said - instant) <= AGREED + word.doubt


def _word_now(keeping: Keeping, reading: Reading) -> datetime | None:
    """The provider's latest word, brought to this moment."""
    word = keeping.word
    if word is None or word.said is None or reading.boot - word.boot > WORD_KEPT:
        return None
    return word.said + (reading.boot - word.boot)


def _spoken(span: timedelta) -> str:
    return f"{span.total_seconds():.0f} s"
