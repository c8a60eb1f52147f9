"""Does a machine bill more than it may, and is it said twice in a row?"""

from dataclasses import replace
from decimal import Decimal

import pytest

from controller.core.book import Book
from controller.core.costs import Costs, below_list, bills_more, ceiling_of, follow_costs, list_price, too_dear
from controller.core.identity import ResourceKey
from controller.core.inventory import Listing
from controller.core.lifecycle import Phase
from controller.core.policy import ModelPolicy
from controller.core.spend import Hold, Reservation
from tests.core.samples import OWNER, SCOPE, T0, S, key, model_policy, resource, serving

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


@pytest.mark.parametrize(
    ("phase", "known", "said", "more"),
    [
        (Phase.ACTIVE, "2", ("2.000001", "3"), "2.000001"),
        (Phase.ACTIVE, "2", ("2", "3"), None),
        (Phase.ACTIVE, None, ("0.000001", "0.000001"), "0.000001"),
        (Phase.ACTIVE, None, ("0", "0"), None),
        (Phase.ACTIVE, "2", ("3",), None),
        (Phase.ACTIVE, "2", (), None),
        (Phase.STOP_REQUIRED, "2", ("3", "3"), None),
    ],
)
def test_only_more_than_is_on_record_said_twice_is_taken_in_and_of_what_serves(
    phase: Phase, known: str | None, said: tuple[str, ...], more: str | None
) -> None:
    held = serving(phase, usd_per_hour=None if known is None else Decimal(known))
    found = bills_more(held, tuple(map(Decimal, said)))
    assert found == (None if more is None else Decimal(more))


# Against the ceiling and the list

RECORD = serving(offer="A40")
PRICES = {"L40S": Decimal(1), "A40": Decimal("0.4")}
EMPTY = Book(owner=OWNER, scope=SCOPE)
RESERVED = Reservation(
    id="qwen-1.2026-03-01",
    deployment=RECORD.id,
    day="2026-03-01",
    hold=Hold.STARTED,
    ceiling_micros_per_hour=700_000,
    reserved_micros=8_400_000,
    opened_at=T0,
)
BOOKED = replace(EMPTY, reservations={RESERVED.id: RESERVED})


@pytest.mark.parametrize(
    ("model", "book", "most"),
    [
        (model_policy(usd_per_hour_max=TWO), BOOKED, TWO),
        (model_policy(), BOOKED, Decimal("0.7")),
        (model_policy(), EMPTY, Decimal(1)),
        (None, BOOKED, Decimal("0.7")),
        (None, EMPTY, None),
    ],
    ids=str,
)
def test_the_ceiling_is_what_is_configured_else_reserved_else_the_price(
    model: ModelPolicy | None, book: Book, most: Decimal | None
) -> None:
    assert ceiling_of(RECORD, model, book, PRICES) == most


def test_the_list_s_price_is_that_of_its_own_card_for_all_of_its_cards() -> None:
    assert list_price(RECORD, model_policy(cards=2), EMPTY, PRICES) == Decimal("0.8")
    assert list_price(RECORD, None, EMPTY, PRICES) is None
    assert list_price(replace(RECORD, offer="H100"), model_policy(), EMPTY, PRICES) is None


@pytest.mark.parametrize(
    ("said", "below"), [(None, False), ("0", False), ("0.98", True), ("0.99", False), ("1", False)]
)
def test_what_bills_a_hundredth_less_than_the_list_is_billed_as_listed(said: str | None, below: bool) -> None:
    assert below_list(None if said is None else Decimal(said), Decimal(1)) is below
