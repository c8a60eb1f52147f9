"""Is only what is surely ours taken for an orphan, and only after its grace?"""

from dataclasses import replace
from datetime import timedelta
from itertools import product

import pytest

from controller.core.deployment import ProviderState
from controller.core.identity import Owner, RequestId, Tags
from controller.core.orphans import (
    Claimable,
    Leave,
    Sighting,
    StopOrphan,
    Whose,
    decide_copied,
    decide_orphan,
    ended,
    whose,
)
from tests.core.samples import MS, OURS, OWNER, T0, S, key, resource

GRACE = timedelta(seconds=180)
CLAIM_AGE = timedelta(days=7, hours=1)
SILENCE = timedelta(minutes=15)
SEEN = Sighting(key=key(), whose=Whose.OURS, installation="i1", first_at=T0, last_at=T0, times=2)


def expected_of(owner: str | None, installation: str | None, request: str | None, namespaced: bool) -> Whose:
    """Written from the design's section 5, not from the code."""
    if owner is None:
        return Whose.UNMARKED if namespaced else Whose.ELSE
    if owner != "acme":
        return Whose.FOREIGN
    if installation is None:
        return Whose.UNMARKED
    if installation != "i1":
        return Whose.COPIED
    return Whose.UNMARKED if request is None else Whose.OURS


@pytest.mark.parametrize(
    ("owner", "installation", "request_id", "namespaced"),
    list(product(["acme", "other", None], ["i1", "i2", None], ["r1", None], [True, False])),
)
def test_every_combination_of_tags_has_one_owner(
    owner: str | None, installation: str | None, request_id: str | None, namespaced: bool
) -> None:
    tags = Tags(owner=owner, installation=installation, request=None if request_id is None else RequestId(request_id))
    found = whose(resource(tags=tags, namespaced=namespaced), OWNER)
    assert found is expected_of(owner, installation, request_id, namespaced)


def test_a_claimed_installation_s_resource_is_ours() -> None:
    owner = Owner(name="acme", installation="i1", claimed=frozenset({"i2"}))
    assert whose(resource(tags=replace(OURS, installation="i2")), owner) is Whose.OURS


def test_a_member_of_a_cluster_is_never_taken_one_by_one() -> None:
    assert whose(resource(cluster=True), OWNER) is Whose.UNMARKED


def test_an_orphan_is_stopped_at_its_grace_and_not_a_millisecond_before() -> None:
    assert decide_orphan(SEEN, grace=GRACE, now=T0 + 180 * S - MS) == Leave(until=T0 + 180 * S)
    assert decide_orphan(SEEN, grace=GRACE, now=T0 + 180 * S) == StopOrphan()


def test_an_orphan_seen_once_is_left_however_old() -> None:
    once = replace(SEEN, times=1)
    assert decide_orphan(once, grace=GRACE, now=T0 + timedelta(days=9)) == Leave(until=None)


def test_the_provider_s_word_on_its_age_does_not_shorten_the_grace() -> None:
    old = replace(SEEN, created_at=T0 - timedelta(days=9))
    assert decide_orphan(old, grace=GRACE, now=T0 + S) == Leave(until=T0 + GRACE)


@pytest.mark.parametrize(
    ("created_before", "due_after"),
    [(timedelta(days=7), timedelta(hours=1)), (timedelta(days=8), SILENCE), (timedelta(0), CLAIM_AGE)],
)
def test_a_copied_one_is_claimable_when_it_outlived_every_lifetime_and_was_seen_long_enough(
    created_before: timedelta, due_after: timedelta
) -> None:
    copied = replace(SEEN, whose=Whose.COPIED, installation="i2", created_at=T0 - created_before)
    due = T0 + due_after
    before = decide_copied(copied, claim_age=CLAIM_AGE, claim_silence=SILENCE, now=due - MS)
    assert before == Leave(until=due)
    assert decide_copied(copied, claim_age=CLAIM_AGE, claim_silence=SILENCE, now=due) == Claimable()


def test_a_copied_one_of_unknown_age_is_never_claimable_by_itself() -> None:
    copied = replace(SEEN, whose=Whose.COPIED, created_at=None)
    later = T0 + timedelta(days=99)
    assert decide_copied(copied, claim_age=CLAIM_AGE, claim_silence=SILENCE, now=later) == Leave(until=None)


@pytest.mark.parametrize("state", [None, ProviderState.PENDING, ProviderState.RUNNING, ProviderState.TERMINATED])
def test_only_a_terminated_one_leaves_nothing_to_stop(state: ProviderState | None) -> None:
    assert ended(resource(state=state)) is (state is ProviderState.TERMINATED)
