"""Which of the resources that were seen came of a deployment's creates?"""

from dataclasses import replace
from typing import Any

import pytest

from controller.core.book import Book
from controller.core.deployment import Create, ProviderState, SeenResource
from controller.core.evidence import StopReason
from controller.core.identity import Scope
from controller.core.inventory import Absence, Absences, Listing, NotFound, Read
from controller.core.lifecycle import Phase
from controller.core.provenance import judged, made_by, made_otherwise, moved_to
from controller.core.view import View
from tests.core.samples import DEPLOYMENT, OURS, OWNER, REQUEST, T0, duty, key, model_policy, resource, serving

NEW = key(incarnation="moved-here")
GONE = NotFound(reference="404", began_at=T0)


def book() -> Book:
    held = duty()
    return Book(owner=OWNER, scope=Scope(provider="runpod", account="main"), obligations={held.id: held})


def view(*seen: SeenResource, read: Read | None = GONE, absent: bool = True) -> View:
    listing = Listing(began_at=T0, ended_at=T0, complete=True, resources=seen)
    absence = Absence(first=T0, previous=None, last=T0)
    return View(
        listing=listing,
        absences=Absences(keys={key(): absence} if absent else {}),
        reads={} if read is None else {key(): read},
    )


def at(**changes: Any) -> SeenResource:
    return resource(key=NEW, **changes)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ((), None),
        ((at(),), NEW),
        ((at(state=ProviderState.TERMINATED),), None),
        ((at(tags=replace(OURS, owner="other")),), None),
        ((at(tags=replace(OURS, owner=None, installation=None)),), NEW),
        ((resource(tags=replace(OURS, owner=None)), at()), NEW),
    ],
)
def test_what_a_lost_create_made_carries_its_request_id_and_no_other_owner(seen: Any, expected: Any) -> None:
    found = made_by(serving(), view(*seen), book())
    assert (found.key if found else None) == expected


@pytest.mark.parametrize(
    ("look", "expected"),
    [
        (view(at()), NEW),
        (view(at(), absent=False), None),
        (view(at(), read=None), None),
        (view(at(state=ProviderState.TERMINATED)), None),
        (view(at(tags=replace(OURS, installation=None))), None),
        (view(at(), resource(key=key(incarnation="twin"))), None),
    ],
)
def test_it_moved_where_one_of_ours_carries_its_id_and_its_own_key_is_proven_missing(look: View, expected: Any) -> None:
    found = moved_to(serving(), look, book())
    assert (found.key if found else None) == expected


ORDERED = Create(request=REQUEST, deployment=DEPLOYMENT, offer="L40S")


@pytest.mark.parametrize(
    ("fits", "fingerprint", "otherwise"),
    [
        (frozenset({"L40S"}), "f1", False),
        (frozenset({"A40"}), "f1", True),
        (frozenset(), "f1", True),
        (None, "f1", False),
        (frozenset(), "f2", False),
    ],
)
def test_it_is_made_otherwise_if_what_was_ordered_could_not_have_made_it(
    fits: frozenset[str] | None, fingerprint: str, otherwise: bool
) -> None:
    ordered = replace(book(), creates={REQUEST: ORDERED})
    model = model_policy(fingerprint=fingerprint)
    assert made_otherwise(serving(), resource(fits=fits), model, ordered) is otherwise
    assert not made_otherwise(serving(), resource(fits=fits), None, ordered)


def test_what_is_owed_a_stop_is_not_followed() -> None:
    assert moved_to(serving(Phase.STOP_REQUIRED), view(at()), book()) is None


@pytest.mark.parametrize(
    ("phase", "changes", "fault"),
    [
        (Phase.REQUESTED, {"fits": frozenset()}, StopReason.WRONG_RESOURCE),
        (Phase.REQUESTED, {"fits": frozenset({"L40S"})}, None),
        (Phase.REQUESTED, {"fits": frozenset(), "fault": StopReason.POD_EXITED}, StopReason.POD_EXITED),
        (Phase.ACTIVE, {"fits": frozenset()}, None),
    ],
)
def test_what_was_not_ordered_is_at_fault_until_it_serves(phase: Phase, changes: Any, fault: StopReason | None) -> None:
    ordered = replace(book(), creates={REQUEST: ORDERED})
    found = judged(serving(phase), resource(**changes), model_policy(fingerprint="f1"), ordered)
    assert found is not None
    assert found.fault is fault
    assert judged(serving(phase), None, model_policy(fingerprint="f1"), ordered) is None
