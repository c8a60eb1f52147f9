"""The adapter and the probe against the emulator, which was written from the provider's documents alone."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

import pytest

from controller.core.deployment import ProviderState
from controller.core.evidence import StopReason
from controller.core.identity import ResourceKey
from controller.core.inventory import NotFound, Present
from controller.core.readiness import Verdict
from controller.emulators.runpod import Emulator, Settings, build_app
from controller.providers.runpod.account import Account, open_api
from controller.providers.runpod.adapter import RunpodReading, RunpodWriting
from controller.providers.writing import (
    CreateAccepted,
    CreateOutcome,
    CreateRejected,
    CreateUnknown,
    Launch,
    RejectedFor,
    StopAccepted,
    StopNotFound,
    StopRefused,
    StopUnknown,
)
from controller.upstreams import vllm
from controller.upstreams.probe import Probe, ProbeTarget, open_prober
from tests.support.asgi_transport import AsgiTransport
from tests.support.loop_clock import BEGIN, LoopClock
from tests.support.runpod_samples import API_KEY, MODEL, NAMESPACE, ORDER, TAGS
from tests.support.virtual_time import run_virtual

T = TypeVar("T")

SERVED = vllm.VllmModel(
    repository="Qwen/Qwen3-8B", served_name="qwen3", context=32768, key_reference=MODEL.key_reference
)
LAUNCHED = replace(ORDER, launch=Launch(argv=vllm.argv(SERVED), environment=vllm.environment(SERVED)))


class World:
    """One emulated account with our adapters and prober before it, on the running loop's time."""

    def __init__(self, **settings: Any) -> None:
        self.clock = LoopClock()
        self.emulator = Emulator(
            clock=lambda: self.clock.now().timestamp(),
            rng=random.Random(1),
            settings=Settings(secrets={"vllm_qwen": "the-servers-key"}, **settings),
        )
        self.transport = AsgiTransport(build_app(self.emulator))
        http = open_api(key=API_KEY, api_url="http://runpod.example/v2", transport=self.transport)
        self.heard: list[tuple[datetime | None, timedelta]] = []
        account = Account(http, clock=self.clock, hear=self._hear)
        namespace = replace(NAMESPACE, proxy_url="http://runpod.example/proxy/{pod}/{port}")
        self.reading = RunpodReading(account, namespace=namespace, models=[MODEL])
        self.writing = RunpodWriting(account, namespace=namespace, models={"qwen": MODEL})
        self.prober = open_prober(clock=self.clock, transport=self.transport)

    def _hear(self, said: datetime | None, *, round_trip: timedelta) -> None:
        self.heard.append((said, round_trip))

    def fault(self, method: str, path: str, **do: Any) -> None:
        self.emulator.add_faults([{"match": {"method": method, "path": path}, "times": 1, "do": do}])

    @property
    def alive(self) -> int:
        return sum(pod["deleted_at"] is None for pod in self.emulator.truth()["pods"])

    async def make(self) -> ResourceKey:
        outcome = await self.writing.create(LAUNCHED)
        assert isinstance(outcome, CreateAccepted), outcome
        return outcome.resource.key

    async def seen(self, key: ResourceKey) -> Any:
        found = await self.reading.read_resource(key)
        assert isinstance(found, Present), found
        return found.resource

    async def probe(self, key: ResourceKey, *, credential: str | None = None) -> Probe:
        endpoint = (await self.seen(key)).endpoint
        assert endpoint is not None
        return await self.prober.probe(
            ProbeTarget(endpoint=endpoint, server="vllm", secret_reference=MODEL.key_reference, credential=credential)
        )


def in_world(test: Callable[[World], Awaitable[T]], **settings: Any) -> T:
    async def main() -> T:
        return await test(World(**settings))

    return run_virtual(main)


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
