"""The adapter and the probe against the emulator, which was written from the provider's documents alone."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from controller.core.deployment import ProviderState
from controller.core.evidence import StopReason
from controller.core.inventory import NotFound
from controller.core.readiness import Verdict
from controller.providers.writing import (
    CreateAccepted,
    CreateOutcome,
    CreateRejected,
    CreateUnknown,
    RejectedFor,
    StopAccepted,
    StopNotFound,
    StopRefused,
    StopUnknown,
)
from controller.upstreams.probe import Probe
from tests.providers.emulated import LAUNCHED, World, in_world
from tests.support.loop_clock import BEGIN
from tests.support.runpod_samples import API_KEY, NAMESPACE, ORDER, TAGS


def test_what_is_ordered_is_made_as_ordered_and_read_back_as_ours() -> None:
    async def story(world: World) -> None:
        outcome = await world.writing.create(LAUNCHED)
        assert isinstance(outcome, CreateAccepted)
        assert outcome.mismatch is None
        assert outcome.resource.tags == TAGS
        assert outcome.resource.state is ProviderState.PENDING
        listing = await world.reading.list_resources()
        assert (listing.complete, listing.requests_readable) == (True, True)
        assert [seen.key for seen in listing.resources] == [outcome.resource.key]
        assert set(world.heard) == {(BEGIN, timedelta())}

    in_world(story)


def test_a_machine_becomes_ready_by_our_own_probe_and_tells_its_name() -> None:
    async def story(world: World) -> None:
        key = await world.make()
        await asyncio.sleep(21)
        assert (await world.probe(key)).verdict is Verdict.NOT_READY
        await asyncio.sleep(40)
        keyless = await world.probe(key)
        assert (keyless.verdict, keyless.served) == (Verdict.READY, ("qwen3",)), keyless.detail
        assert (await world.probe(key, credential="the-servers-key")).served == ("qwen3",)
        assert (await world.probe(key, credential="wrong")).verdict is Verdict.REFUSED

    in_world(story)


@pytest.mark.parametrize(
    ("condition", "verdict"),
    [("open", Verdict.UNPROTECTED), ("booting", Verdict.NOT_READY)],
)
def test_what_is_wrong_with_a_model_server_is_told(condition: str, verdict: Verdict) -> None:
    async def story(world: World) -> Verdict:
        key = await world.make()
        await asyncio.sleep(120)
        world.emulator.change_pod(key.incarnation, {"upstream": {"state": condition}})
        return (await world.probe(key)).verdict

    assert in_world(story) is verdict


@pytest.mark.parametrize(
    ("do", "verdict"),
    [
        ({"hang": 200}, Verdict.UNREACHABLE),
        ({"answer": 524}, Verdict.UNREACHABLE),
        ({"drop": "before"}, Verdict.UNREACHABLE),
        ({"answer": 502}, Verdict.NOT_READY),
    ],
)
def test_a_proxy_that_brings_nothing_is_told_from_a_server_that_is_not_ready(
    do: dict[str, Any], verdict: Verdict
) -> None:
    async def story(world: World) -> Verdict:
        key = await world.make()
        await asyncio.sleep(120)
        world.fault("GET", f"/proxy/{key.incarnation}/8000/health", **do)
        return (await world.probe(key)).verdict

    assert in_world(story) is verdict


def test_a_reference_that_was_not_replaced_is_noticed() -> None:
    async def story(world: World) -> Verdict:
        key = await world.make()
        await asyncio.sleep(120)
        return (await world.probe(key)).verdict

    assert in_world(story, substitute_secrets=False) is Verdict.SECRET_UNSUBSTITUTED


def test_another_name_than_asked_for_is_told() -> None:
    async def story(world: World) -> Probe:
        key = await world.make()
        await asyncio.sleep(120)
        world.emulator.change_pod(key.incarnation, {"upstream": {"state": "wrong-model"}})
        return await world.probe(key)

    assert in_world(story).served == ("some-other-model",)


@pytest.mark.parametrize(
    ("do", "kind", "alive"),
    [
        ({"answer": 400}, CreateRejected, 0),
        ({"answer": 402}, CreateRejected, 0),
        ({"answer": 422}, CreateRejected, 0),
        ({"answer": 500, "effect": True}, CreateUnknown, 1),
        ({"answer": 500}, CreateUnknown, 0),
        ({"answer": 502, "effect": True}, CreateUnknown, 1),
        ({"answer": 408, "effect": True}, CreateUnknown, 1),
        ({"drop": "before"}, CreateUnknown, 0),
        ({"drop": "after"}, CreateUnknown, 1),
        ({"hang": 60, "effect": True}, CreateUnknown, 1),
        ({"malformed": "truncated"}, CreateUnknown, 1),
        ({"malformed": "html"}, CreateUnknown, 1),
        ({"malformed": "null"}, CreateUnknown, 1),
        ({"malformed": "empty"}, CreateUnknown, 1),
        ({"malformed": "wrong-type"}, CreateUnknown, 1),
        ({"malformed": "huge"}, CreateUnknown, 1),
        ({"delay": 10}, CreateAccepted, 1),
        ({"delay": 40}, CreateUnknown, 1),
    ],
)
def test_each_fault_of_a_create_is_told_for_what_it_is(
    do: dict[str, Any], kind: type[CreateOutcome], alive: int
) -> None:
    async def story(world: World) -> None:
        world.fault("POST", "/v2/pods", **do)
        assert isinstance(outcome := await world.writing.create(LAUNCHED), kind), outcome
        await asyncio.sleep(60)
        assert world.alive == alive
        assert (await world.reading.list_resources()).complete

    in_world(story)


def test_a_type_that_is_sold_out_is_refused_for_this_offer_in_the_providers_words() -> None:
    async def story(world: World) -> CreateOutcome:
        return await world.writing.create(LAUNCHED)

    outcome = in_world(story, stock={ORDER.offer: 0})
    assert isinstance(outcome, CreateRejected)
    assert outcome.what is RejectedFor.OFFER
    assert "instances" in outcome.detail


def test_an_empty_account_refuses_for_want_of_funds() -> None:
    async def story(world: World) -> CreateOutcome:
        return await world.writing.create(LAUNCHED)

    outcome = in_world(story, balance=0.0)
    assert isinstance(outcome, CreateRejected)
    assert outcome.what is RejectedFor.FUNDS


def test_a_stop_ends_the_machine_and_a_second_finds_none() -> None:
    async def story(world: World) -> None:
        key = await world.make()
        assert isinstance(await world.writing.stop(key), StopAccepted)
        assert world.alive == 0
        assert isinstance(await world.writing.stop(key), StopNotFound)
        assert isinstance(await world.reading.read_resource(key), NotFound)
        assert (await world.reading.list_resources()).resources == ()

    in_world(story)


@pytest.mark.parametrize(
    ("do", "kind", "alive"),
    [
        ({"answer": 403}, StopRefused, 1),
        ({"answer": 409}, StopRefused, 1),
        ({"answer": 429, "headers": {"retry-after": "7"}}, StopRefused, 1),
        ({"answer": 500}, StopUnknown, 1),
        ({"drop": "after"}, StopUnknown, 0),
        ({"hang": 60}, StopUnknown, 1),
        ({"ignore": True}, StopAccepted, 1),
    ],
)
def test_each_fault_of_a_stop_is_told_for_what_it_is(do: dict[str, Any], kind: type, alive: int) -> None:
    async def story(world: World) -> None:
        key = await world.make()
        world.fault("DELETE", f"/v2/pods/{key.incarnation}", **do)
        assert isinstance(outcome := await world.writing.stop(key), kind), outcome
        assert world.alive == alive

    in_world(story)


def test_a_rate_limit_holds_back_listings_and_the_stop_comes_first_afterwards() -> None:
    async def story(world: World) -> None:
        key = await world.make()
        world.fault("GET", "/v2/pods", answer=429, headers={"retry-after": "20"})
        assert not (await world.reading.list_resources()).complete
        held = await world.writing.stop(key)
        assert isinstance(held, StopRefused)
        assert held.retry_after == timedelta(seconds=20)
        await asyncio.sleep(20)
        assert not (await world.reading.list_resources()).complete
        assert isinstance(await world.writing.stop(key), StopAccepted)
        assert (await world.reading.list_resources()).complete

    in_world(story)


@pytest.mark.parametrize("size", [1, 2, 1000])
def test_every_page_is_read_whatever_its_size(size: int) -> None:
    async def story(world: World) -> None:
        for number in range(5):
            world.emulator.put_pod({"name": f"jupyter-{number}", "image": "x"})
        listing = await world.reading.list_resources()
        assert (listing.complete, len(listing.resources)) == (True, 5)

    in_world(story, page_size=size)


@pytest.mark.parametrize("malformed", ["truncated", "html", "null", "empty", "wrong-type", "huge"])
def test_a_spoilt_listing_proves_nothing_absent(malformed: str) -> None:
    async def story(world: World) -> None:
        await world.make()
        world.fault("GET", "/v2/pods", malformed=malformed)
        listing = await world.reading.list_resources()
        assert not listing.complete, listing

    in_world(story)


def test_a_new_machine_that_is_not_listed_yet_is_not_found_either() -> None:
    async def story(world: World) -> None:
        key = await world.make()
        assert (await world.reading.list_resources()).resources == ()
        assert isinstance(await world.reading.read_resource(key), NotFound)
        await asyncio.sleep(31)
        assert len((await world.reading.list_resources()).resources) == 1

    in_world(story, list_lag_seconds=30.0, get_lag_seconds=30.0)


@pytest.mark.parametrize("moves", [False, True])
def test_a_container_that_restarts_moves_its_start_forward_once(moves: bool) -> None:
    async def story(world: World) -> None:
        key = await world.make()
        starts = []
        for number in range(12):
            await asyncio.sleep(15)
            if number == 6:
                world.emulator.change_pod(key.incarnation, {"restart": True})
            starts.append((await world.seen(key)).started_at)
        known = [start for start in starts if start is not None]
        assert sorted(known) == known
        assert len(set(known)) == 2

    in_world(story, started_at_moves=moves)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"status": "EXITED"}, StopReason.POD_EXITED),
        ({"status": "ERROR"}, StopReason.POD_ERROR),
        ({"gpu_count": 0}, StopReason.ZERO_GPU),
    ],
)
def test_a_machine_that_cannot_serve_any_more_says_why(change: dict[str, Any], fault: StopReason) -> None:
    async def story(world: World) -> StopReason | None:
        key = await world.make()
        await asyncio.sleep(60)
        world.emulator.change_pod(key.incarnation, change)
        found: StopReason | None = (await world.seen(key)).fault
        return found

    assert in_world(story) is fault


def test_somebody_elses_machines_are_seen_and_carry_no_mark_of_ours() -> None:
    async def story(world: World) -> None:
        world.emulator.put_pod({"name": "my pod", "image": "x"})
        world.emulator.put_pod({"name": "gpuwarden-old", "image": "x"})
        world.emulator.put_pod({"name": "other", "image": "x", "env": {"GPUWARDEN_OWNER": "somebody-else"}})
        listing = await world.reading.list_resources()
        assert (listing.complete, listing.requests_readable, len(listing.resources)) == (True, False, 3)
        assert not any(NAMESPACE.owner.holds(seen.tags) for seen in listing.resources)

    in_world(story)


def test_no_secret_reaches_the_provider_and_no_body_is_remembered() -> None:
    async def story(world: World) -> None:
        await world.make()
        truth = str(world.emulator.truth())
        assert "the-servers-key" not in truth
        assert API_KEY not in truth

    in_world(story)


def test_prices_come_from_the_catalog() -> None:
    async def story(world: World) -> Any:
        return await world.reading.read_prices()

    prices = in_world(story)
    assert prices.problem is None
    assert prices.usd_per_hour[ORDER.offer] > 0
