"""How are the hours written in which a model is kept warm, or off?

A window is days and a time of the day, "Mon-Fri 08:00-18:00"; either may be left out: "Sat,Sun" is whole days,
"22:00-06:00" every day, and belongs to the day on which it begins. Nothing else is a window. The clock is that of the
model's zone, whose data are the machine's own: a machine without any knows only UTC.
"""

import difflib
import re
import zoneinfo
from datetime import UTC, tzinfo
from typing import Final

from pydantic import BeforeValidator

from controller.core.schedule import DAY_MINUTES, DAYS, Window
from controller.settings.values import refused

WINDOWS_MOST: Final = 32
_NAMES: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_DAY: Final = "|".join(_NAMES)
_SHAPE: Final = re.compile(
    rf"(?P<days>(?:{_DAY})(?:-(?:{_DAY}))?(?:,(?:{_DAY})(?:-(?:{_DAY}))?)*)?"
    r"(?P<gap> )?"
    r"(?:(?P<begin>[0-2]\d:[0-5]\d)-(?P<end>[0-2]\d:[0-5]\d))?",
    re.ASCII,
)
_MEND: Final = 'write days and hours, as in "Mon-Fri 08:00-18:00", "Sat,Sun" or "22:00-06:00"'
_ZONE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_+\-]{0,31}(?:/[A-Za-z0-9_+\-]{1,31}){0,2}", re.ASCII)


def _windows(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(entry, str) for entry in value):
        raise refused("not a list of texts", _MEND)
    if len(value) > WINDOWS_MOST:
        raise refused(f"a list of {len(value)}", f"list at most {WINDOWS_MOST} windows")
    for position, entry in enumerate(value, start=1):
        if (problem := _problem(entry)) is not None:
            why, mend = problem
            raise refused(f"entry {position} {why}", mend)
    return tuple(value)


WINDOWS: Final = BeforeValidator(_windows)
"""A list of windows."""


def window(text: str) -> Window:
    """The window that a text which was taken writes."""
    found = _SHAPE.fullmatch(text)
    if found is None:
        raise ValueError(text)
    begin, end = _minutes(found["begin"] or "00:00"), _minutes(found["end"] or "24:00")
    return Window(
        days=_days(found["days"] or "Mon-Sun"),
        begin_minute=begin,
        end_minute=end if end > begin else end + DAY_MINUTES,
    )


def _problem(text: str) -> tuple[str, str] | None:
    """What is wrong with it, and the mend."""
    found = _SHAPE.fullmatch(text)
    if found is None or not (found["days"] or found["begin"]):
        return "is not a window", _MEND
    if (found["gap"] is not None) is not bool(found["days"] and found["begin"]):
        return "is not a window", _MEND
    if found["begin"] is None:
        return None
    begin, end = _minutes(found["begin"]), _minutes(found["end"])
    if begin >= DAY_MINUTES or end > DAY_MINUTES:
        return "names an hour that no clock shows", "begin from 00:00 to 23:59, end from 00:00 to 24:00"
    if begin == end:
        return "begins when it ends", "leave the hours out for whole days, or name two times"
    return None


def _minutes(text: str) -> int:
    return int(text[:2]) * 60 + int(text[3:])


def _days(text: str) -> frozenset[int]:
    """A range may run over the end of the week."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        begin, end = _NAMES.index(first), _NAMES.index(last or first)
        found |= {(begin + number) % DAYS for number in range((end - begin) % DAYS + 1)}
    return frozenset(found)


def _zone(value: object) -> str:
    if not isinstance(value, str):
        raise refused("not a text", 'in quotes: write a time zone, as in "Europe/Berlin"')
    try:
        zone(value)
    except LookupError:
        raise _unknown(value) from None
    return value


ZONE: Final = BeforeValidator(_zone)
"""The name of a time zone that this machine knows."""


def zone(name: str) -> tzinfo:
    """The zone of this name. Raises LookupError where the machine knows none."""
    if name == "UTC":
        return UTC
    if not _ZONE.fullmatch(name):
        raise LookupError(name)
    try:
        return zoneinfo.ZoneInfo(name)
    except (OSError, ValueError) as error:  # a folder, a file that is no zone
        raise LookupError(name) from error


def _unknown(name: str) -> Exception:
    known = zoneinfo.available_timezones()
    if not known:
        return refused(
            "this machine has no data of time zones",
            'install tzdata (the system\'s package, or pip install tzdata), or write the windows in "UTC"',
        )
    near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.6)
    return refused("no time zone", f'did you mean "{near[0]}"?' if near else 'write one as in "Europe/Berlin"')
