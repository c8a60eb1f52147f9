"""Beside what may a deployment be declared in a slot that is taken, and whose restart may be asked for?"""

from dataclasses import replace

import pytest

from controller.core import hosting
from controller.core.deployment import Record
from controller.core.errors import RefusalCode
from controller.core.identity import DeploymentId
from controller.core.lifecycle import Phase
from tests.core.samples import T0, S, hosting_policy, record, spec, wish
from tests.core.test_hosting import ENDED, LIVE, R, declare, other, refused


@pytest.mark.parametrize(
    ("phase", "code"),
    [*((p, None if p is Phase.ACTIVE else R.WRONG_PHASE) for p in LIVE), *((p, R.WRONG_PHASE) for p in ENDED)],
)
def test_only_what_serves_in_the_slot_may_be_replaced(phase: Phase, code: RefusalCode | None) -> None:
    earlier = record(phase, spec=spec(id=DeploymentId("qwen-0")))
    asked = wish(replaces=earlier.id)
    assert refused(lambda: declare(asked, earlier)) is code
    assert refused(lambda: declare(replace(asked, slot=1), earlier)) is R.WRONG_PHASE


@pytest.mark.parametrize("replaces", [None, "qwen-0", "qwen-2"])
def test_a_slot_holds_no_third_beside_what_is_being_replaced(replaces: DeploymentId | None) -> None:
    earlier = record(Phase.ACTIVE, spec=spec(id=DeploymentId("qwen-0")))
    successor = record(Phase.REQUESTED, spec=spec(id=DeploymentId("qwen-2")), replaces=earlier.id)
    asked, policy = wish(replaces=replaces), hosting_policy(max_active=9)
    assert refused(lambda: hosting.declare(asked, policy=policy, existing=[earlier, successor])) is R.DUPLICATE


def test_what_replaces_says_what_and_needs_room_of_its_own() -> None:
    earlier = record(Phase.ACTIVE, spec=spec(id=DeploymentId("qwen-0")))
    assert declare(wish(replaces=earlier.id), earlier).replaces == earlier.id
    assert refused(lambda: declare(wish(replaces=earlier.id), earlier, other(1))) is R.CAPACITY_EXCEEDED


@pytest.mark.parametrize("phase", list(Phase))
def test_a_restart_is_asked_of_what_serves_and_asked_once(phase: Phase) -> None:
    def ask() -> Record:
        return hosting.asked_to_restart(record(phase), now=T0)

    assert refused(ask) is (None if phase is Phase.ACTIVE else R.WRONG_PHASE)
    if phase is Phase.ACTIVE:
        assert hosting.asked_to_restart(ask(), now=T0 + S).restart_asked_at == T0
