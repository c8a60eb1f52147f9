"""Does a machine's log say that its cards wait for each other for ever, and when is it to be read?

Two stalls are known of machines with several cards (MC-3, RP-51): for so long nothing but the line that no block of
shared memory comes, or nothing at all after NCCL began while the server is still starting. Any other line begins the
time anew. Time is ours, from the first look that showed the last such line: a look that failed, or that the provider
cut off before the newest lines, shows nothing and counts for nothing.
"""

import re
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from controller.core.diagnosis import Cause, cause_in
from controller.core.evidence import StopReason
from controller.core.lifecycle import Phase
from controller.core.topology import Topology
from controller.core.topology import follow as follow_topology

EVERY: Final = timedelta(seconds=60)
"""While it starts or is in doubt."""
EVERY_STEADY: Final = timedelta(minutes=5)
"""While it serves, also if its log cannot be read: that of a machine which starts is often not there yet."""
_NO_BLOCK: Final = re.compile(r"No available shared memory broadcast block")
_NCCL: Final = re.compile(r"\bNCCL\b|\bnccl")


class Ending(StrEnum):
    """What a log's last line is about."""

    NO_BLOCK = "no-block"
    NCCL = "nccl"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    said: str
    """When the provider says it was written; only ever compared."""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """The newest lines of one look."""

    lines: tuple[LogLine, ...]
    read_at: datetime
    whole: bool
    """We left it when no more lines came; else the provider ended it, and newer lines may be there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quiet:
    """Since when the log says nothing else."""

    line: LogLine | None
    """The last that is not the one about a block."""
    since: datetime
    ending: Ending


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """What the looks at one machine's log came to."""

    at: datetime
    container_at: datetime | None
    """Start of its container as it was known then: after another one its log is of interest at once."""
    quiet: Quiet | None = None
    cause: Cause | None = None
    topology: Topology | None = None
    problem: str | None = None
    """Why the latest look showed nothing."""


def follow(former: Logged | None, log: Log, *, container_at: datetime | None) -> Logged:
    """Carry on by one look."""
    cause = cause_in(line.text for line in log.lines) or (None if former is None else former.cause)
    before = None if former is None else former.quiet
    quiet = _quiet(before, log) if log.whole else before
    return Logged(
        at=log.read_at,
        container_at=container_at,
        quiet=quiet,
        cause=cause,
        topology=follow_topology(None if former is None else former.topology, (line.text for line in log.lines)),
        problem=_hidden(before, log),
    )


def _hidden(before: Quiet | None, log: Log) -> str | None:
    """Why this look did not show the log's end, if it did not."""
    if not log.whole:
        return "the provider ended the log before its newest lines"
    # Lines that were shown do not go away: a page of a proxy's, or a log that lost them, says nothing of what came.
    return "the provider shows none of the lines that it showed before" if before and not log.lines else None


def failed(former: Logged | None, *, problem: str, at: datetime, container_at: datetime | None) -> Logged:
    """A look that showed nothing: what is known stays, and no time counts by it."""
    if former is None:
        return Logged(at=at, container_at=container_at, problem=problem)
    return replace(former, at=at, container_at=container_at, problem=problem)


def _quiet(before: Quiet | None, log: Log) -> Quiet | None:
    if not log.lines:
        return before
    others = [line for line in log.lines if not _NO_BLOCK.search(line.text)]
    last, ending = (others[-1] if others else None), _ending(log.lines[-1].text)
    if before is not None and last in {None, before.line}:
        return Quiet(line=before.line, since=before.since, ending=ending)
    return Quiet(line=last, since=log.read_at, ending=ending)


def progress_at(logged: Logged | None) -> datetime | None:
    """When a look last showed a line that was new and about something else than waiting."""
    return None if logged is None or logged.quiet is None else logged.quiet.since


def _ending(text: str) -> Ending:
    if _NO_BLOCK.search(text):
        return Ending.NO_BLOCK
    return Ending.NCCL if _NCCL.search(text) else Ending.OTHER


def stalled(logged: Logged, *, phase: Phase, stall_after: timedelta) -> StopReason | None:
    """By the latest look, and only if it showed the log; the end of the time is inside."""
    quiet = logged.quiet
    if quiet is None or logged.problem is not None or logged.at < quiet.since + stall_after:
        return None
    if quiet.ending is Ending.NO_BLOCK:
        return StopReason.MULTI_CARD_STALL
    # Once it serves, silence is what a server without requests writes.
    if quiet.ending is Ending.NCCL and phase is Phase.REQUESTED:
        return StopReason.NCCL_STALL
    return None


def due(
    former: Logged | None, *, phase: Phase, cards: int, unready: bool, container_at: datetime | None, seen_at: datetime
) -> datetime | None:
    """When is the log to be looked at next? `None`: not at all. `seen_at` is when it was first known to run."""
    starting = phase is Phase.REQUESTED or unready
    if not starting and cards == 1:
        return None
    if former is None:
        return seen_at + EVERY
    if former.container_at != container_at:
        return former.at
    stuck = former.quiet is not None and former.quiet.ending is Ending.NO_BLOCK and former.problem is None
    return former.at + (EVERY if starting or stuck else EVERY_STEADY)
