"""When is an open question answered, and when does it stay open?"""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from controller.cli.doctor import questions
from controller.cli.doctor.questions import Said
from controller.core.evidence import StopReason
from controller.core.identity import Owner, Tags
from controller.providers.inspecting import Failed, Funds, Trouble
from controller.providers.qualifying import Echo, Inside
from tests.core.samples import resource
from tests.support.loop_clock import BEGIN

US = Owner(name="acme", installation="i1")
S = timedelta(seconds=1)
SILENT = Failed(trouble=Trouble.SILENT, text="t")
BEFORE = Inside(echo=Echo.REFERENCE, started_at=BEGIN, uptime=100 * S, cards=1)


def funds(rate: str) -> Funds:
    return Funds(balance_usd=Decimal(9), usd_per_hour=Decimal(rate))


@pytest.mark.parametrize(
    ("during", "after", "rate", "said"),
    [
        (funds("0.4"), funds("0"), "0.4", Said.YES),
        (funds("5.4"), funds("5"), "0.4", Said.YES),
        (funds("0.4"), funds("0.2"), "0.4", Said.YES),
        (funds("0.4"), funds("0.21"), "0.4", Said.NO),
        (funds("0.4"), funds("0.4"), "0.4", Said.NO),
        (funds("0.19"), funds("0.19"), "0.4", Said.OPEN),
        (funds("0"), funds("0"), "0.4", Said.OPEN),
        (SILENT, funds("0"), "0.4", Said.OPEN),
        (funds("0.4"), SILENT, "0.4", Said.OPEN),
        (None, None, "0.4", Said.OPEN),
        (funds("0.4"), funds("0"), "0", Said.OPEN),
    ],
)
def test_the_bill_ends_where_the_account_costs_less_than_while_it_was_there(
    during: Funds | Failed | None, after: Funds | Failed | None, rate: str, said: Said
) -> None:
    assert questions.billing(during, after, usd_per_hour=Decimal(rate)).said is said


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (replace(BEFORE, started_at=BEGIN + S, uptime=1 * S), Said.YES),
        (replace(BEFORE, started_at=BEGIN + S, uptime=None), Said.YES),
        (replace(BEFORE, uptime=1 * S), Said.NO),
        (replace(BEFORE, uptime=100 * S), Said.OPEN),
        (replace(BEFORE, uptime=101 * S), Said.OPEN),
        (replace(BEFORE, uptime=None), Said.OPEN),
        (replace(BEFORE, started_at=None, uptime=1 * S), Said.OPEN),
        (replace(BEFORE, started_at=BEGIN - S, uptime=1 * S), Said.OPEN),
        (SILENT, Said.OPEN),
        (None, Said.OPEN),
    ],
)
def test_a_restart_says_something_only_where_it_was_seen(after: Inside | Failed | None, said: Said) -> None:
    assert questions.restart(BEFORE, after).said is said
    assert questions.restart(SILENT, after).said is Said.OPEN


@pytest.mark.parametrize(
    ("tags", "said"),
    [
        (Tags(owner="acme", installation="i1"), Said.YES),
        (Tags(owner="acme", installation="i2"), Said.NO),
        (Tags(), Said.NO),
    ],
)
def test_environments_are_shown_where_our_own_tags_are(tags: Tags, said: Said) -> None:
    assert questions.listing(resource(tags=tags), US, BEFORE).said is said
    assert questions.listing(None, US, BEFORE).said is Said.OPEN


def test_a_reference_is_replaced_where_it_serves_and_not_where_it_was_taken_for_the_key() -> None:
    assert questions.substitution(served=True, reason=None).said is Said.YES
    assert questions.substitution(served=False, reason=StopReason.SECRET_UNSUBSTITUTED).said is Said.NO
    for reason in (None, StopReason.STARTUP_DEADLINE, StopReason.KEY_REFUSED):
        assert questions.substitution(served=False, reason=reason).said is Said.OPEN


@pytest.mark.parametrize(
    ("usd", "said"), [("0.79", Said.YES), ("0.7821", Said.YES), ("0.78", Said.NO), ("1", Said.YES), (None, Said.OPEN)]
)
def test_what_is_cheaper_than_the_catalog_may_not_be_on_demand(usd: str | None, said: Said) -> None:
    seen = resource(usd_per_hour=None if usd is None else Decimal(usd))
    assert questions.price(seen, listed=Decimal("0.79")).said is said
    assert questions.price(None, listed=Decimal(1)).said is Said.OPEN


@pytest.mark.parametrize(
    ("shown", "wanted", "said"), [(2, 2, Said.YES), (1, 2, Said.NO), (None, 2, Said.OPEN), (1, 1, Said.OPEN)]
)
def test_cards_are_counted_where_more_than_one_was_asked_for(shown: int | None, wanted: int, said: Said) -> None:
    assert questions.cards(replace(BEFORE, cards=shown), wanted=wanted).said is said
    assert questions.cards(None, wanted=wanted).said is Said.OPEN
