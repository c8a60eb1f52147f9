"""Is what a server counts about itself known or unknown, and never zero for unknown?"""

import pytest

from controller.core.runtime import Runtime, Scrape, follow, normal, serves_somebody
from tests.core.samples import MS, T0, S


def test_speeds_are_worked_out_from_the_counters_of_two_scrapes() -> None:
    first = follow(None, Scrape(prompt_tokens=100.0, answer_tokens=10.0), at=T0)
    second = follow(first, Scrape(prompt_tokens=700.0, answer_tokens=10.0), at=T0 + 60 * S)
    assert (first.prompt_rate, first.answer_rate) == (None, None)
    assert (second.prompt_rate, second.answer_rate) == (10.0, 0.0)


@pytest.mark.parametrize("later", [Scrape(answer_tokens=9.0), Scrape(answer_tokens=None)])
def test_a_counter_that_fell_or_is_gone_makes_the_speed_unknown(later: Scrape) -> None:
    first = follow(None, Scrape(answer_tokens=10.0), at=T0)
    assert follow(first, later, at=T0 + 60 * S).answer_rate is None


def test_two_scrapes_of_one_instant_say_no_speed() -> None:
    first = follow(None, Scrape(answer_tokens=10.0), at=T0)
    assert follow(first, Scrape(answer_tokens=20.0), at=T0).answer_rate is None


@pytest.mark.parametrize(("said", "rate"), [(4.5, 4.5), (0.0, None), (None, None)])
def test_what_the_server_says_of_its_speed_stands_in_where_there_is_no_count_before(
    said: float | None, rate: float | None
) -> None:
    assert follow(None, Scrape(answer_tokens=10.0, answer_rate=said), at=T0).answer_rate == rate


@pytest.mark.parametrize(
    ("number", "found"),
    [(0.0, 0.0), (1.0, 1.0), (1.5, 1.0), (-0.1, None), (float("nan"), None), (float("inf"), None), (None, None)],
)
def test_a_number_that_cannot_be_is_unknown(number: float | None, found: float | None) -> None:
    assert normal(number, most=1.0) == found


@pytest.mark.parametrize(
    "scrape",
    [
        Scrape(running=0.0),
        Scrape(waiting=0.0),
        Scrape(cache_use=0.0),
        Scrape(prompt_tokens=0.0),
        Scrape(answer_tokens=0.0),
    ],
)
def test_a_scrape_is_known_by_any_one_of_its_numbers(scrape: Scrape) -> None:
    assert scrape.known
    assert not Scrape(process_started_at=T0, answer_rate=1.0).known


@pytest.mark.parametrize(
    ("scrape", "serves"),
    [
        (Scrape(running=1.0), True),
        (Scrape(running=0.0, waiting=1.0), True),
        (Scrape(running=0.0, waiting=0.0), False),
        (Scrape(), False),
    ],
)
def test_the_server_serves_somebody_only_if_it_says_so(scrape: Scrape, serves: bool) -> None:
    assert serves_somebody(Runtime(at=T0 + MS, scrape=scrape), since=T0) is serves


def test_what_was_scraped_at_or_before_the_last_byte_says_nothing_about_after_it() -> None:
    busy = Scrape(running=1.0)
    assert not serves_somebody(Runtime(at=T0, scrape=busy), since=T0)
    assert serves_somebody(Runtime(at=T0 + MS, scrape=busy), since=T0)
    assert not serves_somebody(None, since=T0)
