"""Who is up and not used?

Asks `core.idle` for each serving deployment. The stop is decided again inside the writer's transaction, where a
gateway's new stream lease cannot slip in between. After our own restart or pause nothing is idled out before gateways
had time to speak (RP-35). What the model server said of itself in the latest probe is asked before a stop (RP-36).
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta

from controller.core import idle
from controller.core.book import Book
from controller.core.deployment import Record
from controller.core.evidence import StopReason
from controller.core.lifecycle import Phase
from controller.core.policy import HostingPolicy, ModelPolicy
from controller.core.runtime import serves_somebody
from controller.core.schedule import Warm
from controller.core.view import View
from controller.news import Looks
from controller.store import deployments, owing
from controller.store.errors import Stale
from controller.store.store import Store
from controller.store.stream_leases import StreamLeases
from controller.store.transaction import Tx
from controller.supervision import Cell, for_each


class IdleReaper:
    """One pass over what serves."""

    name = "idle_reaper"
    period = timedelta(seconds=60)
    looks_at = Looks.of(book=("standing", "memories"), view_held=("runtimes",), view_open=("listing",))

    def __init__(
        self,
        *,
        store: Store,
        view: Cell[View],
        stream_leases: StreamLeases,
        policy: HostingPolicy,
        models: Mapping[str, ModelPolicy],
    ) -> None:
        self._store = store
        self._view = view
        self._stream_leases = stream_leases
        self._policy = policy
        self._models = models
        self._not_before = store.now + policy.stream_lease
        self._looked_after: datetime | None = None
        """The latest of our pauses after which a look was begun."""
        self.left_open = False

    async def run_pass(self) -> datetime | None:
        self.left_open = False
        if self._stream_leases.unsaved and self._store.unwritable_since is None:
            await self._store.write(self._save)
            self._stream_leases.unsaved.clear()
        return await for_each(self._store.book.live(), self._consider)

    def _save(self, tx: Tx) -> None:
        """What gateways said of last bytes while the store took no writes."""
        for deployment, at in self._stream_leases.unsaved.items():
            deployments.record_last_byte(tx, deployment, at=at)

    async def _consider(self, record: Record) -> datetime | None:
        decision = self.decide(record)
        if isinstance(decision, idle.KeepUntil | idle.KeepWitnessed):
            return decision.until
        if isinstance(decision, idle.KeepBusy):
            lapses_at = self._stream_leases.lapses_at(record.id, now=self._store.now)
            return None if lapses_at is None else lapses_at + timedelta(milliseconds=1)
        if isinstance(decision, idle.IdleOut):
            await self._stop(record)
        return None

    def decide(self, record: Record) -> idle.Decision | None:
        """What the rule says of one deployment now; `None` if it does not serve or is not configured."""
        model = self._models.get(record.model)
        if record.phase is not Phase.ACTIVE or record.ready_at is None or model is None:
            return None
        now = self._store.now
        stated = self._stream_leases.last_byte_at(record.id)
        last_byte_at = max((at for at in (record.last_byte_at, stated) if at is not None), default=None)
        cold_start = self._store.book.memory(record.model).cold_start
        activity = idle.Activity(
            stream_leases=self._stream_leases.live(record.id, now=now),
            ready_at=record.ready_at,
            last_byte_at=last_byte_at,
            not_before=max([self._not_before_at(now), *self._warm_until(model, cold_start)]),
        )
        probed = self._view.value.probes.get(record.id)
        witnessed = probed is not None and serves_somebody(probed.runtime, since=idle.used_until(activity))
        idle_after = idle.floor(model.idle_after, cold_start)
        return idle.decide(replace(activity, witnessed=witnessed), idle_after=idle_after, now=now)

    def _warm_until(self, model: ModelPolicy, cold_start: timedelta | None) -> Iterator[datetime]:
        """Kept warm by its schedule it is not idle before the window ends."""
        stance = model.stance_kept(cold_start, now=self._store.now)
        if isinstance(stance, Warm):
            yield stance.until

    def _not_before_at(self, now: datetime) -> datetime:
        """After a pause, as after our own restart, gateways have not spoken yet; and what was seen before it is old,
        so that a look begun since comes first, whatever came of it (B40)."""
        resumed_at = self._store.clock.resumed_at
        if resumed_at is None:
            return self._not_before
        if not self._looked_since(resumed_at):
            return now + self._policy.stream_lease
        return max(self._not_before, resumed_at + self._policy.stream_lease)

    def _looked_since(self, resumed_at: datetime) -> bool:
        if self._looked_after != resumed_at:
            listing, self.left_open = self._view.value.listing, True
            if listing is None or listing.began_at < resumed_at:
                return False
            self._looked_after = resumed_at
        return True

    async def _stop(self, record: Record) -> None:
        def due(book: Book, now: datetime) -> Iterator[owing.Due]:
            current = book.records.get(record.id)
            if current is not None and isinstance(self.decide(current), idle.IdleOut):
                # A request that a gateway sent on just now, and has not told yet, may end.
                drain_until = now + self._models[record.model].drain_limit
                yield owing.Due(record=current, reason=StopReason.IDLE, drain_until=drain_until)

        with suppress(Stale):
            await owing.oblige_by(self._store, due)
