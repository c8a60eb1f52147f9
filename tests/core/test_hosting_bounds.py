"""Is nothing of what a resource says lost on its way to the record, and each refusal the right one at its bound?"""

from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal

import pytest

from controller.core import hosting
from controller.core.deployment import ProvisionedDeployment, Record
from controller.core.errors import Refusal, RefusalCode
from controller.core.evidence import StopReason
from controller.core.lease import Lease
from controller.core.lifecycle import Phase
from controller.core.policy import HostingPolicy, LeaseExpiry
from tests.core.samples import (
    MS,
    OWNER,
    REQUEST,
    SCOPE,
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
)

TOLD = resource(key=key("p2"), usd_per_hour=Decimal("1.25"), offer="NVIDIA A40")


def refusal_of(command: Callable[[], object]) -> RefusalCode:
    with pytest.raises(Refusal) as refused:
        command()
    return refused.value.code


@pytest.mark.parametrize(
    "command",
    [
        lambda: hosting.provision(None, [], claim()),
        lambda: hosting.retry(None, idempotent=True),
        lambda: hosting.stop(None, claim()),
    ],
    ids=["provision", "retry", "stop"],
)
def test_without_a_record_nothing_is_made_repeated_or_stopped(command: Callable[[], object]) -> None:
    assert refusal_of(command) is RefusalCode.MISSING


@pytest.mark.parametrize(
    "taken",
    [
        lambda: hosting.accepted(record(), TOLD, OWNER, request=REQUEST, submitted_at=T0),
        lambda: hosting.adopted(record(Phase.UNCERTAIN), TOLD, OWNER),
        lambda: hosting.moved(serving(), TOLD, OWNER),
    ],
    ids=["accepted", "adopted", "moved"],
)
def test_what_a_resource_costs_and_is_goes_on_record_with_its_key(taken: Callable[[], Record]) -> None:
    held = taken()
    assert (held.key, held.usd_per_hour, held.offer) == (key("p2"), Decimal("1.25"), "NVIDIA A40")


def test_a_resource_in_another_account_is_not_followed_whatever_its_tags_say() -> None:
    elsewhere = resource(key=key("p2", account="other"))
    assert refusal_of(lambda: hosting.moved(serving(), elsewhere, OWNER)) is RefusalCode.FOREIGN_RESOURCE


def test_an_observation_of_the_exact_key_is_taken_in() -> None:
    seen = ProvisionedDeployment.observed(resource(), ready=True, served_model=None, observed_at=T0)
    assert hosting.observed(serving(), seen).observed == seen


def test_a_stop_that_is_owed_already_stays_owed_over_a_restart_in_the_middle_of_a_create() -> None:
    owed = record(Phase.STOP_REQUIRED, reason=StopReason.OPERATOR_REQUEST)
    assert hosting.restored(owed, [create(submitting_at=T0)], scope=SCOPE) == owed


def test_of_two_unanswered_creates_the_lifetime_counts_from_the_earlier() -> None:
    sent = [create(submitting_at=T0 + 9 * S), create(submitting_at=T0 + 5 * S)]
    assert hosting.restored(record(), sent, scope=SCOPE).started_at == T0 + 5 * S


REACQUIRE, STOP = hosting_policy(), hosting_policy(lease_expiry=LeaseExpiry.STOP)
WEEK = timedelta(days=7)
LAPSED = lease(expires_at=T0 - MS)


@pytest.mark.parametrize("phase", [Phase.REQUESTED, Phase.ACTIVE])
@pytest.mark.parametrize(
    ("held", "policy", "now", "reason"),
    [
        (lease(), STOP, T0, None),
        (lease(expires_at=T0 + WEEK), STOP, T0 + WEEK, None),
        (lease(expires_at=T0 + WEEK), REACQUIRE, T0 + WEEK + MS, StopReason.LIFETIME_EXCEEDED),
        (LAPSED, STOP, T0 + WEEK + MS, StopReason.LIFETIME_EXCEEDED),
        (LAPSED, STOP, T0, StopReason.LEASE_EXPIRED),
        (lease(expires_at=T0), STOP, T0, None),
        (None, STOP, T0, StopReason.LEASE_EXPIRED),
        (LAPSED, REACQUIRE, T0, None),
        (None, REACQUIRE, T0, None),
    ],
)
def test_time_alone_obliges_the_stop_of_what_outlived_its_lifetime_or_where_told_so_its_lease(
    phase: Phase, held: Lease | None, policy: HostingPolicy, now: datetime, reason: StopReason | None
) -> None:
    assert hosting.elapsed(serving(phase), held, policy=policy, now=now) is reason


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase not in {Phase.REQUESTED, Phase.ACTIVE}])
def test_time_obliges_nothing_of_what_does_not_serve(phase: Phase) -> None:
    assert hosting.elapsed(serving(phase), None, policy=STOP, now=T0 + 2 * WEEK) is None


def test_what_was_observed_before_it_was_adopted_is_forgotten() -> None:
    seen = ProvisionedDeployment.observed(resource(), ready=True, served_model=None, observed_at=T0)
    assert hosting.adopted(serving(Phase.REQUESTED, observed=seen), resource(), OWNER).observed is None


def test_what_is_ours_again_gives_no_other_owner_as_its_reason_and_is_taken_from_a_stop_that_is_owed_only() -> None:
    taken = serving(Phase.STOP_REQUIRED, reason=StopReason.OWNERSHIP_LOST)
    assert hosting.ours_again(taken).reason is StopReason.AMBIGUOUS_MUTATION
    unsettled = hosting.ours_again(serving(Phase.UNCERTAIN, reason=StopReason.OWNERSHIP_LOST))
    assert unsettled.phase is Phase.STOP_REQUIRED
