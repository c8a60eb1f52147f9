"""How long is something billed that should be gone, and was there a chance to stop it?

Looked at every few seconds of the simulation. For each machine of ours that is alive: since when a stop is due (by the
store's lines), and since when nobody uses it (by the truth). Time counts against the daemon only while it could have
acted: it runs, the provider takes calls; and its disk takes writes, where something has to be written first. What is
beyond the design's 60 s is a violation; what was billed for nothing meanwhile is counted as leaked.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from controller.emulators.runpod.queued_pods import QUEUED, QueuedPod
from tests.simulation.audit import Audit, Life, request_in
from tests.simulation.excuses import OUT_OF_REACH, UNWRITABLE
from tests.simulation.kernel import Program
from tests.simulation.machine import Machine
from tests.simulation.use import use_of

LOOK_EVERY_S: Final = 15.0
SUBMIT_WITHIN_S: Final = 60.0
DRAIN_S: Final = 600.0
A_MOMENT_S: Final = 0.01
"""Times of the book are rounded."""
PATIENCE_MOST_S: Final = 300.0
"""So long a stop may wait where the provider asked for it; what was held back has not reached it."""
UNUSED_MOST_S: Final = 2 * 900.0 + DRAIN_S + 900.0
"""Nothing may be alive and unused for longer: twice the startup deadline, a drain, and time to see and prove."""
IDLE_AFTER_S: Final = 300.0
SERVED_MORE_S: Final = 300.0
"""What has served is stopped when it is idle, written or not; a restart on the way takes a while."""
UNOWED_MOST_S: Final = 1800.0
"""Two listings of the slow rhythm, the grace of an orphan, a doubt about an old copy of the store."""
TOGETHER_MOST_S: Final = 3 * 900.0 + 900.0
"""A successor may start, be silent and be tried in vain for a startup deadline each; then one of the two goes."""
QUEUED_MOST_S: Final = 1800.0
"""As for what bills: two listings of the slow rhythm, each with the queue, and the grace of an orphan."""
STALLED_MOST_S: Final = 1500.0
"""Five minutes until the log is looked at, ten in which it stands still, and time to see and send."""
STALLED_STARTING_S: Final = 840.0
"""While it starts the log is looked at every minute, and the startup deadline has not come."""
BILL_YOUNG_S: Final = 8 * 3600.0
BILLED_MOST_S: Final = 3.5 * 3600.0
"""The next whole bucket begins within 70 minutes; a bill is asked for every hour while the end is young."""
BILLED_OLD_MOST_S: Final = 11 * 3600.0
REMOVED_MOST_S: Final = 120.0
"""The first pass of a daemon obliges it; twice the minute in which its stop is to be sent."""
DAY_S: Final = 86400.0
ASKS_TO_WAIT: Final = {"rate-limited", "quota-eaten", "create-refused", "delete-refused"}
LISTING_FAILS: Final = {("listing-failing", "main")}


@dataclass(slots=True)
class Watch:
    """What one pod has cost so far without a reason."""

    due: float = 0.0
    unused: float = 0.0
    uses: int = 0
    unowed: float = 0.0
    together: float = 0.0
    stalled: float = 0.0
    stalled_in: Program | None = None
    billed: float = 0.0
    removed: float = 0.0


@dataclass
class Overdue:
    """The clock of the audit."""

    audit: Audit
    watches: dict[str, Watch] = field(default_factory=dict)
    waited: dict[str, float] = field(default_factory=dict)
    """By what waits in the queue, for how long it could have been cancelled."""
    worst_due: float = 0.0
    leaked: float = 0.0
    _looked: float = 0.0

    def begin(self) -> None:
        self._looked = self.audit.town.kernel.time
        self.audit.town.kernel.after(LOOK_EVERY_S, self._look)

    def _look(self) -> None:
        kernel = self.audit.town.kernel
        span, self._looked = kernel.time - self._looked, kernel.time
        for life in self.audit.lives.values():
            if life.pod.alive:
                self._look_at(life, span)
            elif life.pod.bills_on:
                self._judge_billed(life, span)
        for queued in self.audit.town.provider.queued.values():
            if queued.state == QUEUED:
                self._judge_queued(queued, span)
        kernel.after(LOOK_EVERY_S, self._look)

    def _look_at(self, life: Life, span: float) -> None:
        machine = self._responsible(life)
        watch = self.watches.setdefault(life.pod.id, Watch())
        use = use_of(life.pod)
        if len(use) or use.count != watch.uses:
            watch.unused, watch.uses = 0.0, use.count
        now = self.audit.town.kernel.time
        since = life.pod.created_at - self.audit.town.provider.began_at if use.last is None else use.last
        if not len(use) and now - since > IDLE_AFTER_S + 900.0:
            self.leaked += span
        if machine is None or not self.can_act(machine):
            return
        if not len(use) and (self.can_write() or self._owed_by_key(machine, life)):
            watch.unused += span
        if not self.told_to_wait(machine):
            self._judge_unused(machine, life, watch)
        self._judge_due(machine, life, watch, span)
        if self.can_write():
            self._judge_unowed(machine, life, watch, span)
            self._judge_together(machine, life, watch, span)
        self._judge_stalled(machine, life, watch, span)
        self._judge_removed(machine, life, watch, span)

    def _judge_unused(self, machine: Machine, life: Life, watch: Watch) -> None:
        if watch.unused > (self._idle_most(machine, life) if watch.uses else UNUSED_MOST_S):
            self.audit.violated(10, f"{life.pod.id} is alive and unused for {watch.unused:.0f} s")

    def _idle_most(self, machine: Machine, life: Life) -> float:
        """Nothing is idled out sooner than it could be had again; and who reaches for it in vain uses it, as far as the
        gateway knows."""
        kept = [duty.model for duty in self.audit.told[machine.name].of_pod(life.pod.id, None)]
        staged, now = self.audit.town.staged, self.audit.town.kernel.time
        in_vain = staged.of(life.pod.id) - {"slowed"} or staged.touching({"proxy-out"}, now - UNUSED_MOST_S, now)
        if machine.daemon is None or not kept or in_vain:
            return UNUSED_MOST_S
        cold_start = machine.daemon.store.book.memory(str(kept[0])).cold_start or timedelta(0)
        return min(max(IDLE_AFTER_S, cold_start.total_seconds()) + SERVED_MORE_S, UNUSED_MOST_S)

    def _owed_by_key(self, machine: Machine, life: Life) -> bool:
        """Is there a duty that names this very pod? Where one took another's place under the same marks, or was made by
        a lost create, that has to be written before anybody may stop it (invariants 3 and 4)."""
        return any(duty.pod == life.pod.id for duty in self.audit.told[machine.name].owed.values())

    def _judge_unowed(self, machine: Machine, life: Life, watch: Watch, span: float) -> None:
        """What bills is owed, but for the time until an orphan is known for one (invariant 1)."""
        if self.audit.told[machine.name].of_pod(life.pod.id, life.request):
            watch.unowed = 0.0
            return
        watch.unowed += span
        if watch.unowed > UNOWED_MOST_S and not self.told_to_wait(machine):
            self.audit.numbers["unowed resources"] += 1
            self.audit.violated(1, f"{life.pod.id} bills for {watch.unowed:.0f} s and nobody owes its stop")

    def _judge_due(self, machine: Machine, life: Life, watch: Watch, span: float) -> None:
        now = self.audit.town.kernel.time
        called_at = self.audit.stop_called_at.get(life.pod.id, 0.0)
        owed = [deployment for due, deployment in self._owed(machine, life) if called_at < due]
        if not owed or self.audit.town.staged.touching({"rate-limited"}, now - PATIENCE_MOST_S, now):
            watch.due = 0.0
            return
        if now >= self._drained(machine, owed[0]):
            watch.due += span
            self.worst_due = max(self.worst_due, watch.due)
        if watch.due > SUBMIT_WITHIN_S + LOOK_EVERY_S:
            self.audit.violated(10, f"the stop of {life.pod.id} is due and not sent for {watch.due:.0f} s")

    def _owed(self, machine: Machine, life: Life) -> Iterator[tuple[float, str | None]]:
        """Since when a stop of it is due, and of which deployment: by the store's lines, and what cannot be written."""
        known, daemon = self.audit.told[machine.name], machine.daemon
        told = known.duties
        yield from (
            (A_MOMENT_S if duty.late else duty.due, duty.deployment)
            for duty in known.owed.values()
            if duty.pod == life.pod.id and duty.due is not None
        )
        for duty in () if daemon is None else daemon.store.book.obligations.values():
            here = duty.key is not None and duty.key.incarnation == life.pod.id
            if here and duty.due_at is not None and duty.id in told and told[duty.id].due is None:
                ago = (machine.clock.now() - duty.due_at).total_seconds()
                yield self.audit.town.kernel.time - ago - A_MOMENT_S, duty.deployment

    def _judge_together(self, machine: Machine, life: Life, watch: Watch, span: float) -> None:
        """What was made to replace another does not stay beside it (invariant 2)."""
        told = self.audit.told[machine.name]
        mine = [duty.deployment for duty in told.of_pod(life.pod.id, life.request) if duty.due is None]
        replaced = {told.replaces.get(name or "") for name in mine} - {None}
        beside = replaced and any(
            duty.open and duty.due is None and duty.deployment in replaced and self._alive(duty.pod)
            for duty in told.duties.values()
        )
        watch.together = watch.together + span if beside else 0.0
        if watch.together > TOGETHER_MOST_S:
            self.audit.violated(2, f"{life.pod.id} stays beside what it replaces for {watch.together:.0f} s")

    def _judge_stalled(self, machine: Machine, life: Life, watch: Watch, span: float) -> None:
        """Cards that wait for each other are noticed by the log, if nothing else befell them; a daemon that starts
        begins to count anew (invariant 10)."""
        duties = self.audit.told[machine.name].of_pod(life.pod.id, life.request)
        alone = self.audit.town.staged.of(life.pod.id) == {"cards-stall"}
        if not alone or watch.stalled_in is not machine.program or any(duty.due is not None for duty in duties):
            watch.stalled, watch.stalled_in = 0.0, machine.program
        elif self.audit.town.staged.now("cards-stall", life.pod.id):
            watch.stalled += span
        starting = life.pod.upstream.state == "booting"
        if watch.stalled > (STALLED_STARTING_S if starting else STALLED_MOST_S):
            self.audit.violated(10, f"the cards of {life.pod.id} stand still for {watch.stalled:.0f} s")

    def _judge_removed(self, machine: Machine, life: Life, watch: Watch, span: float) -> None:
        """What is of no model of a config that was taken is to be stopped (invariant 10)."""
        daemon = machine.daemon
        kept = [duty for duty in self.audit.told[machine.name].of_pod(life.pod.id, None) if duty.due is None]
        taken = daemon is not None and daemon.mode.name == "normal"
        removed = taken and any(daemon is not None and duty.model not in daemon.models for duty in kept)
        watch.removed = watch.removed + span if removed else 0.0
        if watch.removed > REMOVED_MOST_S:
            self.audit.violated(10, f"{life.pod.id} is of no model and kept for {watch.removed:.0f} s")

    def _judge_billed(self, life: Life, span: float) -> None:
        """What is billed after the proof of its end is owed again (invariant 11)."""
        machine, now = self._responsible(life), self.audit.town.kernel.time
        if machine is None or not life.pod.meter.rate.counts or not (self.can_act(machine) and self.can_write()):
            return
        duties = [duty for duty in self.audit.told[machine.name].duties.values() if duty.pod == life.pod.id]
        watch = self.watches.setdefault(life.pod.id, Watch())
        if not duties or any(duty.open for duty in duties) or self.audit.town.staged.now("bill-unread"):
            watch.billed = 0.0
            return
        watch.billed += span
        ended = max(duty.ended for duty in duties)
        if watch.billed > (BILLED_MOST_S if now - ended < BILL_YOUNG_S else BILLED_OLD_MOST_S):
            self.audit.violated(11, f"{life.pod.id} is billed for {watch.billed:.0f} s after the proof of its end")

    def _judge_queued(self, queued: QueuedPod, span: float) -> None:
        """What waits under a request of ours is cancelled before it bills (invariant 10)."""
        staged, request = self.audit.town.staged, request_in(queued)
        for name, machine in self.audit.town.machines.items():
            told = self.audit.told.get(name)
            if told is None or request not in told.submitted or queued.account != "main":
                continue
            if not (self.can_act(machine) and self.can_write()) or staged.now("queue-unread"):
                continue
            waited = self.waited[queued.id] = self.waited.get(queued.id, 0.0) + span
            if waited > QUEUED_MOST_S and not self.told_to_wait(machine):
                self.audit.violated(10, f"{queued.id} waits in the queue for {waited:.0f} s and is not cancelled")

    def _alive(self, pod: str | None) -> bool:
        life = self.audit.lives.get(pod or "")
        return life is not None and life.pod.alive

    def _drained(self, machine: Machine, deployment: str | None) -> float:
        """When the drain ends, by the machine's own clock brought to the simulation's."""
        daemon = machine.daemon
        record = None if daemon is None or deployment is None else daemon.store.book.records.get(deployment)  # type: ignore[call-overload]
        if record is None or record.drain_until is None:
            return 0.0
        left = record.drain_until - machine.clock.now()
        return float(self.audit.town.kernel.time + left.total_seconds())

    def _responsible(self, life: Life) -> Machine | None:
        """The machine whose store is of the installation that the pod carries."""
        for machine in self.audit.town.machines.values():
            told = self.audit.told.get(machine.name)
            if told is not None and (life.installation == told.installation or life.installation in told.claimed):
                return machine
        return None

    def told_to_wait(self, machine: Machine) -> bool:
        """Did the provider ask for patience that is not over? Then nobody may look, and an alarm says so."""
        daemon, now = machine.daemon, self.audit.town.kernel.time
        if daemon is None or not daemon.store.book.alarms.keys() & LISTING_FAILS:
            return False
        return bool(self.audit.town.staged.touching(ASKS_TO_WAIT, now - DAY_S, now))

    def can_write(self) -> bool:
        """What is not owed yet can be."""
        return not self.audit.town.staged.any_now(UNWRITABLE)

    def can_act(self, machine: Machine) -> bool:
        staged = self.audit.town.staged
        if staged.any_now(OUT_OF_REACH):
            return False
        daemon, program = machine.daemon, machine.program
        if daemon is None or program is None or program.stopped:
            return False
        return daemon.store.book.account.trusted
