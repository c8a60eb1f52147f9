"""Where exactly does each judgement of an account turn?"""

from datetime import timedelta
from decimal import Decimal

import pytest

from controller.cli.doctor import account as judge
from controller.cli.doctor.account import Sample
from controller.cli.doctor.finding import CHECKS, Finding, Verdict, exit_of, fail, in_order, ok, warn
from controller.cli.doctor.recorded import Answered
from controller.cli.exits import Exit
from controller.core.identity import Owner, Tags
from controller.core.inventory import Listing
from controller.providers.inspecting import Failed, Funds, Offer, Stock, Trouble
from tests.core.samples import key, resource
from tests.support.loop_clock import BEGIN

US = Owner(name="acme", installation="i1")
S = timedelta(seconds=1)


def sample(apart: float, *, round_trip: float = 0) -> Sample:
    """The answer came half a round trip after its date was made."""
    return Sample(said=BEGIN, wall=BEGIN + (apart + round_trip / 2) * S, round_trip=round_trip * S)


@pytest.mark.parametrize(
    ("heard", "verdict", "words"),
    [
        (sample(0), Verdict.OK, "as the provider's date"),
        (sample(1), Verdict.OK, "as the provider's date"),
        (sample(1.1), Verdict.OK, "1 s ahead of the provider's date: near enough"),
        (sample(-0.1), Verdict.OK, "0 s behind the provider's date: near enough"),
        (sample(-4, round_trip=8), Verdict.OK, "as the provider's date"),
        (sample(61), Verdict.OK, "61 s ahead of the provider's date: near enough"),
        (sample(61.1), Verdict.FAIL, "61 s ahead of the provider's date"),
        (sample(65, round_trip=8), Verdict.OK, "near enough"),
        (sample(65.1, round_trip=8), Verdict.FAIL, "65 s ahead"),
        (sample(-60), Verdict.OK, "60 s behind the provider's date: near enough"),
        (sample(-60.1), Verdict.FAIL, "60 s behind the provider's date"),
        (None, Verdict.WARN, "not known: the provider told no date"),
    ],
)
def test_a_clock_is_off_beyond_a_minute_and_what_the_date_leaves_in_doubt(
    heard: Sample | None, verdict: Verdict, words: str
) -> None:
    found = judge.clock(heard)
    assert (found.verdict, words in found.text) == (verdict, True), found


@pytest.mark.parametrize(
    ("balance", "rate", "dearest", "verdict"),
    [
        ("0", "0", None, Verdict.FAIL),
        ("-1", "0", None, Verdict.FAIL),
        ("0.01", "0", None, Verdict.OK),
        ("0.85", "0", "0.86", Verdict.FAIL),
        ("0.86", "0", "0.86", Verdict.WARN),
        ("20.63", "0", "0.86", Verdict.WARN),
        ("20.64", "0", "0.86", Verdict.OK),
        ("47.99", "1", "1", Verdict.WARN),
        ("48", "1", "1", Verdict.OK),
        ("24", "1", None, Verdict.OK),
        ("1000000000", "0.000001", None, Verdict.OK),
    ],
)
def test_money_lasts_an_hour_at_least_and_a_day_better(
    balance: str, rate: str, dearest: str | None, verdict: Verdict
) -> None:
    funds = Funds(balance_usd=Decimal(balance), usd_per_hour=Decimal(rate))
    assert judge.funds(funds, dearest=None if dearest is None else Decimal(dearest)).verdict is verdict


@pytest.mark.parametrize(("rate", "verdict"), [("79", Verdict.OK), ("79.01", Verdict.WARN)])
def test_the_accounts_own_limit_stands_in_the_way_of_one_more(rate: str, verdict: Verdict) -> None:
    funds = Funds(balance_usd=Decimal(9999), usd_per_hour=Decimal(rate), usd_per_hour_max=Decimal(80))
    assert judge.funds(funds, dearest=Decimal(1)).verdict is verdict


@pytest.mark.parametrize(
    ("levels", "verdict", "text"),
    [
        ({"A": Stock.NONE, "B": Stock.LOW}, Verdict.OK, "A none, B low"),
        ({"A": None}, Verdict.OK, "A not said"),
        ({"A": Stock.NONE, "B": Stock.NONE}, Verdict.WARN, "A none, B none"),
        ({}, Verdict.WARN, "none of its types is in the catalog"),
    ],
)
def test_stock_is_short_only_where_nothing_is_left(
    levels: dict[str, Stock | None], verdict: Verdict, text: str
) -> None:
    offers = {gpu: Offer(stock=level, usd_per_hour=None) for gpu, level in (levels | {"Z": Stock.HIGH}).items()}
    found = judge.stock("m", offers, ("A", "B"))
    assert (found.verdict, found.text, found.subject) == (verdict, text, "m")


@pytest.mark.parametrize(
    ("usd", "most", "verdict"),
    [
        ("2", None, Verdict.OK),
        ("2", "2", Verdict.OK),
        ("2.01", "2", Verdict.FAIL),
        (None, None, Verdict.FAIL),
        (None, "2", Verdict.WARN),
    ],
)
def test_a_price_must_be_known_or_bounded(usd: str | None, most: str | None, verdict: Verdict) -> None:
    offers = {"A": Offer(stock=Stock.HIGH, usd_per_hour=None if usd is None else Decimal(usd))}
    assert judge.price("m", offers, ("A", "B"), most=None if most is None else Decimal(most)).verdict is verdict


@pytest.mark.parametrize("trouble", [*Trouble])
def test_what_could_not_be_asked_is_never_good_and_only_its_cause_is_bad(trouble: Trouble) -> None:
    failed = Failed(trouble=trouble, text="t")
    verdicts = {
        judge.funds(failed, dearest=None).verdict,
        judge.stock("m", failed, ("A",)).verdict,
        judge.price("m", failed, ("A",), most=None).verdict,
        *(found.verdict for found in judge.gpus(failed, {"m": ("A",)})),
        *(found.verdict for found in judge.secrets(failed, {"x": "y"})),
        *(found.verdict for found in judge.registries(failed, {"m": "reg1"})),
    }
    assert verdicts == {Verdict.WARN}
    causes = [found.check for found in judge.greeting(failed, address="a") if found.verdict is Verdict.FAIL]
    assert len(causes) == (0 if trouble is Trouble.HELD_BACK else 1)


@pytest.mark.parametrize(
    ("answered", "verdict"),
    [
        (None, Verdict.WARN),
        (Answered(call="create", code=None), Verdict.OK),
        (Answered(call="create", code="HTTP 403"), Verdict.FAIL),
        (Answered(call="stop", code="HTTP 401"), Verdict.FAIL),
    ],
)
def test_whether_a_key_may_act_is_told_by_the_record_alone(answered: Answered | None, verdict: Verdict) -> None:
    assert judge.renting(answered).verdict is verdict


def listing(*tags: Tags, complete: bool = True, named: bool = True) -> Listing:
    resources = tuple(resource(key=key(f"p{at}"), tags=each, namespaced=named) for at, each in enumerate(tags))
    return Listing(began_at=BEGIN, ended_at=BEGIN, complete=complete, resources=resources, problem="HTTP 500: CANARY")


def test_an_incomplete_listing_still_tells_of_whom_it_shows() -> None:
    shown = listing(Tags(owner="acme", installation="i2"), complete=False)
    assert [found.verdict for found in judge.owner(shown, US, settled=True)] == [Verdict.FAIL]
    assert judge.tags(shown, name="acme").verdict is Verdict.OK
    assert judge.listing(shown).text == "not complete: HTTP 500"
    assert [found.verdict for found in judge.owner(listing(complete=False), US, settled=True)] == [Verdict.WARN]


def test_each_other_installation_is_told_by_itself_and_others_are_counted() -> None:
    shown = listing(*(Tags(owner="acme", installation=other) for other in ("i3", "i2", "i2", "i1")), Tags(owner="x"))
    found = list(judge.owner(shown, US, settled=True))
    assert [line.text.partition(";")[0] for line in found] == [
        "2 machines carry our name acme and installation i2",
        "1 machine carries our name acme and installation i3",
    ]
    (fine,) = judge.owner(listing(Tags(owner="x"), Tags(owner="acme", installation="i1")), US, settled=True)
    assert fine.text == "nobody else uses the name acme; 1 machine of other names, left alone"


def test_somebody_elses_untagged_machines_are_not_taken_for_ours() -> None:
    assert judge.tags(listing(Tags(), named=False), name="acme").verdict is Verdict.OK


def test_the_config_is_blamed_before_the_provider_and_the_provider_before_this_machine() -> None:
    def ended(*checks: str) -> Exit:
        return exit_of(
            [ok("config", "t"), warn("gpus", "t", mend="m"), *(fail(each, "t", mend="m") for each in checks)]
        )

    assert ended() == 0
    assert ended("clock") == 1
    assert ended("clock", "key") == 4
    assert ended("funds", "clock", "gpus") == 78


def test_lines_stand_in_the_order_of_the_checks_and_keep_their_own_within_one() -> None:
    found: list[Finding] = [ok(check, text) for check in reversed(CHECKS) for text in ("1", "2")]
    assert [(line.check, line.text) for line in in_order(found)] == [(c, t) for c in CHECKS for t in ("1", "2")]
