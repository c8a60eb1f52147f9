"""Is a part that was replaced another one for those who decide on less than all of it?"""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from controller.core.facets import FACETS
from controller.core.inventory import Listing
from controller.core.lifecycle import Phase
from controller.core.readiness import Verdict
from controller.core.runtime import Runtime, Scrape
from controller.core.view import Probed, View, date_apart
from tests.core.samples import DEPLOYMENT, MS, T0, S, key, lease, resource, serving

RECORD = serving(ready_at=T0)
LISTING = Listing(began_at=T0, ended_at=T0 + S, complete=True, resources=(resource(),), provider_time=T0 + S)
PROBED = Probed(verdict=Verdict.NOT_READY, served=("qwen",), detail="loading", at=T0)
RUNTIME = Runtime(at=T0, scrape=Scrape(running=1))


def same(facet: str, former: Any, latter: Any) -> bool:
    return FACETS[facet].same(former, latter)


def held(value: Any) -> dict[Any, Any]:
    return {DEPLOYMENT: value}


@pytest.mark.parametrize(
    ("former", "latter", "is_same"),
    [
        (RECORD, replace(RECORD, version=1), True),
        (RECORD, replace(RECORD, phase=Phase.STOP_REQUIRED), False),
        (RECORD, replace(RECORD, unready_since=T0), False),
        (RECORD, replace(RECORD, last_byte_at=T0), True),
        (RECORD, replace(RECORD, last_byte_at=T0 + MS), False),
        (replace(RECORD, last_byte_at=T0 + MS), replace(RECORD, last_byte_at=T0 + S), True),
        (replace(RECORD, last_byte_at=T0 + MS), replace(RECORD, last_byte_at=T0 + S, ready_at=T0 + MS), False),
    ],
    ids=["version", "phase", "readiness", "try", "first use", "further use", "use and more"],
)
def test_what_is_held_is_the_same_while_only_further_bytes_pass(former: Any, latter: Any, is_same: bool) -> None:
    assert same("standing", held(former), held(latter)) is is_same
    assert same("standing", held(latter), held(former)) is is_same


@pytest.mark.parametrize("facet", ["standing", "held_leases", "answers", "runtimes"])
def test_what_comes_or_goes_is_another(facet: str) -> None:
    one = {"standing": RECORD, "held_leases": lease(), "answers": PROBED, "runtimes": PROBED}[facet]
    assert same(facet, held(one), held(one))
    assert not same(facet, {}, held(one))
    assert not same(facet, held(one), {})


def test_a_lease_is_the_same_when_it_is_renewed_and_another_when_it_is_granted_anew_or_given_back() -> None:
    renewed, anew = lease(expires_at=T0 + 600 * S), lease(epoch=2)
    assert same("held_leases", held(lease()), held(renewed))
    assert not same("held_leases", held(lease()), held(anew))
    assert not same("held_leases", held(lease()), held(lease(holder="d2")))
    assert not same("held_leases", held(lease()), held(lease(expires_at=None)))


@pytest.mark.parametrize("facet", ["resources", "complete_resources"])
def test_a_listing_is_the_same_whenever_it_was_begun_while_it_shows_the_same(facet: str) -> None:
    later = replace(LISTING, began_at=T0 + 15 * S, complete=False)
    assert same(facet, LISTING, later)
    assert not same(facet, None, replace(LISTING, resources=()))
    assert not same(facet, LISTING, replace(later, resources=(resource(), resource(key=key("p2")))))
    assert not same(facet, LISTING, replace(later, resources=(resource(word="STRANGE"),)))


def test_an_answer_is_the_same_until_the_server_says_something_else() -> None:
    later = replace(PROBED, at=T0 + S, detail="still loading", awaited_at=T0)
    assert same("answers", held(PROBED), held(later))
    assert not same("answers", held(PROBED), held(replace(later, verdict=Verdict.READY)))
    assert not same("answers", held(PROBED), held(replace(later, served=None)))


def test_each_scrape_is_another_and_no_scrape_twice_is_the_same() -> None:
    scraped = replace(PROBED, runtime=RUNTIME)
    assert same("runtimes", held(PROBED), held(replace(PROBED, at=T0 + S, verdict=Verdict.READY)))
    assert not same("runtimes", held(PROBED), held(scraped))
    assert not same("runtimes", held(scraped), held(replace(PROBED, runtime=replace(RUNTIME, at=T0 + S))))


@pytest.mark.parametrize(("apart", "told"), [(60 * S, False), (60 * S + MS, True), (-60 * S - MS, True)])
def test_the_provider_s_date_is_another_when_it_begins_or_ceases_to_be_ours(apart: timedelta, told: bool) -> None:
    odd = replace(LISTING, provider_time=LISTING.ended_at + apart)
    assert date_apart(odd) == (apart if told else None)
    assert same("date_apart", LISTING, odd) is not told
    assert same("date_apart", odd, replace(odd, ended_at=odd.ended_at - MS * (1 if apart > timedelta() else -1))) is (
        told or apart != 60 * S
    )


def test_a_listing_that_tells_no_date_says_nothing_about_it() -> None:
    assert date_apart(None) is None
    assert date_apart(replace(LISTING, provider_time=None)) is None


def test_a_view_tells_what_its_listings_show() -> None:
    view = View(listing=replace(LISTING, complete=False), completed=replace(LISTING, resources=()))
    assert (view.resources, view.complete_resources) == ((resource(),), ())
    assert (View().resources, View().complete_resources) == ((), None)
