"""Is each command of the hosting contract obeyed or refused, with nothing changed by a refusal?"""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from controller.core import hosting
from controller.core.deployment import CreateAnswer, ProvisionedDeployment, Record
from controller.core.errors import Refusal, RefusalCode
from controller.core.evidence import Evidence, EvidenceKind, StopReason
from controller.core.hosting import Authorization
from controller.core.identity import DeploymentId, Owner, RequestId, Scope, Tags
from controller.core.lease import Ask, acquire
from controller.core.lifecycle import Phase
from tests.core.samples import (
    DEPLOYMENT,
    MS,
    OURS,
    OWNER,
    REQUEST,
    T0,
    S,
    claim,
    create,
    hosting_policy,
    key,
    lease,
    record,
    resource,
    serving,
    spec,
    wish,
)

PROOF = Evidence(kind=EvidenceKind.INVENTORY_COMPLETE_ABSENT, reference="listing 7", observed_at=T0)
THEIRS = Ask(deployment=DEPLOYMENT, holder="d2", now=T0, span=S)
SCOPE = Scope(provider="runpod", account="main")


def refused(command: Callable[[], object]) -> RefusalCode | None:
    try:
        command()
    except Refusal as refusal:
        return refusal.code
    return None


def declare(asked: hosting.Wish, *existing: Record) -> Record:
    return hosting.declare(asked, policy=hosting_policy(max_active=2), existing=existing)


def other(number: int, phase: Phase = Phase.ACTIVE) -> Record:
    return record(phase, spec=spec(id=DeploymentId(f"other-{number}"), model=f"other-{number}"))


R = RefusalCode

# One public call for each code of requirements, App. B.
REACHED: list[tuple[RefusalCode, Callable[[], object]]] = [
    (R.INVALID_POLICY, lambda: hosting_policy(max_active=0)),
    (R.INVALID_SPEC, lambda: hosting.validate(spec(account="other"), hosting_policy())),
    (R.UNAUTHORIZED, lambda: declare(wish(authorization=None))),
    (R.DUPLICATE, lambda: declare(wish(), record())),
    (R.MISSING, lambda: hosting.stop(None, claim())),
    (R.WRONG_PHASE, lambda: hosting.require_stop(record(), StopReason.IDLE, now=T0)),
    (R.CLOCK_REVERSED, lambda: declare(wish(clock_sound=False))),
    (R.CAPACITY_EXCEEDED, lambda: declare(wish(), other(1), other(2))),
    (
        R.LEASE_HELD,
        lambda: acquire(lease(), ask=Ask(deployment=DEPLOYMENT, holder="d2", now=T0, span=S), epoch_latest=1),
    ),
    (R.LEASE_LOST, lambda: hosting.stop(serving(Phase.STOP_REQUIRED), claim(lease=None))),
    (R.STALE_EPOCH, lambda: hosting.stop(serving(Phase.STOP_REQUIRED), claim(lease=lease(epoch=2)))),
    (R.FOREIGN_RESOURCE, lambda: hosting.adopted(record(Phase.UNCERTAIN), resource(key=key(account="other")), OWNER)),
    (R.AMBIGUOUS_MUTATION, lambda: hosting.stop(record(Phase.STOP_REQUIRED), claim())),
    (R.IDEMPOTENCY_UNSUPPORTED, lambda: hosting.retry(record(Phase.UNCERTAIN), idempotent=False)),
]


@pytest.mark.parametrize(("code", "command"), REACHED, ids=[code.value for code, _ in REACHED])
def test_each_code_is_reached_by_a_public_call(code: RefusalCode, command: Callable[[], object]) -> None:
    assert refused(command) is code


def test_the_table_above_covers_every_code() -> None:
    assert [code for code, _ in REACHED] == list(RefusalCode)


# Declare


def test_a_wish_becomes_a_declared_record_of_this_moment() -> None:
    assert declare(wish()) == record(epoch=0)


@pytest.mark.parametrize("lifetime", [timedelta(0), -MS])
def test_a_deployment_without_a_lifetime_is_refused(lifetime: timedelta) -> None:
    assert refused(lambda: declare(wish(spec=spec(requested_lifetime=lifetime)))) is R.INVALID_SPEC
    assert refused(lambda: declare(wish(spec=spec(requested_lifetime=MS)))) is None


@pytest.mark.parametrize("changes", [{"provider": "other"}, {"account": "other"}])
def test_another_scope_is_refused(changes: dict[str, str]) -> None:
    assert refused(lambda: declare(wish(spec=spec(**changes)))) is R.INVALID_SPEC


def test_leave_to_spend_from_another_ledger_is_none() -> None:
    foreign = Authorization(ledger="gateway", reservation="unmetered")
    assert refused(lambda: declare(wish(authorization=foreign))) is R.UNAUTHORIZED


def test_the_clock_may_stand_at_what_was_witnessed_and_not_before() -> None:
    assert refused(lambda: declare(wish(clock_sound=True))) is None
    assert refused(lambda: declare(wish(clock_sound=False))) is R.CLOCK_REVERSED


def test_an_id_is_never_used_twice_even_after_its_end() -> None:
    assert refused(lambda: declare(wish(), record(Phase.STOPPED))) is R.DUPLICATE


LIVE = [Phase.DECLARED, Phase.REQUESTED, Phase.ACTIVE, Phase.UNCERTAIN, Phase.STOP_REQUIRED]
ENDED = [Phase.STOPPED, Phase.CANCELLED, Phase.DISOWNED]


@pytest.mark.parametrize(("phase", "code"), [*((p, R.DUPLICATE) for p in LIVE), *((p, None) for p in ENDED)])
def test_a_slot_is_taken_by_every_live_phase_and_by_no_ended_one(phase: Phase, code: RefusalCode | None) -> None:
    earlier = record(phase, spec=spec(id=DeploymentId("qwen-0")))
    assert refused(lambda: declare(wish(), earlier)) is code
    assert refused(lambda: declare(wish(slot=1), earlier)) is None


@pytest.mark.parametrize(("phase", "code"), [*((p, R.CAPACITY_EXCEEDED) for p in LIVE), *((p, None) for p in ENDED)])
def test_every_live_phase_counts_against_the_capacity_and_no_ended_one(phase: Phase, code: RefusalCode | None) -> None:
    assert refused(lambda: declare(wish(), other(1))) is None
    assert refused(lambda: declare(wish(), other(1), other(2, phase))) is code


# Provision


@pytest.mark.parametrize("answer", [None, CreateAnswer.UNKNOWN, CreateAnswer.ACCEPTED])
def test_after_a_create_that_may_have_made_something_none_is_allowed(answer: CreateAnswer | None) -> None:
    sent = create(submitting_at=T0, answer=answer)
    assert refused(lambda: hosting.provision(record(), [sent], claim())) is R.WRONG_PHASE


@pytest.mark.parametrize("answer", [CreateAnswer.REJECTED, CreateAnswer.NOT_SENT])
def test_after_a_certain_refusal_another_create_is_allowed(answer: CreateAnswer) -> None:
    assert hosting.provision(record(), [create(submitting_at=T0, answer=answer), create()], claim()) == record()


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.DECLARED])
def test_only_a_declared_deployment_is_provisioned(phase: Phase) -> None:
    assert refused(lambda: hosting.provision(record(phase), [], claim())) is R.WRONG_PHASE


def test_no_create_leaves_while_the_clock_is_behind_what_was_witnessed() -> None:
    assert refused(lambda: hosting.provision(record(), [], claim(clock_sound=True))) is None
    assert refused(lambda: hosting.provision(record(), [], claim(clock_sound=False))) is R.CLOCK_REVERSED


@pytest.mark.parametrize("command", [hosting.stop, lambda held, under: hosting.provision(held, [], under)])
@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"lease": None}, R.LEASE_LOST),
        ({"now": T0 + 300 * S + MS}, R.LEASE_LOST),
        ({"holder": "d2"}, R.LEASE_LOST),
        ({"lease": lease(epoch=2)}, R.STALE_EPOCH),
    ],
)
def test_what_costs_or_stops_is_fenced_first(
    command: Callable[[Record, hosting.Claim], object], changes: dict[str, Any], code: RefusalCode
) -> None:
    assert refused(lambda: command(serving(Phase.STOPPED), claim(**changes))) is code


# Answers to a create


def test_an_accepted_create_is_requested_under_its_exact_key() -> None:
    after = hosting.accepted(record(), resource(offer="L40S"), OWNER, request=REQUEST, submitted_at=T0 + S)
    assert (after.phase, after.key, after.started_at, after.offer) == (Phase.REQUESTED, key(), T0 + S, "L40S")


def test_an_answer_that_shows_no_environment_is_ours_by_the_request_id_in_its_name() -> None:
    bare = resource(tags=Tags(request=REQUEST))
    after = hosting.accepted(record(), bare, OWNER, request=REQUEST, submitted_at=T0)
    assert (after.phase, after.key) == (Phase.REQUESTED, key())


@pytest.mark.parametrize(
    "answer",
    [
        {"key": key(account="other")},
        {"tags": replace(OURS, owner="other")},
        {"tags": replace(OURS, installation="i2")},
        {"tags": replace(OURS, request=RequestId("rffffffffffffffff"))},
        {"tags": Tags()},
    ],
)
def test_an_answer_of_another_scope_or_owner_is_lost_ownership_and_nothing_is_taken_from_it(
    answer: dict[str, Any],
) -> None:
    after = hosting.accepted(record(), resource(**answer), OWNER, request=REQUEST, submitted_at=T0)
    assert (after.phase, after.reason) == (Phase.UNCERTAIN, StopReason.OWNERSHIP_LOST)
    assert (after.key, after.observed, after.usd_per_hour) == (None, None, None)


def test_a_lost_answer_is_uncertain_since_its_submission() -> None:
    after = hosting.lost(record(), submitted_at=T0 + S)
    assert (after.phase, after.reason, after.started_at) == (
        Phase.UNCERTAIN,
        StopReason.AMBIGUOUS_MUTATION,
        T0 + S,
    )


def test_a_later_refusal_does_not_withdraw_an_uncertain_create() -> None:
    assert refused(lambda: hosting.cancelled(record(Phase.UNCERTAIN), now=T0)) is R.WRONG_PHASE


@pytest.mark.parametrize("phase", Phase)
def test_only_a_declared_deployment_is_cancelled_and_then_never_began(phase: Phase) -> None:
    held = record(phase, started_at=T0)
    if phase is Phase.DECLARED:
        after = hosting.cancelled(held, now=T0 + S)
        assert (after.phase, after.started_at, after.ended_at) == (Phase.CANCELLED, None, T0 + S)
    else:
        assert refused(lambda: hosting.cancelled(held, now=T0)) is R.WRONG_PHASE


def test_a_repeated_create_is_allowed_only_where_the_provider_tells_it_from_a_second() -> None:
    lost = record(Phase.UNCERTAIN)
    assert refused(lambda: hosting.retry(None, idempotent=True)) is R.MISSING
    assert refused(lambda: hosting.retry(record(), idempotent=True)) is R.WRONG_PHASE
    assert hosting.retry(lost, idempotent=True) == lost


# Adoption


def test_what_a_lost_create_made_is_adopted_under_its_exact_key() -> None:
    lost = hosting.lost(record(), submitted_at=T0)
    after = hosting.adopted(lost, resource(), OWNER)
    assert (after.phase, after.key, after.reason, after.started_at) == (Phase.REQUESTED, key(), None, T0)


@pytest.mark.parametrize("tags", [replace(OURS, owner="other"), replace(OURS, installation="i2")])
def test_nothing_that_names_another_owner_is_adopted(tags: Tags) -> None:
    adopt = lambda: hosting.adopted(record(Phase.UNCERTAIN), resource(tags=tags), OWNER)  # noqa: E731
    assert refused(adopt) is R.FOREIGN_RESOURCE


@pytest.mark.parametrize("phase", [Phase.DECLARED, *ENDED])
def test_nothing_is_adopted_before_the_answer_came_or_after_the_end(phase: Phase) -> None:
    assert refused(lambda: hosting.adopted(record(phase), resource(), OWNER)) is R.WRONG_PHASE


def test_what_a_stop_was_already_wanted_for_is_adopted_into_that_stop() -> None:
    wanted = record(Phase.STOP_REQUIRED, reason=StopReason.OPERATOR_REQUEST)
    after = hosting.adopted(wanted, resource(), OWNER)
    assert (after.phase, after.key, after.reason) == (Phase.STOP_REQUIRED, key(), StopReason.OPERATOR_REQUEST)


@pytest.mark.parametrize("phase", [Phase.REQUESTED, Phase.UNCERTAIN, Phase.STOP_REQUIRED])
def test_what_has_its_key_is_not_adopted_under_another(phase: Phase) -> None:
    """The machine behind the former key would be owed by nobody; a move is followed by `moved`."""
    with pytest.raises(Refusal) as refused:
        hosting.adopted(serving(phase), resource(key=key("p2")), OWNER)
    assert refused.value.code is RefusalCode.WRONG_PHASE
    assert hosting.adopted(serving(phase), resource(), OWNER).key == key()


def test_a_claimed_installation_s_resource_is_adopted() -> None:
    owner = Owner(name="acme", installation="i1", claimed=frozenset({"i2"}))
    theirs = resource(tags=replace(OURS, installation="i2"))
    assert hosting.adopted(record(Phase.UNCERTAIN), theirs, owner).key == key()


@pytest.mark.parametrize("phase", [Phase.REQUESTED, Phase.ACTIVE])
def test_what_the_provider_moved_is_followed_in_its_phase_and_its_liveness_is_forgotten(phase: Phase) -> None:
    seen = ProvisionedDeployment.observed(resource(), ready=True, served_model=None, observed_at=T0)
    after = hosting.moved(serving(phase, observed=seen), resource(key=key("p2")), OWNER)
    assert (after.phase, after.key, after.observed) == (phase, key("p2"), None)


def test_nobody_else_s_resource_is_followed_and_nothing_that_does_not_serve_follows() -> None:
    foreign = resource(key=key("p2"), tags=replace(OURS, owner="other"))
    assert refused(lambda: hosting.moved(serving(Phase.ACTIVE), foreign, OWNER)) is R.FOREIGN_RESOURCE
    stopping = record(Phase.STOP_REQUIRED)
    assert refused(lambda: hosting.moved(stopping, resource(key=key("p2")), OWNER)) is R.WRONG_PHASE


# Observation


def test_an_observation_of_another_incarnation_is_not_taken_in() -> None:
    seen = ProvisionedDeployment.observed(resource(key=key("p2")), ready=True, served_model=None, observed_at=T0)
    assert refused(lambda: hosting.observed(serving(), seen)) is R.FOREIGN_RESOURCE
    assert refused(lambda: hosting.observed(record(), seen)) is R.FOREIGN_RESOURCE


def test_ready_is_active_from_now_on() -> None:
    after = hosting.ready(serving(Phase.REQUESTED, unready_since=T0), now=T0 + S)
    assert (after.phase, after.ready_at, after.unready_since) == (Phase.ACTIVE, T0 + S, None)


@pytest.mark.parametrize("phase", [Phase.DECLARED, Phase.STOP_REQUIRED, *ENDED])
def test_no_probe_however_good_brings_it_back_to_service(phase: Phase) -> None:
    assert refused(lambda: hosting.ready(serving(phase), now=T0)) is R.WRONG_PHASE


# Stops


def test_an_obliged_stop_is_sticky_with_its_first_reason_and_moment() -> None:
    once = hosting.require_stop(serving(), StopReason.IDLE, now=T0)
    twice = hosting.require_stop(once, StopReason.SPEND, now=T0 + S)
    assert (twice.phase, twice.reason, twice.stop_required_at) == (Phase.STOP_REQUIRED, StopReason.IDLE, T0)


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [(600, 300, 300), (300, 600, 300), (300, None, None), (None, 300, None), (None, None, None)],
)
def test_a_second_reason_may_shorten_a_drain_and_never_lengthens_it(
    first: int | None, second: int | None, kept: int | None
) -> None:
    drains = [None if span is None else T0 + span * S for span in (first, second, kept)]
    once = hosting.require_stop(serving(), StopReason.IDLE, now=T0, drain_until=drains[0])
    twice = hosting.require_stop(once, StopReason.SPEND, now=T0, drain_until=drains[1])
    assert twice.drain_until == drains[2]


def test_a_stop_is_allowed_for_the_exact_key_of_a_deployment_that_owes_it() -> None:
    owing = serving(Phase.STOP_REQUIRED)
    assert hosting.stop(owing, claim()) == owing


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.STOP_REQUIRED])
def test_in_no_other_phase_a_stop_is_allowed(phase: Phase) -> None:
    assert refused(lambda: hosting.stop(serving(phase), claim())) is R.WRONG_PHASE


def test_what_is_owned_elsewhere_is_never_stopped() -> None:
    taken = hosting.require_stop(serving(), StopReason.OPERATOR_REQUEST, now=T0)
    taken = hosting.require_stop(taken, StopReason.OWNERSHIP_LOST, now=T0)
    assert refused(lambda: hosting.stop(taken, claim())) is R.FOREIGN_RESOURCE
    again = hosting.require_stop(taken, StopReason.OPERATOR_REQUEST, now=T0)
    assert refused(lambda: hosting.stop(again, claim())) is R.FOREIGN_RESOURCE


def test_a_proven_end_keeps_its_proof() -> None:
    after = hosting.stopped(serving(Phase.STOP_REQUIRED), PROOF, now=T0 + S)
    assert (after.phase, after.evidence, after.ended_at) == (Phase.STOPPED, PROOF, T0 + S)


def test_a_resource_handed_over_is_neither_proven_gone_nor_owed() -> None:
    after = hosting.disowned(serving(), now=T0 + S)
    assert (after.phase, after.evidence, after.ended_at) == (Phase.DISOWNED, None, T0 + S)


# Restart


def test_after_a_restart_identity_and_duty_stay_and_liveness_is_forgotten() -> None:
    seen = ProvisionedDeployment.observed(resource(endpoint="https://x/"), ready=True, served_model="m", observed_at=T0)
    before = serving(Phase.STOP_REQUIRED, observed=seen, reason=StopReason.IDLE, last_byte_at=T0)
    assert hosting.restored(before, [], scope=SCOPE) == replace(before, observed=None)


def test_declared_and_marked_as_sent_comes_back_uncertain_since_that_mark() -> None:
    after = hosting.restored(record(), [create(submitting_at=T0 + S)], scope=SCOPE)
    assert (after.phase, after.reason, after.started_at) == (
        Phase.UNCERTAIN,
        StopReason.AMBIGUOUS_MUTATION,
        T0 + S,
    )


@pytest.mark.parametrize(
    "creates", [[], [create()], [create(submitting_at=T0, ended_at=T0, answer=CreateAnswer.REJECTED)]]
)
def test_declared_and_not_marked_stays_as_it_is(creates: list[Any]) -> None:
    assert hosting.restored(record(), creates, scope=SCOPE) == record()


def test_a_record_of_another_scope_is_refused() -> None:
    elsewhere = Scope(provider="runpod", account="other")
    assert refused(lambda: hosting.restored(record(), [], scope=elsewhere)) is R.INVALID_SPEC


def test_a_record_whose_key_is_of_another_scope_is_refused() -> None:
    held = record(Phase.REQUESTED, key=key(account="other"))
    assert refused(lambda: hosting.restored(held, [], scope=SCOPE)) is R.FOREIGN_RESOURCE
