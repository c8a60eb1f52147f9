"""Which declared offers are not worth asking for now?"""

from datetime import timedelta

import pytest

from controller.core.shortage import Shortage, left_out, none_left, worth_asking
from controller.core.unlisted import Unlisted
from tests.core.samples import MS, T0

OFFERS = ("A", "B", "C")
MINUTE = timedelta(seconds=60)


def short(*offers: str) -> Shortage:
    return Shortage(offers=frozenset(offers), at=T0)


@pytest.mark.parametrize(
    ("gone", "left"), [((), OFFERS), (("A",), ("B", "C")), (("B",), ("A", "C")), (OFFERS, ()), (("X",), OFFERS)]
)
def test_an_offer_of_which_none_is_left_is_left_out_and_no_order_is_changed(
    gone: tuple[str, ...], left: tuple[str, ...]
) -> None:
    assert worth_asking(OFFERS, short(*gone), now=T0) == left


def test_none_is_believed_for_a_minute_and_not_a_millisecond_longer() -> None:
    assert none_left("A", short("A"), now=T0 + MINUTE)
    assert not none_left("A", short("A"), now=T0 + MINUTE + MS)
    assert worth_asking(OFFERS, short("A"), now=T0 + MINUTE + MS) == OFFERS


def test_what_nobody_asked_about_is_worth_asking_for() -> None:
    assert worth_asking(OFFERS, None, now=T0) == OFFERS


@pytest.mark.parametrize(
    ("gone", "unknown", "asked"),
    [
        ("", "", "ABC"),
        ("A", "", "BC"),
        ("ABC", "", "ABC"),
        ("", "A", "BC"),
        ("", "AB", "C"),
        ("", "ABC", "ABC"),
        ("A", "B", "C"),
        ("AC", "B", "AC"),
        ("A", "ABC", "BC"),
    ],
)
def test_what_the_catalog_does_not_have_is_asked_for_only_where_it_has_nothing_of_the_model(
    gone: str, unknown: str, asked: str
) -> None:
    unlisted = [Unlisted(named=each, offers=frozenset({each}), nearest=()) for each in unknown]
    left = [each for each in OFFERS if not left_out(each, OFFERS, short(*gone), unlisted=unlisted, now=T0)]
    assert left == list(asked)


@pytest.mark.parametrize(
    ("gone", "unknown", "bad", "asked"),
    [
        ("", "", "A", "BC"),
        ("", "", "ABC", "ABC"),
        ("", "C", "AB", "AB"),
        ("BC", "", "A", "BC"),
        ("B", "", "A", "C"),
    ],
)
def test_what_can_stand_only_in_a_bad_place_is_asked_for_only_where_the_model_has_nothing_else(
    gone: str, unknown: str, bad: str, asked: str
) -> None:
    unlisted = [Unlisted(named=each, offers=frozenset({each}), nearest=()) for each in unknown]
    left = [each for each in OFFERS if not left_out(each, OFFERS, short(*gone), unlisted=unlisted, bad=bad, now=T0)]
    assert left == list(asked)
