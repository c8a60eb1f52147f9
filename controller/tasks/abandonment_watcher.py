"""Who starts for nobody?

Asks `core.abandonment` for each start of a model that has `abandon_after`, and has it stopped when it is due; decided
again inside the writer's transaction, where a caller who has just come cannot slip in between. Left alone is what
replaces or fills something, what its schedule keeps warm, and what comes beside a machine that serves already: nobody
waits for those.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timedelta

from controller.core import abandonment
from controller.core.book import Book
from controller.core.deployment import Record
from controller.core.evidence import StopReason
from controller.core.lifecycle import Phase
from controller.core.policy import ModelPolicy
from controller.core.schedule import Warm
from controller.news import Looks
from controller.store import owing
from controller.store.errors import Stale
from controller.store.store import Store
from controller.store.waits import Waits
from controller.supervision import for_each


class AbandonmentWatcher:
    """One pass over what starts."""

    name = "abandonment_watcher"
    period = timedelta(seconds=60)
    looks_at = Looks.of(book=("standing", "memories"))

    def __init__(self, *, store: Store, waits: Waits, models: Mapping[str, ModelPolicy]) -> None:
        self._store = store
        self._waits = waits
        self._models = models
        self._began_at = store.now

    async def run_pass(self) -> datetime | None:
        return await for_each(self._store.book.live(), self._consider)

    async def _consider(self, record: Record) -> datetime | None:
        decision = self.decide(record)
        if isinstance(decision, abandonment.KeepUntil):
            return decision.until
        if isinstance(decision, abandonment.KeepAwaited):
            lapses_at = self._waits.lapses_at(record.model)
            return None if lapses_at is None else lapses_at + timedelta(milliseconds=1)
        if isinstance(decision, abandonment.Abandon):
            await self._stop(record)
        return None

    def decide(self, record: Record) -> abandonment.Decision | None:
        """What the rule says of one start now; `None` where it has no say."""
        model = self._models.get(record.model)
        if model is None or model.abandon_after is None or not self._for_callers(record):
            return None
        now, memory = self._store.now, self._store.book.memory(record.model)
        if isinstance(model.stance_kept(memory.cold_start, now=now), Warm):
            return None
        expected = (memory.expected_until, self._waits.expected_until(record.model))
        resumed_at = self._store.clock.resumed_at
        waiting = abandonment.Waiting(
            started_at=record.started_at or record.declared_at,
            awaited=self._waits.awaited(record.model, now=now),
            awaited_at=self._waits.awaited_at(record.model),
            expected_until=max((at for at in expected if at is not None), default=None),
            not_before=self._began_at if resumed_at is None else max(self._began_at, resumed_at),
        )
        return abandonment.decide(waiting, abandon_after=model.abandon_after, now=now)

    def _for_callers(self, record: Record) -> bool:
        """Does it start for those who wait, and for nothing else?"""
        if record.phase is not Phase.REQUESTED or record.fills is not None or record.replaces is not None:
            return False
        return not any(other.phase is Phase.ACTIVE for other in self._store.book.live(record.model))

    async def _stop(self, record: Record) -> None:
        def due(book: Book, now: datetime) -> Iterator[owing.Due]:
            current = book.records.get(record.id)
            if current is not None and isinstance(self.decide(current), abandonment.Abandon):
                yield owing.Due(record=current, reason=StopReason.ABANDONED)

        with suppress(Stale):
            await owing.oblige_by(self._store, due)
