"""Does the store, whatever it is told and however it ends, hold what the contract says, and nothing else?

Random commands of two controllers, crashes, restarts and old copies, played on the real store and on `ideal` beside it.
"""

from dataclasses import replace
from decimal import Decimal

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

from controller.core.deployment import CreateAnswer, ProvisionedDeployment, SeenResource
from controller.core.evidence import Evidence, EvidenceKind, StopReason
from controller.core.identity import DeploymentId, ObligationId, RequestId
from controller.core.obligation import StopAnswer
from controller.store import deployments, duties, holds, owing, replacing
from controller.store.deployments import Declaration, Planned
from tests.core.samples import key, resource, spec, wish
from tests.store.ideal import Ideal
from tests.store.side_by_side import HOLDERS, POLICY, SideBySide, holders, numbers
from tests.support.examples import fewer

PROOFS = (EvidenceKind.INVENTORY_COMPLETE_ABSENT, EvidenceKind.PROVIDER_TERMINATED, EvidenceKind.STOP_ACCEPTED)

keys = st.sampled_from([f"p{number}" for number in range(4)])
mostly_not = st.sampled_from([False] * 7 + [True])


class Histories(SideBySide):
    """Every command that a task gives."""

    # Starting

    @rule(
        model=st.sampled_from(["a", "b"]), slot=st.integers(0, 1), usd=st.sampled_from(["1", "1", "3"]), holder=holders
    )
    def declare(self, model: str, slot: int, usd: str, holder: str) -> None:
        self.wish_for(model, slot, usd, holder)

    def wish_for(self, model: str, slot: int, usd: str, holder: str, *, replaces: str | None = None) -> None:
        self.declared += 1
        name = DeploymentId(f"{model}-{self.declared}")
        old = None if replaces is None else DeploymentId(replaces)
        asked = wish(spec=spec(id=name, model=model), slot=slot, replaces=old)
        declaration = Declaration(wish=asked, offer="L40S", ceiling=Decimal(usd), holder=holder)
        back, now = self.clock_back(), self.now

        def expect(ideal: Ideal, planned: Planned | None) -> None:
            ids = None if planned is None else (planned.create.request, planned.duty.id)
            ceiling = int(usd) * 1_000_000
            ideal.declare(
                name, model, slot, ceiling=ceiling, holder=holder, now=now, clock_back=back, ids=ids, replaces=replaces
            )

        self.both(lambda tx: deployments.declare(tx, declaration, policy=POLICY), expect)

    @rule(model=st.sampled_from("ab"), slot=st.integers(0, 1), n=numbers, incarnation=keys)
    def a_machine_is_made(self, model: str, slot: int, n: int, incarnation: str) -> None:
        """The ordinary way, whole: histories get further with it."""
        before = set(self.ideal.calls)
        self.declare(model, slot, "1", self.holder)
        for request in set(self.ideal.calls) - before:
            self.call_leaves(request, self.holder)
            if self.ideal.calls[request].marked_at is not None and n % 4:
                self.machine_is_told(request, incarnation, foreign=False, wrong=False)

    @rule(n=numbers)
    def try_the_next_offer(self, n: int) -> None:
        ideal = self.ideal
        free = [name for name in ideal.live() if ideal.places[name].phase == "declared" and not ideal.open(name)]
        if name := self.pick(free, n):

            def expect(ideal: Ideal, planned: Planned | None) -> None:
                ideal.plan(name, None if planned is None else (planned.create.request, planned.duty.id))

            self.both(lambda tx: deployments.plan(tx, tx.record(DeploymentId(name)), offer="A40"), expect)

    @rule(n=numbers, holder=holders)
    def submit(self, n: int, holder: str) -> None:
        waiting = [request for request, call in self.ideal.calls.items() if call.marked_at is None]
        if request := self.pick(waiting if n % 4 else self.ideal.calls, n):
            self.call_leaves(request, holder)

    def call_leaves(self, request: str, holder: str) -> None:
        back, now = self.clock_back(), self.now
        self.both(
            lambda tx: deployments.mark_submitting(tx, RequestId(request), holder=holder),
            lambda ideal, _: ideal.mark(request, holder, now, clock_back=back),
        )

    def unanswered(self) -> list[str]:
        return [request for request in self.sent() if self.ideal.calls[request].answer is None]

    def sent(self) -> list[str]:
        return sorted(request for request, call in self.ideal.calls.items() if call.marked_at is not None)

    @rule(n=numbers, incarnation=keys, foreign=mostly_not, wrong=mostly_not)
    def is_accepted(self, n: int, incarnation: str, foreign: bool, wrong: bool) -> None:
        if request := self.pick(self.unanswered() if n % 4 else self.sent(), n):
            self.machine_is_told(request, incarnation, foreign=foreign, wrong=wrong)

    def machine_is_told(self, request: str, incarnation: str, *, foreign: bool, wrong: bool) -> None:
        seen = resource(key=key(incarnation), tags=self.tags("r-other" if wrong else request, foreign=foreign))
        self.both(
            lambda tx: deployments.record_accepted(tx, tx.book.creates[RequestId(request)], seen),
            lambda ideal, _: ideal.accepted(request, incarnation, foreign=foreign, right_request=not wrong),
        )

    @rule(n=numbers)
    def is_lost(self, n: int) -> None:
        if request := self.pick(self.unanswered() if n % 4 else self.sent(), n):
            self.both(
                lambda tx: deployments.record_unknown(tx, tx.book.creates[RequestId(request)], detail="timed out"),
                lambda ideal, _: ideal.unknown(request),
            )

    @rule(n=numbers, answer=st.sampled_from([CreateAnswer.REJECTED, CreateAnswer.NOT_SENT]))
    def is_refused(self, n: int, answer: CreateAnswer) -> None:
        if request := self.pick(self.unanswered() if n % 4 else self.sent(), n):
            self.both(
                lambda tx: deployments.record_refused(tx, tx.book.creates[RequestId(request)], answer, detail="no"),
                lambda ideal, _: ideal.refused(request, answer.value),
            )

    @rule(n=numbers)
    def cancel(self, n: int) -> None:
        if name := self.pick(self.ideal.live(), n):
            self.both(
                lambda tx: deployments.cancel(tx, tx.record(DeploymentId(name))), lambda ideal, _: ideal.cancel(name)
            )

    # Seeing

    @rule(n=numbers, incarnation=keys, foreign=mostly_not, wanted=st.booleans())
    def is_adopted(self, n: int, incarnation: str, foreign: bool, wanted: bool) -> None:
        ideal = self.ideal
        asked = {d.request: d.deployment for d in ideal.owed.values() if d.request and ideal.calls[d.request].answer}
        if request := self.pick(asked, n):
            name = str(asked[request])
            seen = resource(key=key(incarnation), tags=self.tags(request, foreign=foreign))
            self.both(
                lambda tx: deployments.adopt(tx, tx.record(DeploymentId(name)), seen, wanted=wanted),
                lambda ideal, _: ideal.adopt(name, request, incarnation, foreign=foreign, wanted=wanted),
            )

    @rule(n=numbers, incarnation=keys, foreign=mostly_not)
    def is_moved(self, n: int, incarnation: str, foreign: bool) -> None:
        if name := self.pick(self.ideal.live(), n):
            seen = resource(key=key(incarnation), tags=self.tags("r1", foreign=foreign))
            self.both(
                lambda tx: deployments.follow_move(tx, tx.record(DeploymentId(name)), seen),
                lambda ideal, _: ideal.moved(name, incarnation, ours=not foreign),
            )

    @rule(n=numbers)
    def is_ready(self, n: int) -> None:
        if name := self.pick(self.ideal.live(), n):
            self.becomes_ready(name)

    def becomes_ready(self, name: str) -> None:
        self.both(
            lambda tx: deployments.record_ready(tx, tx.record(DeploymentId(name))),
            lambda ideal, _: ideal.ready(name),
        )

    @rule(n=numbers)
    def is_seen(self, n: int) -> None:
        """An observation changes liveness and nothing else."""
        if name := self.pick([name for name in self.ideal.live() if self.ideal.places[name].key], n):
            seen: SeenResource = resource(key=key(str(self.ideal.places[name].key)), endpoint="https://p/v1/")
            look = ProvisionedDeployment.observed(seen, ready=True, served_model=None, observed_at=self.now)
            self.both(
                lambda tx: deployments.record_observed(tx, tx.record(DeploymentId(name)), look), lambda ideal, _: None
            )

    # Making way

    @rule(n=numbers, usd=st.sampled_from(["1", "1", "3"]), holder=holders, elsewhere=mostly_not)
    def declare_a_successor(self, n: int, usd: str, holder: str, elsewhere: bool) -> None:
        if old := self.pick(self.active() if n % 4 else self.ideal.places, n):
            place = self.ideal.places[old]
            self.wish_for(place.model, 1 - place.slot if elsewhere else place.slot, usd, holder, replaces=old)

    def active(self) -> list[str]:
        return [name for name in self.ideal.live() if self.ideal.places[name].phase == "active"]

    @rule(model=st.sampled_from("ab"), slot=st.integers(0, 1), n=numbers, old=keys, new=keys)
    def one_serves_and_its_successor_comes(self, model: str, slot: int, n: int, old: str, new: str) -> None:
        """The ordinary way, as far as the books let it go, with what must not be done tried before each step."""
        self.a_machine_is_made(model, slot, 1, old)
        for name in [name for name in self.ideal.live() if self.ideal.places[name].phase == "requested"]:
            self.wish_for(self.ideal.places[name].model, self.ideal.places[name].slot, "1", self.holder, replaces=name)
            self.becomes_ready(name)
        before = set(self.ideal.calls)
        self.declare_a_successor(1 + 4 * n, "1", self.holder, elsewhere=False)
        for request in set(self.ideal.calls) - before:
            self.call_leaves(request, self.holder)
            if self.ideal.calls[request].marked_at is not None:
                self.machine_is_told(request, new, foreign=False, wrong=False)
        for former, name in self.ideal.pairs():
            self.wish_for(self.ideal.places[former].model, slot, "1", self.holder, replaces=former)
            if self.ideal.places[name].phase == "requested" and n % 2:
                self.becomes_ready(name)
        self.operator_wants_others(True, n)
        self.answers_somebody(1 + 4 * n, former=True)
        self.makes_way(n, changed=True)

    @rule(everything=st.booleans(), n=numbers)
    def operator_wants_others(self, everything: bool, n: int) -> None:
        names = sorted(self.ideal.places) if everything else [self.pick(self.ideal.places, n)]
        if self.ideal.places:
            self.both(
                lambda tx: replacing.ask_restart(tx, map(DeploymentId, names)),
                lambda ideal, _: ideal.restart_wished(names),
            )

    @rule(n=numbers, former=mostly_not)
    def answers_somebody(self, n: int, former: bool) -> None:
        successors = [new for _, new in self.ideal.pairs()]
        if name := self.pick(successors if n % 4 else self.ideal.live(), n):
            epoch = self.store.book.records[DeploymentId(name)].epoch - int(former)
            self.both(
                lambda tx: replacing.note_proven(tx, DeploymentId(name), epoch=epoch),
                lambda ideal, _: None if former else ideal.answered_somebody(name),
            )

    @rule(n=numbers, changed=mostly_not)
    def makes_way(self, n: int, changed: bool) -> None:
        """`changed`: something was written of the successor since this was decided."""
        pairs = dict(self.ideal.pairs())
        if old := self.pick(pairs, n):
            book, until = self.store.book, self.now
            gone, coming = book.records[DeploymentId(old)], book.records[DeploymentId(pairs[old])]
            coming = replace(coming, version=coming.version - int(changed))
            self.both(
                lambda tx: owing.write(tx, replacing.retirement(gone, coming, drain_until=until)),
                lambda ideal, _: ideal.make_way(old, decided_on_what_is=not changed),
            )

    # Stopping

    @rule(n=numbers, reason=st.sampled_from(StopReason))
    def owe_a_stop(self, n: int, reason: StopReason) -> None:
        if name := self.pick(self.ideal.live() if n % 4 else self.ideal.places, n):
            self.both(
                lambda tx: deployments.require_stop(tx, tx.record(DeploymentId(name)), reason),
                lambda ideal, _: ideal.require_stop(name, reason.value),
            )

    @rule(n=numbers, at_once=st.booleans())
    def operator_stops(self, n: int, at_once: bool) -> None:
        if name := self.pick(self.ideal.live(), n):
            self.both(
                lambda tx: duties.require_stop_of(
                    tx, tx.record(DeploymentId(name)), StopReason.OPERATOR_REQUEST, now_at_once=at_once, policy=POLICY
                ),
                lambda ideal, _: ideal.operator_stop(name),
            )

    @rule(n=numbers, holder=holders)
    def submit_a_stop(self, n: int, holder: str) -> None:
        if duty := self.pick(self.ideal.open() if n % 4 else self.ideal.owed, n):
            self.stop_leaves(duty, holder)

    def stop_leaves(self, duty: str, holder: str) -> None:
        now = self.now
        self.both(
            lambda tx: duties.mark_stop(tx, ObligationId(duty), holder=holder),
            lambda ideal, _: ideal.mark_stop(duty, holder, now),
        )

    @rule()
    def a_controller_that_was_replaced_tries_everything(self) -> None:
        (former,) = set(HOLDERS) - {self.holder}
        for request in [request for request, call in self.ideal.calls.items() if call.marked_at is None]:
            self.call_leaves(request, former)
        for duty in self.ideal.open():
            self.stop_leaves(duty, former)

    @rule(n=numbers, answer=st.sampled_from(StopAnswer))
    def stop_is_answered(self, n: int, answer: StopAnswer) -> None:
        if duty := self.pick([name for name, owed in self.ideal.owed.items() if owed.in_flight], n):
            self.both(
                lambda tx: duties.record_stop_answer(tx, ObligationId(duty), answer, detail="x"),
                lambda ideal, _: ideal.stop_answered(duty, answer.value),
            )

    @rule(incarnation=keys, foreign=mostly_not, epoch=st.sampled_from([None, 1, 50]), holder=holders)
    def find_a_stray(self, incarnation: str, foreign: bool, epoch: int | None, holder: str) -> None:
        seen = resource(key=key(incarnation), tags=replace(self.tags("r9", foreign=foreign), epoch=epoch))
        now = self.now
        self.both(
            lambda tx: duties.open_stray(tx, seen, StopReason.ORPHAN, holder=holder, policy=POLICY),
            lambda ideal, duty: ideal.stray(
                incarnation, foreign=foreign, holder=holder, now=now, obligation=None if duty is None else duty.id
            ),
        )

    # Ending

    @rule(n=numbers, kind=st.sampled_from(PROOFS))
    def is_proven(self, n: int, kind: EvidenceKind) -> None:
        if duty := self.pick(self.ideal.open() if n % 4 else self.ideal.owed, n):
            now, proof = self.now, Evidence(kind=kind, reference="listing 7", observed_at=self.now)
            self.both(
                lambda tx: deployments.discharge(tx, ObligationId(duty), proof),
                lambda ideal, _: ideal.proven(duty, now),
            )

    @rule(n=numbers)
    def is_confirmed(self, n: int) -> None:
        if duty := self.pick(self.ideal.open() if n % 4 else self.ideal.owed, n):
            now = self.now
            self.both(
                lambda tx: duties.confirm(tx, ObligationId(duty), reference="invoice 9", forced=False),
                lambda ideal, _: ideal.confirmed(duty, now),
            )

    @rule(n=numbers)
    def is_handed_over(self, n: int) -> None:
        if name := self.pick(self.ideal.places, n):
            now = self.now
            self.both(
                lambda tx: deployments.hand_over(tx, tx.record(DeploymentId(name)), epoch=10_000),
                lambda ideal, _: ideal.handed_over(name, now),
            )

    @rule()
    def unblock(self) -> None:
        self.both(lambda tx: [holds.unblock(tx, model, why="asked") for model in "ab"], lambda ideal, _: None)


def test_whatever_happens_the_store_holds_what_the_contract_says() -> None:
    run_state_machine_as_test(Histories, settings=settings(fewer(4), stateful_step_count=40))
