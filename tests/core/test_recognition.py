"""As what do we know a resource that a listing shows?"""

from dataclasses import replace
from typing import Any

import pytest

from controller.core.book import Book
from controller.core.deployment import ProviderState, ProvisionedDeployment, SeenResource
from controller.core.evidence import StopReason
from controller.core.inventory import Listing
from controller.core.lifecycle import LIVE, Phase
from controller.core.recognition import recognised
from tests.core.samples import OWNER, SCOPE, T0, key, resource, serving

HERE = "https://p1-8000.proxy.example/v1/"
BEFORE = ProvisionedDeployment.observed(resource(endpoint=HERE), ready=True, served_model=None, observed_at=T0)


def seen_as(shown: SeenResource, *, phase: Phase = Phase.ACTIVE, **record: Any) -> SeenResource:
    held = serving(phase, **{"observed": BEFORE} | record)
    listing = Listing(began_at=T0, ended_at=T0, complete=False, resources=(shown,))
    (found,) = recognised(listing, Book(owner=OWNER, scope=SCOPE, records={held.id: held})).resources
    return found


def odd(**changes: Any) -> SeenResource:
    return replace(resource(state=None, word="CONFUSED", endpoint=None), **changes)


def test_what_serves_keeps_its_address_while_a_word_is_said_that_nobody_knows() -> None:
    assert seen_as(odd()) == odd(endpoint=HERE)


@pytest.mark.parametrize("phase", sorted(LIVE - {Phase.ACTIVE}))
def test_what_does_not_serve_gets_no_address_by_such_a_word(phase: Phase) -> None:
    assert seen_as(odd(), phase=phase).endpoint is None


@pytest.mark.parametrize("state", ProviderState)
def test_a_word_that_is_known_is_believed(state: ProviderState) -> None:
    assert seen_as(odd(state=state)).endpoint is None


def test_a_fault_is_believed() -> None:
    assert seen_as(odd(fault=StopReason.POD_ERROR)).endpoint is None


def test_after_a_restart_it_has_none_until_the_provider_says_that_it_runs() -> None:
    assert seen_as(odd(), observed=None).endpoint is None


def test_another_resource_gets_none() -> None:
    assert seen_as(odd(key=key("p2"))).endpoint is None


def test_one_that_was_renamed_has_its_recorded_key_and_its_address() -> None:
    assert seen_as(odd(key=key(name="renamed"))) == odd(endpoint=HERE)
