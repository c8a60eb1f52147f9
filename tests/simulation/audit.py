"""Does everything that the daemon does and writes agree with what is true, at every step?

Asked at each provider call, each commit and each look at the clock. What it knows of the daemon are its calls and the
lines of its store (`told`); what it knows of the truth are the emulator's pods and who uses them (`use`). It shares no
rule with the code that it audits. The numbers of the invariants are those of the design's section 3.
"""

import json
import sqlite3
from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

from controller.emulators.exchange import Request
from controller.emulators.runpod.emulator import Call
from controller.emulators.runpod.pods import Pod
from controller.emulators.runpod.queued_pods import QUEUED, QueuedPod
from tests.simulation.excuses import GATEWAY_SILENT, JUSTIFY, LYING, UNTROUBLED, UNWRITABLE, WORDLESS
from tests.simulation.kernel import Program
from tests.simulation.machine import Machine
from tests.simulation.told import Duty, Line, Told
from tests.simulation.town import OWNER, SECRETS, Town
from tests.simulation.use import questions, use_of, watch
from tests.simulation.wires import CALLER

LIE_LASTS_S: Final = 900.0
"""So long after a lie of the provider an obligation may have been discharged by it."""
ON_ITS_WAY_S: Final = 31.0
IDLE_AFTER_S: Final = 300.0
ABANDON_AFTER_S: Final = 120.0
SLACK_S: Final = 60.0
AT_ONCE_S: Final = 5.0
CALL_LIMIT_S: Final = 30.0
SETTLE_S: Final = 120.0
"""What the provider does later than so long after a call ended is a lie of it, by the contract."""
SHORTENED_S: Final = 45.0
"""What `model-changed` makes of the idle time, with some room."""
AGES_S: Final = {"startup-deadline": 840.0, "lifetime-exceeded": 7 * 86400.0 - 60.0}
"""So old is a machine at least that is stopped for its age."""


QUEUED_MARK: Final = "queued:"
"""Before the id of what waits, in the lines of the store."""


class Violation(AssertionError):
    """An invariant does not hold."""

    def __init__(self, invariant: int, text: str) -> None:
        super().__init__(f"invariant {invariant}: {text}")
        self.invariant = invariant


@dataclass(slots=True)
class Life:
    """One pod that is or was ours, as the audit follows it."""

    pod: Pod
    request: str | None
    installation: str | None
    made_at: float


class Audit:
    """The whole audit of one run. `violations` are collected; the first ends the run."""

    def __init__(self, town: Town) -> None:
        self.town = town
        self.told: dict[str, Told] = {}
        self.runs: dict[str, str] = {}
        """Program → the name under which it holds leases."""
        self.lives: dict[str, Life] = {}
        self.numbers: Counter[str] = Counter()
        self.creates: Counter[str] = Counter()
        self.called_at: dict[str, float] = {}
        self.stop_called_at: dict[str, float] = {}
        """By pod, when the provider was last asked to end it."""
        self.void: set[str] = set()
        self.used_epochs: dict[int, str] = {}
        self.first: Violation | None = None
        provider = town.provider
        provider.on_call, provider.on_made, provider.on_ended = self._called, self._made, self._ended

    def watch(self, machine: Machine) -> None:
        machine.on_commit = self._committed
        machine.on_restored = self._restored

    def violated(self, invariant: int, text: str) -> None:
        self.town.kernel.tell("AUDIT", f"invariant {invariant}: {text}")
        if self.first is None:
            self.first = Violation(invariant, text)

    # The provider

    def _called(self, call: Call, request: Request) -> None:
        who = request.header(CALLER.decode())
        if call.method == "GET" or who is None:
            return
        self.town.kernel.tell(who, f"{call.method} {call.path}")
        machine = self.town.machines[who.partition(".")[0]]
        if call.method == "POST" and call.path == "/v2/pods":
            self._create_called(machine, who, request)
        elif call.method == "DELETE":
            self._stop_called(machine, who, call.path.rpartition("/")[2])

    def _create_called(self, machine: Machine, who: str, request: Request) -> None:
        env = json.loads(request.body)["env"]
        if any(secret.encode() in request.body for secret in SECRETS):
            self.violated(7, f"a secret is in the create of {env['GPUWARDEN_REQUEST']}")
        asked, told = env["GPUWARDEN_REQUEST"], self.told[machine.name]
        self.numbers["creates"] += 1
        self._wanted(machine, who, asked)
        self.creates[asked] += 1
        self.called_at[asked] = self.town.kernel.time
        if self.creates[asked] > 1:
            self.violated(1, f"create {asked} is sent twice")
        duties = told.open_for(asked)
        if told.submitted[asked] != 1 or len(duties) != 1:
            self.violated(1, f"create {asked} is sent without its committed mark and obligation")
            return
        deployment = duties[0].deployment or ""
        self._fenced(machine, who, deployment, int(env["GPUWARDEN_EPOCH"]), f"create {asked}")
        self._alone(told, deployment, asked)

    def _wanted(self, machine: Machine, who: str, asked: str) -> None:
        """Nothing is made on a config that another one was to replace."""
        daemon, program = machine.daemon, machine.program
        if daemon is not None and program is not None and program.name == who and daemon.mode.refused is not None:
            self.violated(0, f"create {asked} on a former config")

    def _alone(self, told: Told, deployment: str, asked: str) -> None:
        """At most one wanted resource a slot, one more while it is replaced, and that of one slot a model at a time
        (invariant 2)."""
        place, old, beside = told.places.get(deployment), told.replaces.get(deployment), 0
        for life in self.lives.values():
            if not life.pod.alive or life.request is None or life.request == asked:
                continue
            others = [duty for duty in told.duties.values() if duty.request == life.request and duty.open]
            beside += any(
                place is not None and duty.model == place[0] and duty.deployment not in told.fills for duty in others
            )
            if any(
                told.places.get(duty.deployment or "") == place and (duty.deployment != old or duty.due is not None)
                for duty in others
            ):
                self.violated(2, f"create {asked} for {place} while {life.pod.id} is alive and owed")
        if old is not None and place is not None and beside > self.town.slots.get(place[0], 1):
            self.violated(2, f"create {asked} replaces {old} while {beside} of {place[0]} are alive and owed")

    def _stop_called(self, machine: Machine, who: str, pod_id: str) -> None:
        self.numbers["stop calls"] += 1
        self.stop_called_at[pod_id] = self.town.kernel.time
        life, told = self.lives.get(pod_id), self.told[machine.name]
        pod = self.town.provider.pods.get(pod_id)
        if pod is None:
            self._cancel_called(who, told, pod_id)
            return
        tags = pod.env
        if tags.get("GPUWARDEN_OWNER") != OWNER:
            self.violated(3, f"{who} stops {pod_id}, whose owner is {tags.get('GPUWARDEN_OWNER')}")
            return
        installation = tags.get("GPUWARDEN_INSTALLATION")
        if installation not in {told.installation, *told.claimed}:
            self.violated(3, f"{who} stops {pod_id} of installation {installation}")
        # A stop that was on its way while the proof came is one that was owed when it left.
        left = self.town.kernel.time - ON_ITS_WAY_S
        duties = [duty for duty in told.duties.values() if duty.pod == pod_id and (duty.open or duty.sent >= left)]
        if not duties:
            self.violated(3, f"{who} stops {pod_id}, for which nothing is owed")
            return
        duty = min(duties, key=lambda duty: not duty.open)  # a key may have two, as where an old copy is back
        if duty.due is None and not self._unwritable(machine):
            self.violated(3, f"{who} stops {pod_id}, whose obligation is not due")
        if life is not None and life.pod.alive:
            self.numbers["stops of live pods"] += 1
        if not self._unwritable(machine):
            self._fenced(machine, who, duty.deployment or duty.id, None, f"stop of {pod_id}")

    def _cancel_called(self, who: str, told: Told, queued_id: str) -> None:
        """What waits for a machine carries no tags: only the request in its name makes it ours."""
        queued = self.town.provider.queued.get(queued_id)
        if queued is None:
            return
        self.numbers["queued cancelled"] += queued.state == QUEUED
        if request_in(queued) not in told.submitted:
            self.violated(3, f"{who} cancels {queued.name or 'what has no name'}, which we never ordered")
        left = self.town.kernel.time - ON_ITS_WAY_S
        owed = [duty for duty in told.duties.values() if duty.pod == f"{QUEUED_MARK}{queued_id}"]
        if not any(duty.open or duty.sent >= left for duty in owed):
            self.violated(3, f"{who} cancels {queued_id}, for which nothing is owed")

    def _unwritable(self, machine: Machine) -> bool:
        since = self.town.kernel.time - SLACK_S
        return bool(self.town.staged.touching(UNWRITABLE, since, self.town.kernel.time))

    def _fenced(self, machine: Machine, who: str, lease: str, epoch: int | None, what: str) -> None:
        """No call under a lost or older lease (invariant 4)."""
        with sqlite3.connect(f"file:{machine.store}?mode=ro", uri=True) as connection:
            row = connection.execute("SELECT holder, epoch FROM leases WHERE deployment = ?", (lease,)).fetchone()
        connection.close()
        if row is None:
            self.violated(4, f"{what} without a lease")
        elif row[0] != self.runs.get(who):
            self.violated(4, f"{what} by {self.runs.get(who)}, while {row[0]} holds the lease")
        elif epoch is not None and row[1] != epoch:
            self.violated(4, f"{what} under epoch {epoch}, while {row[1]} is in force")

    def _made(self, pod: Pod) -> None:
        watch(pod, self.town.kernel)
        request = pod.env.get("GPUWARDEN_REQUEST")
        if pod.env.get("GPUWARDEN_OWNER") == OWNER:
            self.lives[pod.id] = Life(pod, request, pod.env.get("GPUWARDEN_INSTALLATION"), self.town.kernel.time)
            self.town.kernel.tell("provider", f"made {pod.id} for {request}")
        if request in self.void and self.creates[request] and not self.town.staged.of(pod.id):
            self.violated(1, f"the obligation of {request} is void, and {pod.id} exists")

    def _ended(self, pod: Pod) -> None:
        if pod.id in self.lives:
            self.town.kernel.tell("provider", f"{pod.id} is gone")

    # The store

    def _restored(self, machine: Machine) -> None:
        """An older copy was put in its place: what it tells is read from its beginning, what was used stays used."""
        self.used_epochs |= self.told[machine.name].epochs
        told = self.told[machine.name] = Told()
        with sqlite3.connect(f"file:{machine.store}?mode=ro", uri=True) as connection:
            told.read(connection, self.town.kernel.time)
        connection.close()
        told.problems.clear()
        told.used_elsewhere = self.used_epochs

    def _committed(self, machine: Machine, program: Program, connection: sqlite3.Connection) -> None:
        told = self.told.setdefault(machine.name, Told())
        for line in told.read(connection, self.town.kernel.time):
            self._line(machine, program, told, line)
        for invariant, text in told.problems:
            self.violated(invariant, f"{machine.name}: {text}")
        told.problems.clear()

    def _line(self, machine: Machine, program: Program, told: Told, line: Line) -> None:
        event = line["event"]
        self.town.kernel.tell(program.name, _words(line))
        if event == "daemon.started":
            self.runs[program.name] = told.run
        elif event == "obligation.void":
            self._voided(told.duties[line["obligation"]])
        elif event == "obligation.discharged":
            self._discharged(told.duties[line["obligation"]], line["evidence"])
        elif event == "obligation.due":
            self._due(told, told.duties[line["obligation"]])
            if line["reason"] == "abandoned":
                self._abandoned(machine, told.duties[line["obligation"]])
        elif event == "stop.submitted":
            self._stopped(told.duties[line["obligation"]])

    def _voided(self, duty: Duty) -> None:
        request = duty.request or ""
        self.void.add(request)
        if self.creates[request] and [life for life in self._alive() if life.request == request]:
            self.violated(1, f"the obligation of {request} is void, and a pod of it is alive")

    def _discharged(self, duty: Duty, evidence: dict[str, Any]) -> None:
        """Nothing billed is discharged (invariant 11)."""
        self.numbers["discharged"] += 1
        if evidence["kind"] != "external-confirmation":
            self._discharged_waiting(duty, evidence["kind"])
        for life in self._alive():
            if life.pod.id != duty.pod and (duty.pod is not None or life.request != duty.request):
                continue
            now = self.town.kernel.time
            if evidence["kind"] == "external-confirmation":
                self.numbers["discharged by a wrong confirmation"] += 1
            elif self._later_than_settle(life) or self.town.staged.touching(LYING, now - LIE_LASTS_S, now):
                self.numbers["excusable discharges"] += 1
            else:
                self.violated(11, f"{duty.id} is discharged by {evidence['kind']}, and {life.pod.id} bills")

    def _discharged_waiting(self, duty: Duty, evidence: str) -> None:
        """Nor what waits to be made and billed, nor what is billed by the very bill that is the proof."""
        began = self.town.provider.began_at
        called = self.called_at.get(duty.request or "")
        for queued in self.town.provider.queued.values():
            late = called is not None and queued.put_at - began - called >= CALL_LIMIT_S + SETTLE_S
            same = request_in(queued) == duty.request and duty.pod is None and not late
            if queued.state == QUEUED and (same or duty.pod == f"{QUEUED_MARK}{queued.id}"):
                self.violated(11, f"{duty.id} is discharged by {evidence}, and {queued.id} waits in the queue")
        pod = self.town.provider.pods.get(duty.pod or "")
        if duty.reason == "billed-after-stop" and pod is not None and pod.meter.rate.counts:
            self.violated(11, f"{duty.id} is discharged by {evidence}, and {pod.id} bills on")

    def _later_than_settle(self, life: Life) -> bool:
        """Was it made, or first shown, so long after its create was given up that nobody waits for it any more?"""
        called = self.called_at.get(life.request or "")
        shown = life.pod.listed_from - self.town.provider.began_at
        return called is not None and max(life.made_at, shown) - called >= CALL_LIMIT_S + SETTLE_S

    def _due(self, told: Told, duty: Duty) -> None:
        """Nothing is stopped for a reason that is none."""
        reason = duty.reason or ""
        self.numbers[f"stops for {reason}"] += 1
        if reason == "idle":
            self._idled(duty)
        elif reason == "orphan" and self._awaited(told, duty):
            self.numbers["false stops"] += 1
            self.violated(0, f"{duty.pod} is stopped as an orphan, and its create is still to be resolved")
        elif reason in JUSTIFY and not self._justified(duty, JUSTIFY[reason]):
            self.numbers["false stops"] += 1
            self.violated(0, f"{duty.pod} is stopped for {reason}, and nothing of the kind befell it")
        elif reason in AGES_S and not self._old_enough(duty, AGES_S[reason]):
            self.numbers["false stops"] += 1
            self.violated(0, f"{duty.pod} is stopped for {reason} too early")

    def _stopped(self, duty: Duty) -> None:
        """What nobody uses is not drained: with nothing in the way its stop is sent in the moment it is due."""
        now = self.town.kernel.time
        if duty.stops != 1 or duty.reason != "idle" or duty.due is None or now - duty.due <= AT_ONCE_S:
            return
        if not self.town.staged.touching(UNTROUBLED, duty.due - LIE_LASTS_S, now):
            self.violated(10, f"the stop of {duty.pod} is sent {now - duty.due:.0f} s after it was due")

    def _awaited(self, told: Told, duty: Duty) -> bool:
        """Is it what a create came to, whose own obligation looks for it?"""
        life = self.lives.get(duty.pod or "")
        asked = [] if life is None or life.request is None else told.open_for(life.request)
        return any(other is not duty and other.pod in {None, duty.pod} for other in asked)

    def _justified(self, duty: Duty, kinds: frozenset[str]) -> bool:
        """A pod that was moved has behind it what befell the one that it was."""
        life, now = self.lives.get(duty.pod or ""), self.town.kernel.time
        since = duty.opened if life is None else life.pod.created_at - self.town.provider.began_at
        spans = self.town.staged.touching(kinds, since - LIE_LASTS_S, now)
        alike = {pod for pod, other in self.lives.items() if life is not None and other.request == life.request}
        return any(span.subject not in self.lives or span.subject in {duty.pod, *alike} for span in spans)

    def _old_enough(self, duty: Duty, age: float) -> bool:
        life, now = self.lives.get(duty.pod or ""), self.town.kernel.time
        made = duty.opened if life is None else min(duty.opened, life.made_at)  # a late one is none the younger for it
        return now - made >= age or bool(self.town.staged.touching({"clock-jump", "provider-clock-off"}, made, now))

    def _idled(self, duty: Duty) -> None:
        """Nothing in use is idled out (invariant 6)."""
        pod, now = self.town.provider.pods.get(duty.pod or ""), self.town.kernel.time
        self.numbers["idle stops"] += 1
        if pod is None or not pod.alive:
            return
        use = use_of(pod)
        if self.town.staged.touching(GATEWAY_SILENT, now - IDLE_AFTER_S - SLACK_S, now):
            return
        if (open_requests := len(use) - questions(self.town.machines.values(), duty.deployment)) > 0:
            self.numbers["false stops"] += 1
            self.violated(6, f"{pod.id} is idled out with {open_requests} open requests")
        elif use.last is not None and now - use.last < self._idle_after(duty, now) and not self._wordless(duty, now):
            self.numbers["false stops"] += 1
            self.violated(6, f"{pod.id} is idled out {now - use.last:.0f} s after its last byte")

    def _abandoned(self, machine: Machine, duty: Duty) -> None:
        """No start is given up that somebody waits for, or just left (core.abandonment)."""
        asking, now, model = self.town.asking, self.town.kernel.time, duty.model or ""
        if self.town.staged.touching(GATEWAY_SILENT, now - ABANDON_AFTER_S - SLACK_S, now):
            return
        left_at = asking.left_at(machine.name, model)
        if asking.waits(machine.name, model) or (left_at is not None and now - left_at < ABANDON_AFTER_S - SLACK_S):
            self.numbers["false stops"] += 1
            self.violated(6, f"the start of {duty.pod} is given up, and somebody waits for {model} or has just left")

    def _idle_after(self, duty: Duty, now: float) -> float:
        """So long at least nobody used it; somebody may have made the model less patient."""
        changed = self.town.staged.touching({"model-changed"}, now - IDLE_AFTER_S, now, subject=duty.model)
        return SHORTENED_S if changed else IDLE_AFTER_S - SLACK_S

    def _wordless(self, duty: Duty, now: float) -> bool:
        """Were there requests that got no byte? Idle time counts from the last byte, and they are no use."""
        spans = self.town.staged.touching(WORDLESS, now - IDLE_AFTER_S - SLACK_S, now)
        return any(span.subject in {None, duty.pod} for span in spans)

    def _alive(self) -> list[Life]:
        return [life for life in self.lives.values() if life.pod.alive]


def request_in(queued: QueuedPod) -> str:
    """The last word of its name: all by which it can be ours."""
    return (queued.name or "").rpartition("-")[2]


def _words(line: Line) -> str:
    """One line of evidence in the trace."""
    said = [line["event"]]
    for name in ("model", "deployment", "obligation", "request", "reason"):
        if line.get(name):
            said.append(str(line[name]))
    if line.get("phase"):
        said.append(f"{line['phase']['from']} → {line['phase']['to']}")
    if line.get("resource"):
        said.append(line["resource"]["incarnation"])
    if line.get("evidence"):
        said.append(line["evidence"]["kind"])
    detail = line.get("detail") or {}
    said += [str(detail[name]) for name in ("answer", "text", "alarm", "mode") if detail.get(name)]
    return " ".join(said)
