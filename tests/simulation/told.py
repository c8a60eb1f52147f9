"""What has one store promised so far, by its own evidence lines?

Read from the rows after each commit, line by line, and kept as plain values: which creates were submitted, which
obligations are open and for what, under which epochs. The audit compares it with the provider's truth; nothing of the
daemon's own code is asked.
"""

import json
import sqlite3
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

Line = dict[str, Any]
FIRST_HASH: Final = "0" * 64


@dataclass(slots=True)
class Duty:
    """One obligation as the lines tell it."""

    id: str
    request: str | None
    pod: str | None
    deployment: str | None
    model: str | None
    opened: float
    due: float | None = None
    late: bool = False
    """It fell due earlier, while that could not be written; calls of then count."""
    reason: str | None = None
    stops: int = 0
    sent: float = 0.0
    """When the last stop was submitted."""
    ending: str | None = None
    ended: float = 0.0

    @property
    def open(self) -> bool:
        return self.ending is None


@dataclass
class Told:
    """Everything that a store's lines say. `problems` holds what they may never say."""

    seq: int = 0
    run: str = ""
    installation: str = ""
    duties: dict[str, Duty] = field(default_factory=dict)
    owed: dict[str, Duty] = field(default_factory=dict)
    """Those of them that are open: few, and asked for at every look."""
    submitted: Counter[str] = field(default_factory=Counter)
    places: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Deployment → model and slot."""
    replaces: dict[str, str] = field(default_factory=dict)
    """Deployment → the one that it was made to replace."""
    fills: set[str] = field(default_factory=set)
    """Deployments that are there to fill a volume."""
    epochs: dict[int, str] = field(default_factory=dict)
    latest_epoch: dict[str, int] = field(default_factory=dict)
    events: Counter[str] = field(default_factory=Counter)
    claimed: set[str] = field(default_factory=set)
    used_elsewhere: dict[int, str] = field(default_factory=dict)
    """Epochs that an earlier life of this store granted, before an older copy was put in its place."""
    problems: list[tuple[int, str]] = field(default_factory=list)
    added_at: float = 0.0
    """When the latest line came."""
    repeated: int = 0
    """Epochs that were granted twice."""
    _hash: str | None = None

    def read(self, connection: sqlite3.Connection, now: float) -> list[Line]:
        """Take the lines that the last commit added; returns them."""
        query = "SELECT line FROM evidence WHERE seq > ? ORDER BY seq"
        added = [json.loads(text) for (text,) in connection.execute(query, (self.seq,))]
        if not self.installation:
            self.installation = connection.execute("SELECT installation FROM meta").fetchone()[0]
        for line in added:
            self._take(line, now)
            self.added_at = now
        return added

    def open_for(self, request: str) -> list[Duty]:
        return [duty for duty in self.owed.values() if duty.request == request]

    def of_pod(self, pod: str, request: str | None) -> list[Duty]:
        """Open obligations that cover a pod: by its key, or by its request where no key is known."""
        return [
            duty
            for duty in self.owed.values()
            if duty.pod == pod or (duty.pod is None and request is not None and duty.request == request)
        ]

    def _take(self, line: Line, now: float) -> None:
        self._follow(line)
        self.events[line["event"]] += 1
        self._epoch(line)
        act = _READ.get(line["event"])
        if act is not None:
            act(self, line, now)

    def _follow(self, line: Line) -> None:
        """Lines are numbered without a gap, and each names the one before (invariant 8)."""
        restored = line["event"] == "store.restored"
        if line["seq"] != self.seq + 1 and not restored:
            self.problems.append((8, f"line {line['seq']} follows {self.seq}"))
        if self._hash is not None and line["prev"] != self._hash and not restored:
            self.problems.append((8, f"line {line['seq']} does not follow the one before"))
        self.seq, self._hash = line["seq"], line["hash"]

    def _epoch(self, line: Line) -> None:
        """An epoch never repeats or falls (invariant 4)."""
        lease, epoch = line.get("deployment") or line.get("obligation"), line.get("epoch")
        if not lease or not epoch:
            return
        if epoch not in self.epochs and epoch in self.used_elsewhere:
            self.repeated += 1
            self.problems.append((4, f"epoch {epoch} was granted before the store was restored"))
        if self.epochs.setdefault(epoch, lease) != lease:
            self.repeated += 1
            self.problems.append((4, f"epoch {epoch} was {self.epochs[epoch]}'s and is {lease}'s"))
        if epoch < self.latest_epoch.get(lease, 0):
            self.problems.append((4, f"epoch of {lease} fell from {self.latest_epoch[lease]} to {epoch}"))
        self.latest_epoch[lease] = epoch


def _started(told: Told, line: Line, _: float) -> None:
    told.run = line["detail"]["run"]


def _declared(told: Told, line: Line, _: float) -> None:
    told.places[line["deployment"]] = (line["model"], int(line["detail"]["slot"]))
    if line["detail"].get("fills"):
        told.fills.add(line["deployment"])
    if line["detail"].get("replaces"):
        told.replaces[line["deployment"]] = line["detail"]["replaces"]


def _opened(told: Told, line: Line, now: float) -> None:
    resource = line.get("resource")
    told.duties[line["obligation"]] = told.owed[line["obligation"]] = Duty(
        id=line["obligation"],
        request=line.get("request"),
        pod=None if resource is None else resource["incarnation"],
        deployment=line.get("deployment"),
        model=line.get("model"),
        opened=now,
    )


def _submitted(told: Told, line: Line, _: float) -> None:
    told.submitted[line["request"]] += 1
    if told.submitted[line["request"]] > 1:
        told.problems.append((1, f"create {line['request']} is submitted twice"))
    if len(told.open_for(line["request"])) != 1:
        told.problems.append((1, f"create {line['request']} has {len(told.open_for(line['request']))} obligations"))


def _keyed(told: Told, line: Line, _: float) -> None:
    """A line about a deployment with a resource: its obligation is about that resource from now on."""
    if line.get("resource") is None:
        return
    for duty in told.owed.values():
        same = duty.deployment is not None and duty.deployment == line.get("deployment")
        if same and line.get("obligation") in {None, duty.id}:
            duty.pod = line["resource"]["incarnation"]


def _due(told: Told, line: Line, now: float) -> None:
    duty = told.duties[line["obligation"]]
    duty.due, duty.reason, duty.late = now, line.get("reason"), "late" in (line.get("detail") or {})
    _pod(duty, line)


def _stop_sent(told: Told, line: Line, now: float) -> None:
    duty = told.duties[line["obligation"]]
    duty.stops += 1
    duty.sent = now
    _pod(duty, line)
    if not duty.open:
        told.problems.append((1, f"a stop is submitted under {duty.id}, which has ended"))


def _ended(told: Told, line: Line, now: float) -> None:
    duty = told.duties[line["obligation"]]
    _pod(duty, line)
    if duty.ending is not None:
        told.problems.append((1, f"obligation {duty.id} ends twice"))
    duty.ended = now
    duty.ending = line["event"].removeprefix("obligation.")
    told.owed.pop(duty.id, None)
    if duty.ending == "discharged" and not (line.get("evidence") or {}).get("kind"):
        told.problems.append((1, f"obligation {duty.id} is discharged without evidence"))


def _pod(duty: Duty, line: Line) -> None:
    if line.get("resource") is not None:
        duty.pod = line["resource"]["incarnation"]


def _claimed(told: Told, line: Line, now: float) -> None:
    origin = (line.get("detail") or {}).get("from")
    if origin:
        told.claimed.add(origin)
    _keyed(told, line, now)


_READ: Final = {
    "daemon.started": _started,
    "deployment.declared": _declared,
    "deployment.phase": _keyed,
    "create.answered": _keyed,
    "resource.claimed": _claimed,
    "obligation.opened": _opened,
    "create.submitted": _submitted,
    "obligation.due": _due,
    "stop.submitted": _stop_sent,
    "obligation.discharged": _ended,
    "obligation.transferred": _ended,
    "obligation.void": _ended,
}
