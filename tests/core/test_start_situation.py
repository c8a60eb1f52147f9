"""Does a start in a slot see all that is in its way, and nothing that is not?"""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from controller.core.book import AccountTrust, Book
from controller.core.deployment import ProviderState, SeenResource
from controller.core.identity import DeploymentId, Tags
from controller.core.inventory import Listing
from controller.core.start import Refuse, Start, Surroundings, decide, situation
from controller.core.view import View
from tests.core.samples import (
    DEPLOYMENT,
    OURS,
    OWNER,
    SCOPE,
    T0,
    S,
    create,
    duty,
    hosting_policy,
    model_policy,
    resource,
)

MODEL = model_policy()
BOOK = Book(owner=OWNER, scope=SCOPE)
LOOKED = Listing(began_at=T0 - S, ended_at=T0, complete=True)
VIEW = View(listing=LOOKED, completed=LOOKED, judged=T0 - S, usd_per_hour={"L40S": Decimal(1)})


def decided(book: Book = BOOK, view: View = VIEW, replaces: DeploymentId | None = None) -> Start | Refuse:
    around = Surroundings(
        book=book,
        view=view,
        policy=hosting_policy(),
        epochs_known=7,
        barred=None,
        clock_sound=True,
        now=T0,
        spans_now=T0,
    )
    return decide(situation(MODEL, 0, around, replaces=replaces))


def showing(*seen: SeenResource, complete: bool = True) -> View:
    looked = replace(LOOKED, resources=seen, complete=complete)
    return replace(VIEW, listing=looked, completed=looked if complete else VIEW.completed)


def test_with_nothing_in_the_way_it_starts() -> None:
    assert decided() == Start()


@pytest.mark.parametrize(
    "view",
    [
        View(),
        replace(VIEW, completed=None, listing=replace(LOOKED, complete=False)),
        replace(VIEW, completed=replace(LOOKED, ended_at=T0 - 900 * S)),
        replace(VIEW, judged=None),  # the account guard has not looked at this listing yet
        replace(VIEW, judged=T0 - 2 * S),
        replace(VIEW, usd_per_hour={"H100": Decimal(1)}),
    ],
)
def test_without_a_fresh_judged_look_and_a_price_nothing_starts(view: View) -> None:
    assert isinstance(decided(view=view), Refuse)


@pytest.mark.parametrize("changes", [{"account": AccountTrust(trusted=False)}, {"matching_since": T0}])
def test_in_a_doubtful_account_or_while_an_old_store_is_matched_nothing_starts(changes: dict[str, Any]) -> None:
    assert isinstance(decided(replace(BOOK, **changes)), Refuse)


@pytest.mark.parametrize(
    ("changes", "starts"),
    [({}, False), ({"slot": 1}, True), ({"model": "other"}, True), ({"ended_at": T0}, True)],
)
def test_an_open_duty_of_the_same_slot_is_in_the_way(changes: dict[str, Any], starts: bool) -> None:
    owed = duty(**changes)
    assert isinstance(decided(replace(BOOK, obligations={owed.id: owed})), Start) is starts


def test_what_is_replaced_is_not_in_the_way_of_its_successor_and_what_another_duty_holds_is() -> None:
    book = replace(BOOK, obligations={duty().id: duty()})
    assert decided(book, replaces=DEPLOYMENT) == Start()
    assert isinstance(decided(book, replaces=DeploymentId("qwen-0")), Refuse)


COPIED = Tags(owner="acme", installation="i2", epoch=1)


@pytest.mark.parametrize(
    ("changes", "starts"),
    [
        ({"alias": "qwen"}, False),
        ({"alias": None}, False),
        ({"alias": "other"}, True),
        ({"alias": "qwen", "state": ProviderState.TERMINATED}, True),
        ({"alias": "qwen", "tags": Tags(owner="somebody", installation="i2")}, True),
    ],
)
@pytest.mark.parametrize("complete", [True, False])
def test_beside_what_another_installation_may_run_for_the_model_nothing_starts(
    changes: dict[str, Any], complete: bool, starts: bool
) -> None:
    view = showing(resource(**{"tags": COPIED, **changes}), complete=complete)
    assert isinstance(decided(view=view), Start) is starts


def test_what_the_latest_look_does_not_show_and_the_latest_complete_one_did_is_in_the_way() -> None:
    view = replace(showing(resource(tags=COPIED)), listing=replace(LOOKED, complete=False))
    assert isinstance(decided(view=view), Refuse)


@pytest.mark.parametrize(
    ("epoch", "alias", "starts"), [(8, "qwen", False), (8, None, False), (8, "other", True), (7, "qwen", True)]
)
def test_what_only_a_lost_record_can_have_made_is_in_the_way(epoch: int, alias: str | None, starts: bool) -> None:
    view = showing(resource(tags=replace(OURS, epoch=epoch), alias=alias))
    assert isinstance(decided(view=view), Start) is starts


def test_what_was_planned_and_never_sent_and_is_there_is_in_the_way() -> None:
    book = replace(BOOK, creates={create().request: create()})
    assert isinstance(decided(book, showing(resource(alias="qwen"))), Refuse)
