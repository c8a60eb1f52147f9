"""What should be on record after any sequence of commands?

A second, small telling of the design's sections 3 and 5 and of requirements HC-7 to HC-44, written from those pages and
not from the code: plain words, no rows, no versions, no evidence lines. A command that is not allowed raises `Refused`
before it changes anything. What only the store can know (ids, epochs) is handed in.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from math import ceil
from typing import Final

# Requirements, App. A.
MAY_FOLLOW: Final = {
    "declared": {"requested", "uncertain", "cancelled"},
    "requested": {"requested", "active", "stop-required", "stopped", "disowned"},
    "active": {"active", "stop-required", "stopped", "disowned"},
    "uncertain": {"uncertain", "requested", "active", "stop-required", "stopped", "disowned"},
    "stop-required": {"stop-required", "stopped", "disowned"},
    "stopped": set(),
    "cancelled": set(),
    "disowned": set(),
}
ENDED: Final = {"stopped", "cancelled", "disowned"}
LEASE: Final = timedelta(seconds=300)
RATE_SEEN: Final = 790_000
LIFETIME: Final = timedelta(days=7)
OPEN_QUESTION: Final = "ambiguous-mutation"


STRAY_RATE = 790_000
"""What the samples' resources cost an hour."""


class Refused(Exception):
    """The contract does not allow it."""


def require(condition: object) -> None:
    if not condition:
        raise Refused


@dataclass
class Call:
    """One create call."""

    deployment: str
    marked_at: datetime | None = None
    answer: str | None = None

    @property
    def may_have_made_something(self) -> bool:
        return self.marked_at is not None and self.answer not in {"rejected", "not-sent"}


@dataclass
class Owed:
    """One obligation."""

    deployment: str | None
    request: str | None
    key: str | None = None
    due: bool = False
    reason: str | None = None
    ending: str | None = None
    in_flight: bool = False
    answer: str | None = None


@dataclass
class Place:
    """One deployment and its money."""

    model: str
    slot: int
    day: str
    held: int
    ceiling: int
    phase: str = "declared"
    reason: str | None = None
    key: str | None = None
    rate: int | None = None
    begun_at: datetime | None = None
    spent: int | None = None
    replaces: str | None = None
    restart_asked: bool = False
    proven: bool = False

    def move(self, to: str) -> None:
        require(to in MAY_FOLLOW[self.phase])
        self.phase = to


@dataclass
class Stray:
    """The money of what no deployment holds: on the books whatever the limit says."""

    day: str
    held: int
    rate: int
    begun_at: datetime
    spent: int | None = None


@dataclass
class Ideal:
    """Everything on record. `leases` tells by whom and until when each deployment, or stray obligation, is held."""

    most: int
    usd_per_day: int
    places: dict[str, Place] = field(default_factory=dict)
    calls: dict[str, Call] = field(default_factory=dict)
    owed: dict[str, Owed] = field(default_factory=dict)
    strays: dict[str, Stray] = field(default_factory=dict)
    leases: dict[str, tuple[str, datetime]] = field(default_factory=dict)

    # Looking

    def live(self) -> list[str]:
        return [name for name, place in self.places.items() if place.phase not in ENDED]

    def open(self, deployment: str | None = None) -> list[str]:
        there = [name for name, duty in self.owed.items() if duty.ending is None]
        return [name for name in there if deployment is None or self.owed[name].deployment == deployment]

    def keys_held(self) -> set[str | None]:
        keys = {self.places[name].key for name in self.live()} | {self.owed[name].key for name in self.open()}
        return keys - {None}

    def exposure(self, day: str) -> int:
        books: list[Place | Stray] = [*self.places.values(), *self.strays.values()]
        return sum(one.held if one.spent is None else one.spent for one in books if one.day == day)

    def holds(self, name: str, holder: str, now: datetime) -> bool:
        by, until = self.leases.get(name, ("", datetime.min.replace(tzinfo=UTC)))
        return by == holder and now <= until

    # Starting

    def declare(
        self, name: str, model: str, slot: int, *, ceiling: int, holder: str, now: datetime, clock_back: bool,
        ids: tuple[str, str] | None, replaces: str | None = None,
    ) -> None:  # fmt: skip
        require(not clock_back)
        there = [other for other in self.live() if (self.places[other].model, self.places[other].slot) == (model, slot)]
        require(there == [] if replaces is None else there == [replaces] and self.places[replaces].phase == "active")
        require(len(self.live()) < self.most)
        day, held = now.date().isoformat(), cost(ceiling, min(LIFETIME, midnight(now) - now))
        require(self.exposure(day) + held <= self.usd_per_day)
        self.places[name] = Place(model=model, slot=slot, day=day, held=held, ceiling=ceiling, replaces=replaces)
        self.leases[name] = (holder, now + LEASE)
        self._plan(name, ids)

    def plan(self, name: str, ids: tuple[str, str] | None) -> None:
        require(all(not duty.due for duty in self.owed.values() if duty.deployment == name))
        self._plan(name, ids)

    def _plan(self, name: str, ids: tuple[str, str] | None) -> None:
        if ids is not None:
            request, obligation = ids
            self.calls[request] = Call(deployment=name)
            self.owed[obligation] = Owed(deployment=name, request=request)

    def mark(self, request: str, holder: str, now: datetime, *, clock_back: bool) -> None:
        call = self.calls[request]
        require(self._duty_for(request) and self.places[call.deployment].phase == "declared" and not clock_back)
        require(self.holds(call.deployment, holder, now))
        require(not any(c.may_have_made_something for c in self.calls.values() if c.deployment == call.deployment))
        call.marked_at = now

    def _duty_for(self, request: str) -> Owed | None:
        return next((duty for duty in self.owed.values() if duty.request == request and duty.ending is None), None)

    def accepted(self, request: str, key: str, *, foreign: bool, right_request: bool) -> None:
        place, duty = self._answered(request, "accepted")
        if foreign or not right_request:
            self._lost(request, "ownership-lost")
        elif key in self.keys_held():
            self._lost(request, OPEN_QUESTION)
        else:
            place.move("requested")
            place.key = duty.key = key
            place.rate = RATE_SEEN
            self._due_already(request)

    def unknown(self, request: str) -> None:
        self._answered(request, "unknown")
        self._lost(request, OPEN_QUESTION)

    def refused(self, request: str, answer: str) -> None:
        _, duty = self._answered(request, answer)
        duty.ending = "void"

    def _answered(self, request: str, answer: str) -> tuple[Place, Owed]:
        call, duty = self.calls[request], self._duty_for(request)
        require(call.answer is None)
        assert duty is not None
        call.answer = answer
        place = self.places[call.deployment]
        place.begun_at = call.marked_at if answer in {"accepted", "unknown"} else place.begun_at
        return place, duty

    def _lost(self, request: str, reason: str) -> None:
        self.calls[request].answer = "unknown"
        place = self.places[self.calls[request].deployment]
        place.move("uncertain")
        place.reason = reason
        self._due_already(request)

    def _due_already(self, request: str) -> None:
        duty = self._duty_for(request)
        if duty is not None and duty.due:
            self.require_stop(self.calls[request].deployment, duty.reason or "operator-request")

    def cancel(self, name: str) -> None:
        require(not any(call.may_have_made_something for call in self.calls.values() if call.deployment == name))
        place = self.places[name]
        place.move("cancelled")
        place.spent = 0
        for duty in self.open(name):
            self.owed[duty].ending = "void"
        self.leases.pop(name, None)

    # Seeing

    def adopt(self, name: str, request: str, key: str, *, foreign: bool, wanted: bool) -> None:
        place, duty = self.places[name], self._duty_for(request)
        require(duty is not None and not foreign and place.key in {None, key})
        require(place.phase in {"uncertain", "stop-required", "requested"})
        require(key not in self.keys_held() or (duty is not None and duty.key == key))
        assert duty is not None
        place.key = duty.key = key
        place.rate = RATE_SEEN
        if place.phase != "stop-required":
            place.move("requested")
            place.reason = None
            if not wanted:
                self.require_stop(name, OPEN_QUESTION)

    def moved(self, name: str, key: str, *, ours: bool) -> None:
        place = self.places[name]
        require(ours and key not in self.keys_held() and place.phase in {"requested", "active"})
        for duty in self.open(name):
            self.owed[duty].key = key
        place.key = key

    def ready(self, name: str) -> None:
        require(self.places[name].phase == "requested")
        self.places[name].move("active")

    # Making way

    def pairs(self) -> list[tuple[str, str]]:
        """What is to make way, with what comes in its place."""
        live = self.live()
        return [(str(self.places[new].replaces), new) for new in live if self.places[new].replaces in live]

    def restart_wished(self, names: list[str]) -> None:
        """What comes in somebody's place is what was wished for, and is not asked to make way itself."""
        coming = {new for _, new in self.pairs()}
        for name in names:
            place = self.places[name]
            place.restart_asked = place.restart_asked or (place.phase == "active" and name not in coming)

    def answered_somebody(self, name: str) -> None:
        place = self.places[name]
        place.proven = place.proven or (place.phase == "active" and place.replaces is not None)

    def make_way(self, name: str, *, decided_on_what_is: bool) -> None:
        require(decided_on_what_is)
        self.require_stop(name, "replaced")

    # Stopping

    def require_stop(self, name: str, reason: str) -> None:
        place = self.places[name]
        place.move("stop-required")
        if reason == "ownership-lost" or place.reason in {None, OPEN_QUESTION}:
            place.reason = reason
        for duty in self.open(name):
            self.owed[duty].due = True
            self.owed[duty].reason = place.reason

    def operator_stop(self, name: str) -> None:
        if self.places[name].phase != "declared":
            self.require_stop(name, "operator-request")
            return
        if any(call.may_have_made_something for call in self.calls.values() if call.deployment == name):
            for duty in self.open(name):
                self.owed[duty].due = True
                self.owed[duty].reason = self.owed[duty].reason or "operator-request"
            return
        self.cancel(name)
        self.places[name].reason = "operator-request"

    def mark_stop(self, obligation: str, holder: str, now: datetime) -> None:
        duty = self.owed[obligation]
        require(duty.ending is None and self.holds(duty.deployment or obligation, holder, now))
        if duty.deployment is not None:
            place = self.places[duty.deployment]
            require(place.phase == "stop-required" and place.key is not None and place.reason != "ownership-lost")
        duty.in_flight, duty.answer = True, None

    def stop_answered(self, obligation: str, answer: str) -> None:
        duty = self.owed[obligation]
        require(duty.ending is None)
        duty.in_flight, duty.answer = False, answer

    def stray(self, key: str, *, foreign: bool, holder: str, now: datetime, obligation: str | None) -> None:
        require(key not in self.keys_held() and not foreign)
        if obligation is not None:
            self.owed[obligation] = Owed(deployment=None, request=None, key=key, due=True)
            self.leases[obligation] = (holder, now + LEASE)
            held = cost(STRAY_RATE, midnight(now) - now)
            self.strays[obligation] = Stray(day=now.date().isoformat(), held=held, rate=STRAY_RATE, begun_at=now)

    # Ending

    def proven(self, obligation: str, now: datetime) -> None:
        self._end(obligation, "stopped", "discharged", now)

    def confirmed(self, obligation: str, now: datetime) -> None:
        duty = self.owed[obligation]
        require(duty.ending is None)
        if duty.deployment is not None and self.places[duty.deployment].phase != "declared":
            self.require_stop(duty.deployment, "operator-request")
        self.proven(obligation, now)

    def handed_over(self, name: str, now: datetime) -> None:
        require("disowned" in MAY_FOLLOW[self.places[name].phase])
        (obligation,) = self.open(name)
        self._end(obligation, "disowned", "transferred", now)

    def _end(self, obligation: str, phase: str, ending: str, now: datetime) -> None:
        duty = self.owed[obligation]
        require(duty.ending is None)
        if duty.deployment is not None:
            place = self.places[duty.deployment]
            place.move(phase)
            place.spent = self._cost(place, now)
        else:
            stray = self.strays[obligation]
            stray.spent = cost(stray.rate, min(now, midnight(stray.begun_at)) - stray.begun_at)
        duty.ending = ending
        self.leases.pop(duty.deployment or obligation, None)

    def _cost(self, place: Place, now: datetime) -> int:
        begins = datetime.fromisoformat(place.day).replace(tzinfo=UTC)
        if place.key is None or place.begun_at is None:
            return 0
        until = min(now, begins + timedelta(days=1))
        return cost(place.ceiling if place.rate is None else place.rate, until - max(place.begun_at, begins))

    # Our own end

    def restarted(self, holder: str, now: datetime) -> None:
        for duty in self.owed.values():
            if duty.in_flight:
                duty.in_flight, duty.answer = False, "unknown"
        for name in self.live():
            if self.places[name].phase == "declared":
                sent = [r for r, call in self.calls.items() if call.deployment == name and call.may_have_made_something]
                if sent:
                    self.unknown(sent[0])
                else:
                    self.cancel(name)
        self.leases.clear()
        self.lapsed_taken(holder, now)

    def lapsed_taken(self, holder: str, now: datetime) -> None:
        strays = [name for name in self.open() if self.owed[name].deployment is None]
        for name in (*self.live(), *strays):
            if not self.holds(name, holder, now):
                self.leases[name] = (holder, now + LEASE)

    def renewed(self, holder: str, now: datetime) -> None:
        for name in self.leases:
            if self.holds(name, holder, now):
                self.leases[name] = (holder, now + LEASE)


def midnight(now: datetime) -> datetime:
    return datetime(now.year, now.month, now.day, tzinfo=UTC) + timedelta(days=1)


def cost(micros_per_hour: int, span: timedelta) -> int:
    return max(ceil(Fraction(micros_per_hour) * Fraction(span // timedelta(milliseconds=1), 3_600_000)), 0)
