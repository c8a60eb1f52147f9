"""Does the view answer from the latest look, and call it fresh only while it is?"""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from controller.core.identity import RequestId
from controller.core.inventory import Listing
from controller.core.shortage import Shortage
from controller.core.unlisted import Unlisted
from controller.core.view import View
from tests.core.samples import MS, OURS, REQUEST, T0, S, hosting_policy, key, resource

LISTING = Listing(began_at=T0 - S, ended_at=T0, complete=True)


@pytest.mark.parametrize(
    ("interval", "most"), [(15 * S, 45 * S), (60 * S, 180 * S), (300 * S, 900 * S), (400 * S, 900 * S)]
)
def test_a_complete_listing_is_fresh_for_three_intervals_and_at_most_900_seconds(
    interval: timedelta, most: timedelta
) -> None:
    view = View(completed=LISTING, interval=interval)
    assert view.fresh(hosting_policy(), now=T0 + most)
    assert not view.fresh(hosting_policy(), now=T0 + most + MS)


def test_without_a_complete_listing_nothing_is_fresh() -> None:
    assert not View(listing=replace(LISTING, complete=False)).fresh(hosting_policy(), now=T0)


def test_only_what_is_said_of_the_model_itself_leaves_an_offer_out() -> None:
    slip = Unlisted(named="A", offers=frozenset({"A"}), nearest=())
    view = View(unlisted={"qwen": (slip,)}, shortages={"qwen": Shortage(offers=frozenset({"B"}), at=T0)})
    assert [view.left_out(offer, ("A", "B", "C"), model="qwen", now=T0) for offer in "ABC"] == [True, True, False]
    assert not any(view.left_out(offer, ("A", "B", "C"), model="other", now=T0) for offer in "ABC")
    assert not View().left_out("A", ("A", "B"), model="qwen", now=T0)


def test_a_resource_is_found_by_its_exact_key() -> None:
    view = View(listing=replace(LISTING, resources=(resource(key=key("p1")), resource(key=key("p2")))))
    assert view.resource(key("p2")) == resource(key=key("p2"))
    assert view.resource(key("p3")) is None
    assert View().resource(key()) is None


def test_what_carries_a_request_comes_oldest_first_and_the_undated_last() -> None:
    undated = resource(key=key("p1"))
    older = resource(key=key("p3"), created_at=T0)
    newer = resource(key=key("p2"), created_at=T0 + S)
    other = resource(key=key("p4"), tags=replace(OURS, request=RequestId("r2")))
    view = View(listing=replace(LISTING, resources=(undated, newer, other, older)))
    assert view.carrying(REQUEST) == (older, newer, undated)
    assert View().carrying(REQUEST) == ()


def test_two_undated_ones_come_in_the_order_of_their_incarnations() -> None:
    one, two = resource(key=key("p1")), resource(key=key("p2"))
    assert View(listing=replace(LISTING, resources=(two, one))).carrying(REQUEST) == (one, two)


@pytest.mark.parametrize(
    ("judged", "began_at", "vouched"),
    [
        (None, None, True),
        (None, T0, False),
        (T0, None, True),
        (T0, T0, True),
        (T0, T0 - MS, True),
        (T0, T0 + MS, False),
    ],
)
def test_a_listing_counts_for_the_account_once_the_guard_judged_it_or_a_later_one(
    judged: datetime | None, began_at: datetime | None, vouched: bool
) -> None:
    assert View(judged=judged).vouched(began_at) is vouched


def test_the_rhythm_begins_as_the_fast_one() -> None:
    assert View().interval == 15 * S
