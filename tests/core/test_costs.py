"""Does a machine bill more than it may, and is it said twice in a row?"""

from decimal import Decimal

import pytest

from controller.core.costs import Costs, follow_costs, too_dear
from controller.core.identity import ResourceKey
from controller.core.inventory import Listing
from tests.core.samples import T0, S, key, resource

KEY = key()
TWO = Decimal(2)


def listing(*said: str | None) -> Listing:
    shown = tuple(resource(usd_per_hour=None if usd is None else Decimal(usd)) for usd in said)
    return Listing(began_at=T0, ended_at=T0 + S, complete=False, resources=shown)


def followed(*listings: Listing) -> Costs:
    known: dict[ResourceKey, Costs] = {}
    for one in listings:
        known = follow_costs(known, one, keys=frozenset({KEY}))
    return known.get(KEY, ())


@pytest.mark.parametrize(
    ("listings", "dear"),
    [
        ((listing("2.01"),), False),
        ((listing("2.01"), listing("2.01")), True),
        ((listing("2.01"), listing("2.00"), listing("2.01")), False),
        ((listing("2.00"), listing("2.01"), listing("9")), True),
        ((listing("2.00"), listing("2.00")), False),
        ((listing("2.01"), listing(), listing("2.01")), True),
        ((listing("2.01"), listing(None), listing("2.01")), False),
    ],
    ids=str,
)
def test_it_is_too_dear_once_two_listings_in_a_row_say_more_than_the_ceiling(
    listings: tuple[Listing, ...], dear: bool
) -> None:
    assert too_dear(followed(*listings), TWO) is dear


def test_without_a_ceiling_nothing_is_too_dear() -> None:
    assert not too_dear((Decimal(9), Decimal(9)), None)


def test_what_nobody_asks_about_is_forgotten() -> None:
    assert follow_costs({KEY: (TWO,)}, listing("2"), keys=frozenset()) == {}
