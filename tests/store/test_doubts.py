"""Is what is doubted kept until somebody ends it, and does a token that came outweigh one that did not?"""

from controller.core.hang import Asked
from controller.core.identity import DeploymentId
from controller.store.doubts import Doubts
from tests.core.samples import T0, S

D1, D2 = DeploymentId("d1"), DeploymentId("d2")


def test_what_nobody_doubts_is_not_answered_for() -> None:
    doubts = Doubts()
    assert not doubts.tell(D1, came=False, at=T0)
    doubts.begin(D1)
    assert doubts.answer(D1) is None


def test_a_token_that_came_stands_and_one_that_did_not_is_replaced() -> None:
    doubts = Doubts()
    doubts.begin(D1)
    for came, at, found in ((False, T0, False), (False, T0 + S, False), (True, T0, True), (False, T0 + S, True)):
        assert doubts.tell(D1, came=came, at=at)
        assert doubts.answer(D1) == Asked(came=found, at=T0 + S if not found and at > T0 else T0)


def test_a_doubt_that_ended_takes_its_answer_along_and_rings_once() -> None:
    doubts, rung = Doubts(), []
    doubts.on_change(lambda: rung.append(1))
    doubts.begin(D1)
    doubts.begin(D1)
    doubts.begin(D2)
    doubts.tell(D1, came=False, at=T0)
    doubts.keep_only(frozenset({D2}))
    assert (doubts.holds(D1), doubts.holds(D2), doubts.answer(D1)) == (False, True, None)
    doubts.end(D1)
    assert len(rung) == 3
