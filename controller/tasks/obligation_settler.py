"""Which stops are due now, and which duties are proven fulfilled?

Goes through every open obligation: ends it where `core.obligation` finds enough evidence in the view, asks the executor
for a stop where one is due, and raises the alarm where a stop stays unproven. It never gives one up.
"""

from datetime import datetime, timedelta

from controller.core import obligation
from controller.core.deployment import Record
from controller.core.errors import Refusal
from controller.core.evidence import StopReason
from controller.core.identity import ObligationId
from controller.core.inventory import Absence
from controller.core.lifecycle import Phase
from controller.core.obligation import Obligation, Sight
from controller.core.policy import HostingPolicy, StopEvidence
from controller.core.view import View
from controller.news import Looks
from controller.store import deployments
from controller.store.errors import Stale
from controller.store.store import Store
from controller.store.stream_leases import StreamLeases
from controller.supervision import Cell, for_each
from controller.tasks.executor import Executor


class ObligationSettler:
    """One pass over everything that is owed or may come to be."""

    name = "obligation_settler"
    period = timedelta(seconds=60)
    looks_at = Looks.of(
        book=("standing", "obligations"),
        view_held=("absences", "reads"),
        book_open=("alarms", "account"),
        view_open=("judged", "sighted"),
    )

    def __init__(
        self,
        *,
        store: Store,
        view: Cell[View],
        stream_leases: StreamLeases,
        executor: Executor,
        policy: HostingPolicy,
    ) -> None:
        self._store = store
        self._view = view
        self._stream_leases = stream_leases
        self._executor = executor
        self._policy = policy
        self._began_at = store.now
        self._first_stops: dict[ObligationId, datetime] = {}
        self.left_open = False
        self._gateways_told_at = store.now + policy.stream_lease
        """Until then gateways may not have told this process yet what they have open."""

    async def run_pass(self) -> datetime | None:
        self.left_open = False
        duties = [duty for duty in self._store.book.obligations.values() if duty.open]
        self._first_stops = {duty.id: at for duty in duties if (at := self._first_stop(duty)) is not None}
        return await for_each(duties, self._consider)

    async def _consider(self, duty: Obligation) -> datetime | None:
        if not self._in_question(duty):
            return None
        self.left_open = True
        try:
            return await self._pursue(duty)
        except (Stale, Refusal):
            return None

    def _first_stop(self, duty: Obligation) -> datetime | None:
        """When its stop was first sent, as far as this process knows."""
        return self._first_stops.get(duty.id, duty.stop_submitted_at)

    def _in_question(self, duty: Obligation) -> bool:
        """Is its stop wanted, or was what it is for looked for and not found, or found to be over?"""
        view = self._view.value
        if duty.due:
            return True
        if duty.key is not None:
            return duty.key in view.absences.keys or duty.key in view.reads
        return duty.request in view.absences.requests

    def sight(self, duty: Obligation) -> Sight:
        """What the view knows about one obligation's resource."""
        view = self._view.value
        if duty.key is not None:
            absence = view.absences.keys.get(duty.key)
            return Sight(
                read=view.reads.get(duty.key),
                absence=absence,
                seen_at=view.sighted.get(duty.key),
                account_trusted=self._vouched(absence),
            )
        absence = view.absences.requests.get(duty.request) if duty.request is not None else None
        return Sight(absence=absence, account_trusted=self._vouched(absence))

    def _vouched(self, absence: Absence | None) -> bool:
        """Is the account trusted after all that an absence rests on? A listing that nobody judged yet proves nothing,
        whichever task runs first."""
        last = None if absence is None else absence.last
        return self._store.book.account.trusted and self._view.value.vouched(last)

    async def _pursue(self, duty: Obligation) -> datetime | None:
        sight = self.sight(duty)
        record = self._store.book.records.get(duty.deployment) if duty.deployment is not None else None
        if record is None or record.phase is not Phase.DECLARED:
            verdict = obligation.settle(
                duty,
                sight,
                settle_after=self._policy.settle,
                accepted_suffices=self._policy.stop_evidence is StopEvidence.ACCEPTED,
            )
            if isinstance(verdict, obligation.Discharge) and not self._executor.stopping(duty):
                evidence = verdict.evidence
                await self._store.write(lambda tx: deployments.discharge(tx, duty.id, evidence))
                return None
        submit_at = self._submit(duty, sight, record)  # first: it needs no store that can be written
        alarm_at = await self._alarm(duty, record)
        return min((at for at in (alarm_at, submit_at) if at is not None), default=None)

    def _submit(self, duty: Obligation, sight: Sight, record: Record | None) -> datetime | None:
        if record is not None and record.reason is StopReason.OWNERSHIP_LOST:
            return None
        decision = obligation.submit(
            duty,
            sight,
            times=obligation.StopTimes(
                again_after=self._policy.stop_again_after,
                backoff_max=self._policy.stop_backoff_max,
                drain_until=None if duty.stop_attempts else self._drain_until(record),
                restarted_at=self._began_at,
            ),
            now=self._store.now,
        )
        if isinstance(decision, obligation.SubmitStop):
            self._executor.stop(duty)
            return None
        return decision.until

    def _drain_until(self, record: Record | None) -> datetime | None:
        """A drain is over at its limit, or as soon as no gateway holds anything there. One that had nothing open when
        it last spoke may have sent a request since: it is heard once more, and lets go then."""
        if record is None or record.drain_until is None:
            return None
        lapses_at = self._stream_leases.lapses_at(record.id, now=self._store.now)
        if lapses_at is not None:
            return min(record.drain_until, lapses_at + timedelta(milliseconds=1))
        resumed_at, told_at = self._store.clock.resumed_at, self._gateways_told_at
        if resumed_at is not None:
            told_at = max(told_at, resumed_at + self._policy.stream_lease)
        return min(record.drain_until, told_at)

    async def _alarm(self, duty: Obligation, record: Record | None) -> datetime | None:
        """An owed stop that stays unproven is told (IM-9); the time of its drain does not count."""
        if duty.due_at is None or ("stop-unproven", duty.id) in self._store.book.alarms:
            return None
        since = duty.due_at
        if record is not None and record.drain_until is not None:
            since = max(since, self._first_stop(duty) or record.drain_until)
        if self._store.now < since + self._policy.stop_alarm_after:
            return since + self._policy.stop_alarm_after
        detail = f"the stop of {duty.key} is wanted since {duty.due_at} and unproven"
        await self._store.write(lambda tx: tx.raise_alarm("stop-unproven", subject=duty.id, detail=detail))
        return None
