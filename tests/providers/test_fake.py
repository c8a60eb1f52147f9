"""What the provider in plain Python promises, so that tests which rely on it may."""

from dataclasses import replace
from datetime import timedelta

import pytest

from controller.core.deployment import ProviderState
from controller.core.identity import ResourceKey
from controller.core.inventory import NotFound, Present, Unreadable
from controller.providers.fake.adapter import Ended, FakeProvider, Looked, Made
from controller.providers.reading import Reading
from controller.providers.writing import (
    CreateAccepted,
    CreateNotSent,
    CreateRejected,
    CreateUnknown,
    StopAccepted,
    StopNotFound,
    StopRefused,
    StopUnknown,
    Writing,
)
from tests.support.loop_clock import HandClock
from tests.support.runpod_samples import KEY, ORDER, SCOPE, TAGS


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def fake(clock: HandClock) -> FakeProvider:
    return FakeProvider(scope=SCOPE, clock=clock)


async def make(fake: FakeProvider) -> ResourceKey:
    outcome = await fake.create(ORDER)
    assert isinstance(outcome, CreateAccepted)
    return outcome.resource.key


def test_it_is_both_ports(fake: FakeProvider) -> None:
    reading: Reading = fake
    writing: Writing = fake
    assert (reading, writing.idempotent) == (fake, False)


@pytest.mark.parametrize(
    ("fate", "kind", "made"),
    [
        (Made.ACCEPTED, CreateAccepted, 1),
        (Made.LOST_BUT_MADE, CreateUnknown, 1),
        (Made.LOST_NOT_MADE, CreateUnknown, 0),
        (Made.NOT_SENT, CreateNotSent, 0),
        (Made.NO_CAPACITY, CreateRejected, 0),
        (Made.NO_FUNDS, CreateRejected, 0),
        (Made.BAD_ORDER, CreateRejected, 0),
        (Made.BAD_KEY, CreateRejected, 0),
        (Made.TOO_OFTEN, CreateRejected, 0),
    ],
)
async def test_a_scripted_create_is_answered_so_and_makes_what_it_says(
    fake: FakeProvider, fate: Made, kind: type, made: int
) -> None:
    fake.script.creates.append(fate)
    assert isinstance(await fake.create(ORDER), kind)
    assert len(fake.resources) == made
    assert [seen.tags for seen in fake.resources] == [TAGS] * made


@pytest.mark.parametrize(
    ("fate", "kind", "left"),
    [
        (Ended.ACCEPTED, StopAccepted, 0),
        (Ended.IGNORED, StopAccepted, 1),
        (Ended.REFUSED, StopRefused, 1),
        (Ended.LOST_BUT_DONE, StopUnknown, 0),
        (Ended.LOST_NOT_DONE, StopUnknown, 1),
    ],
)
async def test_a_scripted_stop_is_answered_so_and_ends_what_it_says(
    fake: FakeProvider, fate: Ended, kind: type, left: int
) -> None:
    key = await make(fake)
    fake.script.stops.append(fate)
    assert isinstance(await fake.stop(key), kind)
    assert len(fake.resources) == left


async def test_after_its_script_all_is_well(fake: FakeProvider) -> None:
    fake.script.creates.append(Made.NO_CAPACITY)
    await fake.create(ORDER)
    assert isinstance(await fake.stop(await make(fake)), StopAccepted)


async def test_a_new_resource_is_listed_late_and_an_ended_one_too_long(fake: FakeProvider, clock: HandClock) -> None:
    fake.list_lag = timedelta(seconds=10)
    key = await make(fake)
    assert (await fake.list_resources()).resources == ()
    clock.advance(timedelta(seconds=10))
    assert len((await fake.list_resources()).resources) == 1
    await fake.stop(key)
    assert len((await fake.list_resources()).resources) == 1
    assert isinstance(await fake.read_resource(key), Present)
    clock.advance(timedelta(seconds=10))
    assert (await fake.list_resources()).resources == ()
    assert isinstance(await fake.read_resource(key), NotFound)


@pytest.mark.parametrize(
    ("look", "complete", "shown"),
    [(Looked.WHOLE, True, 1), (Looked.PARTIAL, False, 1), (Looked.EMPTY, True, 0), (Looked.FAILED, False, 0)],
)
async def test_a_scripted_listing_shows_and_claims_what_it_says(
    fake: FakeProvider, look: Looked, complete: bool, shown: int
) -> None:
    await make(fake)
    fake.script.listings.append(look)
    listing = await fake.list_resources()
    assert (listing.complete, len(listing.resources), listing.problem is None) == (complete, shown, complete)


async def test_a_resource_that_nobody_asked_for_can_be_put_there_changed_and_vanish(fake: FakeProvider) -> None:
    seen = fake.described(KEY, tags=TAGS)
    fake.put(seen)
    fake.put(replace(seen, state=ProviderState.TERMINATED))
    assert [shown.state for shown in fake.resources] == [ProviderState.TERMINATED]
    fake.vanish(KEY)
    assert fake.resources == ()
    assert isinstance(await fake.stop(KEY), StopNotFound)


async def test_another_accounts_resource_is_not_known_here(fake: FakeProvider) -> None:
    other = replace(KEY, account="other")
    assert isinstance(await fake.stop(other), StopNotFound)
    assert isinstance(await fake.read_resource(other), Unreadable)


async def test_calls_are_counted_by_kind_and_looking_allocates_nothing(fake: FakeProvider) -> None:
    await fake.list_resources()
    await fake.read_prices()
    await fake.read_resource(KEY)
    assert fake.calls == {"list": 1, "prices": 1, "read": 1}
    await fake.stop(await make(fake))
    assert (fake.calls["create"], fake.calls["stop"]) == (1, 1)
