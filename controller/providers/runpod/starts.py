"""When did this pod's container start?

Runpod says `startedAt`, and how long the container has been up; whether the first moves when a container restarts
inside its pod is not documented. So both are followed: a start that is said is taken as said, and an uptime that puts
the start well after everything known before is a restart too. Reading a clock here and an uptime there jitters by
seconds, and a jitter taken for a restart would end a healthy machine as a crash loop: hence the margin, and what is
reported never goes back.

An uptime of 0 says nothing: a container that is still being made has it, and one whose seconds nobody counts would seem
to restart at every look. Nor does a start that is still to come: each real one after it would be earlier.

The memory is this process's own. After a daemon's restart an estimate may differ from the former by the jitter.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

JITTER: Final = timedelta(seconds=15)
"""Above every delay seen between uptime's reading and ours (whole seconds, a two-second host lookup), below a crash
loop's period: a loop that is faster still moves past it within two restarts."""


TO_COME: Final = timedelta(hours=1)
"""Their clock and ours may differ by as much."""

DRIFT: Final = timedelta(seconds=2)
"""Two clocks walk apart by seconds in days: an estimate that moved so little is followed, so that it never adds up."""


@dataclass(frozen=True, slots=True)
class _Known:
    reported: datetime
    estimated: datetime | None


class Starts:
    """What was reported of each pod, by its id."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def report(self, pod_id: str, *, said: datetime | None, uptime: timedelta | None, now: datetime) -> datetime | None:
        """The container's start; moves forward only when the container really started again."""
        estimate = now - uptime if uptime else None
        said = None if said is None or said > now + TO_COME else said
        known = self._known.get(pod_id)
        if known is None:
            first = said or estimate
            if first is not None:
                self._known[pod_id] = _Known(first, estimate)
            return first
        self._known[pod_id] = moved = _moved(known, said=said, estimate=estimate)
        return moved.reported

    def keep_only(self, pod_ids: Iterable[str]) -> None:
        """Forget the pods that a complete listing no longer shows."""
        kept = frozenset(pod_ids)
        self._known = {pod_id: known for pod_id, known in self._known.items() if pod_id in kept}


def _moved(known: _Known, *, said: datetime | None, estimate: datetime | None) -> _Known:
    reported = known.reported if said is None else max(known.reported, said)
    if estimate is None:
        return _Known(reported, known.estimated)
    if known.estimated is None:
        # The first uptime after a start that was said: it may count from the end of an image's download.
        return _Known(reported, estimate)
    restarted = estimate > known.estimated + JITTER
    if restarted and estimate > reported + JITTER:
        reported = estimate
    drifted = abs(estimate - known.estimated) <= DRIFT
    return _Known(reported, estimate if restarted or drifted else known.estimated)
