"""Which machine restarts its container for ever while it bills?

Takes each new start that the provider tells of the container, or the model server of itself, into the store, and
obliges a stop at the limit. Restarts of machines that were there before count too, as far as they were made from the
same configuration: a loop that goes over several machines is one (B19). A deployment that has served for a whole window
without a restart clears its model's earlier failures (B21).
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta

from controller.core import crash_loop
from controller.core.book import Book
from controller.core.crash_loop import Starts
from controller.core.deployment import Record
from controller.core.evidence import StopReason
from controller.core.lifecycle import Phase
from controller.core.policy import ModelPolicy
from controller.core.view import View
from controller.news import Looks
from controller.store import holds, owing
from controller.store.errors import Stale
from controller.store.store import Store
from controller.store.transaction import Tx
from controller.supervision import Cell, for_each


class CrashLoopDetector:
    """One pass over what is requested or serves."""

    name = "crash_loop_detector"
    period = timedelta(seconds=60)
    looks_at = Looks.of(book=("standing", "memories", "starts"), view_held=("resources", "runtimes"))

    def __init__(self, *, store: Store, view: Cell[View], models: Mapping[str, ModelPolicy]) -> None:
        self._store = store
        self._view = view
        self._models = models

    async def run_pass(self) -> datetime | None:
        return await for_each(self._store.book.live(), self._consider)

    async def _consider(self, record: Record) -> datetime | None:
        model = self._models.get(record.model)
        if model is None or record.phase not in {Phase.REQUESTED, Phase.ACTIVE}:
            return None
        try:
            await self._notice(record, model)
            return await self._forgive(record, model)
        except Stale:
            return None

    async def _notice(self, record: Record, model: ModelPolicy) -> None:
        now = self._store.now
        notice = self._sighting(record, window=model.crash_window, now=now)

        def due(book: Book, _: datetime) -> Iterator[owing.Due]:
            known = _known(book, record)
            restarts = notice(known).restarts
            if restarts == known.restarts:
                return  # a first start is no death, whatever came before
            deaths = (*book.earlier_deaths(record), *restarts)
            if crash_loop.looping(deaths, limit=model.crash_restart_limit, window=model.crash_window, now=now):
                yield owing.Due(record=record, reason=StopReason.CRASH_LOOP)

        def keep(tx: Tx) -> None:
            """Into the book as it is by then: its log may have been read since."""
            tx.put_starts(record.id, notice(_known(tx.book, record)))

        known = _known(self._store.book, record)
        if notice(known) is not known:
            await owing.oblige_by(self._store, due, along=keep)

    def _sighting(self, record: Record, *, window: timedelta, now: datetime) -> Callable[[Starts], Starts]:
        """What was seen of its starts, to be taken into what is on record of them."""
        seen = self._view.value.resource(record.key) if record.key is not None else None
        probed = self._view.value.probes.get(record.id)
        told = None if probed is None or probed.runtime is None else probed.runtime.scrape.process_started_at
        said = crash_loop.believed(None if seen is None else seen.started_at, server_at=told)

        def notice(known: Starts) -> Starts:
            starts = crash_loop.notice(known, started_at=said, window=window, now=now)
            return crash_loop.notice_server(starts, started_at=told, window=window, now=now)

        return notice

    async def _forgive(self, record: Record, model: ModelPolicy) -> datetime | None:
        memory = self._store.book.memory(record.model)
        if record.phase is not Phase.ACTIVE or record.ready_at is None or not memory.failures:
            return None
        if record.unready_since is not None:
            return None  # it does not serve now
        if memory.failure is not None and record.ready_at <= memory.failure.at:
            return None  # it served before, in another slot or until it is replaced, and says nothing of the failure
        restarts = _known(self._store.book, record).restarts
        calm_since = max((record.ready_at, *restarts))
        if self._store.now < calm_since + model.crash_window:
            return calm_since + model.crash_window
        await self._store.write(lambda tx: holds.note_success(tx, record.model))
        return None


def _known(book: Book, record: Record) -> Starts:
    return book.starts.get(record.id, Starts())
