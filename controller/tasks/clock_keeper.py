"""Does anybody learn that the time went wrong?

Asks for the time on a steady beat, so that a pause of this process is noticed, writes each jump of the wall clock into
the evidence once, and keeps the alarm `clock` standing while something is wrong with the time. What the time is, and
what may be done by it, is decided in `core.timekeeping`.
"""

from datetime import datetime, timedelta

from controller.news import Looks
from controller.store.store import Store
from controller.store.timekeeper import BEAT, BEAT_AT_REST
from controller.store.transaction import Tx

ALARM = "clock"


class ClockKeeper:
    """One look at the clocks."""

    name = "clock_keeper"
    period = timedelta(seconds=60)
    looks_at = Looks.of(book=("alarms",))

    def __init__(self, *, store: Store) -> None:
        self._store = store

    async def run_pass(self) -> datetime | None:
        gap = BEAT_AT_REST if self._store.book.at_rest else BEAT
        now = self._store.clock.beat(gap)
        subject, clock = self._store.book.scope.account, self._store.clock
        standing = (ALARM, subject) in self._store.book.alarms
        if clock.jumps or standing != (clock.trouble is not None):
            await self._tell(subject)
        return now + gap

    async def _tell(self, subject: str) -> None:
        clock = self._store.clock
        jumps, trouble = list(clock.jumps), clock.trouble

        def tell(tx: Tx) -> None:
            for jump in jumps:
                detail = {"by_seconds": round(jump.by.total_seconds(), 3), "from": jump.was, "to": jump.to}
                tx.line("clock.jumped", detail={**detail, "followed": jump.followed})
            if trouble is None:
                tx.clear_alarm(ALARM, subject=subject)
            else:
                tx.raise_alarm(ALARM, subject=subject, detail=trouble)

        await self._store.write(tell)
        del clock.jumps[: len(jumps)]
