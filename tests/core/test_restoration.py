"""Does an old copy betray itself, and is what it forgot adopted, waited with or owed, and nothing else?"""

from dataclasses import replace
from typing import Any

import pytest

from controller.core.book import Book
from controller.core.deployment import ProviderState
from controller.core.identity import RequestId, Tags
from controller.core.inventory import Listing
from controller.core.lifecycle import Phase
from controller.core.restoration import (
    HIGHEST,
    Adopt,
    Owe,
    Wait,
    believable,
    betrays,
    decide,
    newer,
    raised,
    settled,
    strangers,
)
from tests.core.samples import (
    MS,
    OURS,
    OWNER,
    REQUEST,
    T0,
    S,
    create,
    key,
    model_policy,
    record,
    resource,
    serving,
    spec,
)

BOOK = Book(owner=OWNER, scope=spec().scope)
SEEN = resource()
SHOWN = {key(): SEEN}


def listing(*resources: Any, complete: bool = True) -> Listing:
    return Listing(began_at=T0 + 120 * S, ended_at=T0 + 121 * S, complete=complete, resources=resources)


def test_numbers_go_on_a_million_above_the_highest_that_is_known() -> None:
    assert raised(7) == 1_000_007
    assert raised(7, 9, None, 3) == 1_000_009


def test_a_number_from_somebodys_hand_raises_nothing_and_never_lowers_our_own() -> None:
    assert raised(7, HIGHEST) == HIGHEST + 1_000_000
    assert raised(7, HIGHEST + 1, -1) == 1_000_007
    assert raised(HIGHEST + 5) == HIGHEST + 1_000_005
    assert [believable(number) for number in (True, 1.0, "1", None, 0)] == [False, False, False, False, True]


@pytest.mark.parametrize(("epoch", "told"), [(None, False), (4, False), (5, False), (6, True), (HIGHEST + 1, False)])
def test_only_a_believable_epoch_above_all_granted_is_newer(epoch: int | None, told: bool) -> None:
    assert newer(epoch, 5) is told


def test_what_bears_our_marks_and_nobody_sent_for_is_a_stranger() -> None:
    assert strangers(listing(SEEN).resources, BOOK) == [SEEN]


@pytest.mark.parametrize(
    "seen",
    [
        resource(state=ProviderState.TERMINATED),
        resource(cluster=True),
        resource(tags=replace(OURS, request=None)),
        resource(tags=replace(OURS, owner="other")),
        resource(tags=replace(OURS, installation="i2")),
        resource(tags=Tags(request=REQUEST)),
    ],
)
def test_what_is_over_or_not_surely_ours_is_none(seen: Any) -> None:
    assert strangers(listing(seen).resources, BOOK) == []


def test_what_is_held_was_settled_or_was_sent_for_is_none() -> None:
    held = replace(BOOK, records={spec().id: serving()})
    ended = replace(BOOK, settled={key(): T0})
    known = replace(BOOK, creates={REQUEST: create(submitting_at=T0)})
    assert [strangers(listing(SEEN).resources, book) for book in (held, ended, known)] == [[], [], []]


def test_what_was_planned_and_never_sent_and_is_there_proves_the_store_old_whatever_its_epoch() -> None:
    planned = replace(BOOK, creates={REQUEST: create()})
    assert strangers(listing(SEEN).resources, planned) == [SEEN]
    assert betrays(SEEN, planned, granted=99)
    assert not betrays(SEEN, BOOK, granted=1)
    assert betrays(SEEN, BOOK, granted=0)


def test_a_request_that_is_vouched_for_needs_no_marks_but_may_bear_no_others() -> None:
    bare, theirs = resource(tags=Tags(request=REQUEST)), resource(tags=replace(OURS, owner="other"))
    assert strangers(listing(bare, theirs).resources, BOOK, vouched={REQUEST}) == [bare]
    assert strangers(listing(bare).resources, BOOK, vouched={RequestId("r2")}) == []


def test_the_newest_comes_first() -> None:
    old, new = (resource(key=key(name), tags=replace(OURS, epoch=epoch)) for name, epoch in (("a", 3), ("b", 4)))
    assert strangers(listing(old, new).resources, BOOK) == [new, old]


def test_of_one_epoch_the_younger_comes_first_and_what_has_no_age_or_no_epoch_last() -> None:
    old, young = (resource(key=key(name), created_at=at) for name, at in (("a", T0), ("b", T0 + S)))
    ageless = resource(key=key("c"))
    unmarked = resource(key=key("d"), tags=replace(OURS, epoch=None), created_at=T0)
    assert strangers(listing(unmarked, ageless, old, young).resources, BOOK) == [young, old, ageless, unmarked]


def test_no_number_of_ours_is_above_two_to_the_fifty_third() -> None:
    assert (believable(9_007_199_254_740_992), believable(9_007_199_254_740_993)) == (True, False)


def test_of_two_occupants_both_have_to_stand() -> None:
    gone = replace(serving(), key=key("gone"))
    assert decide(model_policy(), [serving(), gone], SHOWN, settled=True) == Wait()


def test_it_is_adopted_into_the_first_free_slot_of_its_model_and_owed_without_a_model() -> None:
    assert decide(model_policy(), [serving(), None], SHOWN, settled=False) == Adopt(slot=1)
    assert decide(None, [], SHOWN, settled=False) == Owe()


@pytest.mark.parametrize(
    ("occupant", "settled_yet", "decision"),
    [
        (serving(), True, Owe()),
        (serving(), False, Wait()),
        (replace(serving(), key=key("gone")), True, Wait()),
        (serving(Phase.STOP_REQUIRED), True, Wait()),
        (record(Phase.UNCERTAIN), True, Wait()),
    ],
)
def test_beside_an_occupant_it_is_owed_only_once_that_one_surely_stands(
    occupant: Any, settled_yet: bool, decision: Any
) -> None:
    assert decide(model_policy(), [occupant], SHOWN, settled=settled_yet) == decision


def test_a_complete_listing_has_to_begin_the_settle_time_after() -> None:
    assert settled(listing(), since=T0, settle=120 * S)
    assert not settled(listing(), since=T0 + MS, settle=120 * S)
    assert not settled(listing(complete=False), since=T0, settle=120 * S)
