"""Is an engine found hung only by both witnesses, and never for being busy or slow?"""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from controller.core.hang import Asked, Doubt, Hung, Still, Trust, decide, follow
from controller.core.runtime import Runtime, Scrape
from tests.core.samples import MS, T0, S

AFTER = timedelta(minutes=5)
DUE = T0 + 300 * S
HELD = Scrape(running=1.0, steps=7.0, answer_tokens=7.0, prompt_tokens=3.0, cache_use=0.25)


def scraped(scrape: Scrape = HELD, at: datetime = T0) -> Runtime:
    return Runtime(at=at, scrape=scrape)


def followed(*scrapes: Scrape, open_requests: int = 0) -> Still | None:
    still: Still | None = None
    for number, scrape in enumerate(scrapes):
        still = follow(still, scraped(scrape, T0 + number * 60 * S), open_requests=open_requests)
    return still


def since(still: Still | None) -> datetime | None:
    return None if still is None else still.since


def test_a_standstill_begins_with_the_first_scrape_that_shows_it() -> None:
    still = followed(HELD, HELD, HELD)
    assert still is not None
    assert (still.since, still.latest) == (T0, T0 + 120 * S)


@pytest.mark.parametrize(
    "moved",
    [
        replace(HELD, steps=8.0),
        replace(HELD, answer_tokens=8.0),
        replace(HELD, prompt_tokens=4.0),
        replace(HELD, cache_use=0.2500001),
        replace(HELD, process_started_at=T0),
    ],
)
def test_whatever_moves_begins_the_time_anew(moved: Scrape) -> None:
    assert since(followed(HELD, HELD, moved)) == T0 + 120 * S


def test_more_requests_are_no_progress() -> None:
    assert since(followed(HELD, replace(HELD, running=5.0, waiting=9.0))) == T0


@pytest.mark.parametrize(("running", "open_requests", "still"), [(0.0, 0, False), (None, 0, False), (0.0, 1, True)])
def test_without_an_open_request_nothing_stands_still(running: float | None, open_requests: int, still: bool) -> None:
    found = followed(replace(HELD, running=running), open_requests=open_requests)
    assert (found is not None) is still


def test_what_was_not_told_ends_the_standstill() -> None:
    assert followed(HELD, replace(HELD, steps=None)) is None
    assert follow(followed(HELD), None, open_requests=1) is None


STILL = Still(since=T0, counts=(7.0,), latest=DUE)


def test_a_doubt_begins_when_the_counts_stood_still_for_so_long_and_not_a_millisecond_sooner() -> None:
    assert decide(replace(STILL, latest=DUE - MS), None, hung_after=AFTER) == Trust()
    assert decide(STILL, None, hung_after=AFTER) == Doubt()
    assert decide(None, None, hung_after=AFTER) == Trust()


def test_no_token_and_a_later_scrape_that_still_shows_the_same_are_a_hang() -> None:
    asked = Asked(came=False, at=DUE + 60 * S)
    for latest, found in ((DUE, Doubt()), (DUE + 60 * S, Doubt()), (DUE + 60 * S + MS, Hung())):
        assert decide(replace(STILL, latest=latest), asked, hung_after=AFTER) == found


def test_a_token_that_came_ends_the_doubt() -> None:
    asked = Asked(came=True, at=DUE + S)
    assert decide(replace(STILL, latest=DUE + 60 * S), asked, hung_after=AFTER) == Trust()


def test_a_question_from_before_the_doubt_says_nothing() -> None:
    still = replace(STILL, latest=DUE + 60 * S)
    assert decide(still, Asked(came=False, at=DUE - MS), hung_after=AFTER) == Doubt()
    assert decide(still, Asked(came=False, at=DUE), hung_after=AFTER) == Hung()
