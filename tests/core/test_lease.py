"""May exactly one holder act, only while its lease lives, and under an epoch that never comes again?"""

from dataclasses import replace
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.errors import Refusal, RefusalCode
from controller.core.lease import Ask, Lease, acquire, fence, release, renew
from tests.core.samples import DEPLOYMENT, MS, T0, S, lease

ENDS = T0 + 300 * S


def ask(holder: str = "d1", now: datetime = T0) -> Ask:
    return Ask(deployment=DEPLOYMENT, holder=holder, now=now, span=300 * S)


def refused(current: Lease | None, *, epoch: int = 1, holder: str = "d1", now: datetime = T0) -> RefusalCode | None:
    try:
        fence(current, epoch=epoch, holder=holder, now=now)
    except Refusal as refusal:
        return refusal.code
    return None


def test_a_free_lease_is_granted_under_the_next_epoch() -> None:
    assert acquire(None, ask=ask(), epoch_latest=41) == lease(epoch=42, expires_at=ENDS)


@pytest.mark.parametrize(("now", "held"), [(ENDS, True), (ENDS + MS, False)])
def test_another_holder_is_refused_until_the_expiry_is_past(now: datetime, held: bool) -> None:
    if held:
        with pytest.raises(Refusal) as refusal:
            acquire(lease(), ask=ask("d2", now), epoch_latest=1)
        assert refusal.value.code is RefusalCode.LEASE_HELD
    else:
        assert acquire(lease(), ask=ask("d2", now), epoch_latest=1).holder == "d2"


def test_the_same_holder_may_acquire_again_and_gets_a_new_epoch() -> None:
    assert acquire(lease(), ask=ask(now=T0 + S), epoch_latest=1).epoch == 2


def test_a_released_lease_is_free_and_its_epoch_stays_used() -> None:
    given_back = release(lease(epoch=7))
    assert (given_back.expires_at, given_back.epoch, given_back.live(T0)) == (None, 7, False)
    assert acquire(given_back, ask=ask("d2"), epoch_latest=7).epoch == 8


def test_renewal_prolongs_under_the_same_epoch() -> None:
    assert renew(lease(), ask=ask(now=ENDS), epoch=1) == lease(expires_at=ENDS + 300 * S)


@pytest.mark.parametrize("current", [None, lease(expires_at=None), lease(holder="d2"), lease(expires_at=T0 - MS)])
def test_what_is_not_held_is_not_renewed(current: Lease | None) -> None:
    with pytest.raises(Refusal) as refusal:
        renew(current, ask=ask(), epoch=1)
    assert refusal.value.code is RefusalCode.LEASE_LOST


@pytest.mark.parametrize(
    ("current", "epoch", "holder", "now", "code"),
    [
        (lease(), 1, "d1", ENDS, None),
        (lease(), 1, "d1", ENDS + MS, RefusalCode.LEASE_LOST),
        (lease(), 1, "d2", T0, RefusalCode.LEASE_LOST),
        (lease(expires_at=None), 1, "d1", T0, RefusalCode.LEASE_LOST),
        (None, 1, "d1", T0, RefusalCode.LEASE_LOST),
        (lease(epoch=2), 1, "d1", T0, RefusalCode.STALE_EPOCH),
        (lease(epoch=2, holder="d2"), 1, "d1", T0, RefusalCode.STALE_EPOCH),
        (lease(epoch=2), 2, "d1", T0, None),
    ],
)
def test_the_fence_lets_through_the_live_claim_of_the_newest_epoch_only(
    current: Lease | None, epoch: int, holder: str, now: datetime, code: RefusalCode | None
) -> None:
    assert refused(current, epoch=epoch, holder=holder, now=now) is code


@given(st.lists(st.tuples(st.sampled_from(["d1", "d2", "d3"]), st.integers(0, 400), st.booleans()), max_size=20))
def test_no_epoch_is_granted_twice_whoever_asks_releases_or_waits(steps: list[tuple[str, int, bool]]) -> None:
    current: Lease | None = None
    now, granted = T0, [0]
    for holder, waited, gives_back in steps:
        now += waited * S
        try:
            current = acquire(current, ask=ask(holder, now), epoch_latest=granted[-1])
        except Refusal:
            continue
        granted.append(current.epoch)
        current = release(current) if gives_back else replace(current)
    assert granted == sorted(set(granted))
