"""Who is up and not used?

Asks `core.idle` for each serving deployment. The stop is decided again inside the writer's transaction, where a
gateway's new stream lease cannot slip in between. After our own restart nothing is idled out before gateways had time
to speak (RP-35).
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from controller.clock import Clock
from controller.core import idle
from controller.core.deployment import Record
from controller.core.evidence import StopReason
from controller.core.lifecycle import Phase
from controller.core.policy import HostingPolicy, ModelPolicy
from controller.store import deployments
from controller.store.errors import Stale
from controller.store.store import Store
from controller.store.stream_leases import StreamLeases
from controller.store.transaction import Tx
from controller.supervision import Looks, for_each


class IdleReaper:
    """One pass over what serves."""

    name = "idle_reaper"
    period = timedelta(seconds=60)
    looks_at = Looks(book=("records", "memories"))

    def __init__(
        self,
        *,
        store: Store,
        stream_leases: StreamLeases,
        clock: Clock,
        policy: HostingPolicy,
        models: Mapping[str, ModelPolicy],
    ) -> None:
        self._store = store
        self._stream_leases = stream_leases
        self._policy = policy
        self._models = models
        self._not_before = clock.now() + policy.stream_lease
        self._expected_by: datetime | None = None

    async def run_pass(self) -> datetime | None:
        self._notice_absence()
        until = await for_each(self._store.book.live(), self._consider)
        latest = self._store.now + self.period
        self._expected_by = latest if until is None else min(until, latest)
        return until

    def _notice_absence(self) -> None:
        """A process that was stopped, or a machine that slept, comes back to stream leases that ran out meanwhile:
        gateways get the time to speak that they get after a restart (B40)."""
        now, expected_by = self._store.now, self._expected_by
        self._expected_by = None
        if expected_by is not None and now > expected_by + self._policy.stream_lease_renewal:
            self._not_before = now + self._policy.stream_lease

    async def _consider(self, record: Record) -> datetime | None:
        decision = self.decide(record)
        if isinstance(decision, idle.KeepUntil):
            return decision.until
        if isinstance(decision, idle.KeepBusy):
            lapses_at = self._stream_leases.lapses_at(record.id, now=self._store.now)
            return None if lapses_at is None else lapses_at + timedelta(milliseconds=1)
        if isinstance(decision, idle.IdleOut):
            await self._stop(record)
        return None

    def decide(self, record: Record) -> idle.KeepBusy | idle.KeepUntil | idle.IdleOut | None:
        """What the rule says of one deployment now; `None` if it does not serve or is not configured."""
        model = self._models.get(record.model)
        if record.phase is not Phase.ACTIVE or record.ready_at is None or model is None:
            return None
        now = self._store.now
        stated = self._stream_leases.last_byte_at(record.id)
        last_byte_at = max((at for at in (record.last_byte_at, stated) if at is not None), default=None)
        cold_start = self._store.book.memory(record.model).cold_start
        return idle.decide(
            idle.Activity(
                stream_leases=self._stream_leases.live(record.id, now=now),
                ready_at=record.ready_at,
                last_byte_at=last_byte_at,
                not_before=self._not_before,
            ),
            idle_after=idle.floor(model.idle_after, cold_start),
            now=now,
        )

    async def _stop(self, record: Record) -> None:
        def stop(tx: Tx) -> None:
            current = tx.current(record)
            if isinstance(self.decide(current), idle.IdleOut):
                # A request that a gateway sent on just now, and has not told yet, may end.
                drain_until = tx.now + self._models[record.model].drain_limit
                deployments.require_stop(tx, current, StopReason.IDLE, drain_until=drain_until)

        try:
            await self._store.write(stop)
        except Stale:
            return
