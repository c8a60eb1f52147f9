"""Does a series of absences grow by complete listings only, and break at any sighting?"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from controller.core.deployment import SeenResource
from controller.core.identity import RequestId, Tags
from controller.core.inventory import Absence, Absences, Listing, follow
from controller.core.obligation import Discharge, Sight, settle
from tests.core.samples import REQUEST, T0, S, duty, key, resource

KEY = key()


def listing(at: datetime, *resources: SeenResource, **changes: Any) -> Listing:
    seen = Listing(began_at=at, ended_at=at + S, complete=True, resources=resources, requests_readable=True)
    return replace(seen, **changes)


def followed(*listings: Listing) -> Absences:
    absences = Absences()
    for one in listings:
        absences = follow(absences, one, keys=frozenset({KEY}), requests=frozenset({REQUEST}))
    return absences


def test_one_complete_listing_without_it_begins_a_series() -> None:
    absences = followed(listing(T0))
    assert absences.keys[KEY] == Absence(first=T0, previous=None, last=T0)
    assert absences.requests[REQUEST] == Absence(first=T0, previous=None, last=T0)


def test_each_further_one_carries_it_on() -> None:
    absences = followed(listing(T0), listing(T0 + 60 * S), listing(T0 + 120 * S))
    assert absences.keys[KEY] == Absence(first=T0, previous=T0 + 60 * S, last=T0 + 120 * S)


def test_a_partial_or_failed_listing_neither_counts_nor_breaks() -> None:
    before = followed(listing(T0))
    after = follow(before, listing(T0 + 60 * S, complete=False), keys=frozenset({KEY}), requests=frozenset({REQUEST}))
    assert after == before
    assert followed(listing(T0, complete=False)) == Absences()


def test_a_sighting_in_any_listing_breaks_the_series() -> None:
    for complete in (True, False):
        absences = followed(listing(T0), listing(T0 + 60 * S, resource(), complete=complete))
        assert absences == Absences()


def test_after_a_sighting_the_series_begins_anew() -> None:
    absences = followed(listing(T0), listing(T0 + 60 * S, resource()), listing(T0 + 120 * S))
    assert absences.keys[KEY].first == T0 + 120 * S


def test_a_resource_of_the_same_name_and_another_incarnation_is_no_sighting() -> None:
    other = resource(key=key("p2"), tags=Tags())
    assert KEY in followed(listing(T0, other)).keys


def test_with_an_unreadable_request_id_in_our_namespace_absence_by_request_does_not_count() -> None:
    unreadable = resource(key=key("p9"), tags=Tags())
    absences = followed(listing(T0, unreadable, requests_readable=False))
    assert KEY in absences.keys
    assert absences.requests == {}


def test_a_lost_create_stays_open_while_requests_are_unreadable() -> None:
    looks = [listing(T0 + at * S, requests_readable=False) for at in (10, 60, 600)]
    sight = Sight(absence=followed(*looks).requests.get(REQUEST))
    verdict = settle(duty(create_ended_at=T0), sight, settle_after=timedelta(seconds=120), accepted_suffices=False)
    assert not isinstance(verdict, Discharge)


def test_what_is_not_asked_about_any_more_is_dropped() -> None:
    absences = follow(followed(listing(T0)), listing(T0 + S), keys=frozenset(), requests=frozenset())
    assert absences == Absences()
    partial = listing(T0 + S, complete=False)
    assert follow(followed(listing(T0)), partial, keys=frozenset(), requests=frozenset()) == Absences()


def test_a_sighting_by_request_id_breaks_that_request_alone() -> None:
    other = RequestId("r2")
    both = frozenset({REQUEST, other})
    first = follow(Absences(), listing(T0), keys=frozenset(), requests=both)
    after = follow(first, listing(T0 + S, resource()), keys=frozenset(), requests=both)
    assert set(after.requests) == {other}


def test_what_carries_no_request_id_is_found_under_none() -> None:
    assert listing(T0, resource(tags=Tags(owner="acme"))).by_request == {}


def test_copies_of_one_request_are_told_oldest_first_and_those_of_unknown_age_last_by_name() -> None:
    old, young = resource(key=key("p4"), created_at=T0), resource(key=key("p3"), created_at=T0 + S)
    ageless = [resource(key=key("p2")), resource(key=key("p1"))]
    found = listing(T0, *ageless, young, old).by_request[REQUEST]
    assert [one.key.incarnation for one in found] == ["p4", "p3", "p1", "p2"]


looks = st.lists(st.tuples(st.booleans(), st.booleans()), max_size=12)


@given(looks)
def test_a_series_spans_exactly_the_complete_listings_since_the_last_sighting(steps: list[tuple[bool, bool]]) -> None:
    listings = [
        listing(T0 + at * S, *([resource()] if seen else []), complete=complete)
        for at, (seen, complete) in enumerate(steps)
    ]
    last_seen = max((at for at, (seen, _) in enumerate(steps) if seen), default=-1)
    counted = [T0 + at * S for at, (_, complete) in enumerate(steps) if at > last_seen and complete]
    absence = followed(*listings).keys.get(KEY)
    expected = None
    if counted:
        expected = Absence(first=counted[0], previous=counted[-2] if len(counted) > 1 else None, last=counted[-1])
    assert absence == expected
