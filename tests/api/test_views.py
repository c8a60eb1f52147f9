"""What a gateway reads of a model, and when its version rises."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from controller.api.views import look, model_view, usd
from controller.core import start
from controller.core.book import Failure
from controller.core.errors import Code
from controller.core.evidence import StopReason
from controller.core.identity import DeploymentId
from controller.core.schedule import DAYS, Schedule, Window
from controller.store import deployments, holds
from controller.store.transaction import Tx
from tests.api.world import ENDPOINT, STOP_ONLY, World, at, world
from tests.core.samples import model_policy


async def require_stop(house: World, reason: StopReason, *, drain: timedelta | None = None) -> None:
    until = None if drain is None else house.store.now + drain
    await house.store.write(lambda tx: deployments.require_stop(tx, house.record(), reason, drain_until=until))


async def block(house: World, reason: str, *, until: timedelta | None = None) -> None:
    def write(tx: Tx) -> None:
        failure = Failure(deployment=DeploymentId("qwen-0"), reason=reason, at=tx.now, seq=tx.book.seq_latest)
        ends = None if until is None else tx.now + until
        memory = replace(
            tx.book.memory("qwen"), hold_reason=reason, hold_until=ends, hold_fingerprint="f1", failure=failure
        )
        tx.put_memory(memory)
        tx.line("model.blocked", model="qwen", reason=reason)

    await house.store.write(write)


async def test_a_model_that_nobody_wants_is_off_and_shows_its_config(house: World) -> None:
    view = await house.view()
    assert view == {
        "alias": "qwen",
        "phase": "off",
        "served_name": "Qwen/Qwen3-8B",
        "server": "vllm",
        "wires": ["chat"],
        "tools": False,
        "adapters": [],
        "merge_system": False,
        "stream_plain": False,
        "wait_seconds": 570.0,
        "queue": 64,
        "cold_start_seconds": None,
        "key_file": None,
        "usd_per_hour": None,
        "routes": [],
        "starting": None,
        "refusal": None,
        "failure": None,
    }


async def test_a_machine_of_an_older_config_is_a_route_that_says_so(tmp_path: Path) -> None:
    async with world(tmp_path, models=(model_policy(fingerprint="f2"),)) as house:
        await house.serve()
        assert [route["current"] for route in (await house.view())["routes"]] == [False]


async def test_what_serves_is_a_route_and_ready(house: World) -> None:
    record = await house.serve()
    view = await house.view()
    assert view["phase"] == "ready"
    assert view["usd_per_hour"] == usd(record.usd_per_hour) is not None
    assert view["starting"] is None
    assert view["routes"] == [
        {
            "deployment": "qwen-1",
            "epoch": record.epoch,
            "endpoint": ENDPOINT,
            "proven": False,
            "current": True,
            "doubted": False,
            "usd_per_hour": "0.79",
        },
    ]


async def test_what_serves_without_a_known_address_is_no_route(house: World) -> None:
    await house.serve()
    await house.store.write(lambda tx: tx.put_record(replace(tx.record(DeploymentId("qwen-1")), observed=None)))
    view = await house.view()
    assert (view["phase"], view["routes"]) == ("uncertain", [])


async def test_what_stopped_answering_is_a_route_only_while_nothing_better_is_there(tmp_path: Path) -> None:
    async with world(tmp_path, models=(model_policy(slots=2),)) as house:
        await house.serve("qwen-1", incarnation="p1")
        await house.serve("qwen-2", incarnation="p2", slot=1)
        ill = house.record("qwen-1")
        await house.store.write(lambda tx: deployments.record_unready(tx, ill, since=tx.now))
        assert [route["deployment"] for route in (await house.view())["routes"]] == ["qwen-2"]
        other = house.record("qwen-2")
        await house.store.write(lambda tx: deployments.require_stop(tx, other, StopReason.IDLE))
        assert [route["deployment"] for route in (await house.view())["routes"]] == ["qwen-1"]


async def test_a_start_tells_since_when_how_long_and_what_it_cost(house: World) -> None:
    await house.store.write(lambda tx: holds.note_cold_start(tx, "qwen", took=timedelta(seconds=200)))
    began = house.clock.now()
    await house.request()
    house.clock.advance(timedelta(seconds=60))
    view = await house.view()
    assert view["phase"] == "starting"
    assert view["starting"] == {
        "deployment": "qwen-1",
        "phase": "requested",
        "since": at(began),
        "eta_seconds": 140.0,
        "usd_so_far": "0.0132",
        "usd_per_hour": "0.79",
    }


@pytest.mark.parametrize(("elapsed", "left"), [(181, 19.0), (182, 18.2), (300, 30.0), (0, 200.0)])
async def test_a_start_that_takes_longer_than_the_last_is_still_expected(
    house: World, elapsed: int, left: float
) -> None:
    await house.store.write(lambda tx: holds.note_cold_start(tx, "qwen", took=timedelta(seconds=200)))
    assert (await house.view())["cold_start_seconds"] == 200.0
    await house.request()
    house.clock.advance(timedelta(seconds=elapsed))
    assert (await house.view())["starting"]["eta_seconds"] == left


async def test_a_first_start_has_no_estimate_and_a_declared_one_no_cost(house: World) -> None:
    await house.declare()
    starting = (await house.view())["starting"]
    assert (starting["phase"], starting["eta_seconds"], starting["usd_so_far"]) == ("declared", None, None)


async def test_a_lost_create_is_being_checked(house: World) -> None:
    planned = await house.submit()
    await house.store.write(lambda tx: deployments.record_unknown(tx, planned.create, detail="timed out"))
    view = await house.view()
    assert (view["phase"], view["starting"]["phase"]) == ("uncertain", "uncertain")


async def test_a_stop_drains_while_requests_are_open_and_then_stops(house: World) -> None:
    await house.serve()
    await house.lease(house.streams())
    await require_stop(house, StopReason.IDLE, drain=timedelta(minutes=10))
    assert (await house.view())["phase"] == "draining"
    await house.lease(house.streams(open=0))
    assert (await house.view())["phase"] == "stopping"


async def test_a_drain_is_over_at_its_limit(house: World) -> None:
    await house.serve()
    await require_stop(house, StopReason.IDLE, drain=timedelta(seconds=20))
    await house.lease(house.streams(bytes_seen=True))
    house.clock.advance(timedelta(seconds=20))
    assert (await house.view())["phase"] == "stopping"


async def test_a_wanted_model_that_is_stopping_says_so_and_an_unwanted_one_says_nothing(house: World) -> None:
    await house.serve()
    await require_stop(house, StopReason.IDLE)
    assert (await house.view())["refusal"] is None
    await house.gateway.start("qwen", gateway="g-1", waiting=1)
    refusal = (await house.view())["refusal"]
    assert (refusal["code"], refusal["final"]) == ("model_stopping", False)


async def test_a_hold_shows_though_nobody_asks(house: World) -> None:
    await block(house, "crash-loop", until=timedelta(minutes=10))
    view = await house.view()
    assert view["phase"] == "blocked"
    assert view["refusal"] == {
        "code": "model_blocked",
        "reason": "crash-loop",
        "final": True,
        "retry_after_seconds": 600.0,
    }


async def test_a_hold_of_another_config_is_over(tmp_path: Path) -> None:
    async with world(tmp_path, models=(model_policy(fingerprint="f2"),)) as house:
        await block(house, "crash-loop")
        view = await house.view()
        assert (view["phase"], view["refusal"]) == ("off", None)


async def test_no_funds_is_told_by_its_own_code_and_not_as_a_failed_start(house: World) -> None:
    await block(house, Code.NO_FUNDS.value)
    view = await house.view()
    assert (view["refusal"]["code"], view["failure"]) == ("no_funds", None)


async def test_the_reconcilers_refusal_is_shown_to_those_who_want_the_model(house: World) -> None:
    house.refusals["qwen"] = start.Refuse(
        code=Code.NO_CAPACITY, reason="none left", final=False, retry_at=house.clock.now() + timedelta(seconds=30)
    )
    assert (await house.view())["refusal"] is None
    view = await house.gateway.start("qwen", gateway="g-1", waiting=1)
    assert view["refusal"] == {
        "code": "no_capacity",
        "reason": "none left",
        "final": False,
        "retry_after_seconds": 30.0,
    }


async def test_no_refusal_ends_the_wait_for_what_is_coming(tmp_path: Path) -> None:
    async with world(tmp_path, models=(model_policy(slots=2),)) as house:
        await house.request()
        await block(house, "crash-loop")
        view = await house.view()
        assert (view["phase"], view["refusal"]) == ("starting", None)


async def test_a_stop_only_daemon_starts_nothing_and_says_so(tmp_path: Path) -> None:
    async with world(tmp_path, mode=STOP_ONLY) as house:
        refusal = (await house.view())["refusal"]
        assert (refusal["code"], refusal["final"]) == ("refused", True)


async def test_the_version_rises_with_what_a_gateway_acts_on_and_not_with_time(house: World) -> None:
    await house.store.write(lambda tx: holds.note_cold_start(tx, "qwen", took=timedelta(seconds=200)))
    versions = [await version(house)]
    await house.request()
    versions.append(await version(house))
    house.clock.advance(timedelta(seconds=30))
    versions.append(await version(house))
    assert versions == [1, 2, 2]


async def version(house: World) -> int:
    found: int = (await house.gateway.routes(after=None, wait=timedelta(0)))["version"]
    return found


@pytest.mark.parametrize("fails", [1, 2])
async def test_a_failure_carries_the_version_with_which_it_first_showed(house: World, fails: int) -> None:
    before = 0
    for _ in range(fails):
        before = await version(house)
        await block(house, "crash-loop")
    answer = await house.gateway.routes(after=None, wait=timedelta(0))
    assert answer["version"] == before + 1
    assert answer["models"]["qwen"]["failure"]["version"] == before + 1


async def test_a_failure_keeps_its_version_while_other_things_change(house: World) -> None:
    await block(house, "crash-loop")
    first = (await house.view())["failure"]["version"]
    await house.operator.post("/v1/models/qwen/unblock")
    assert (await version(house)) > first
    assert (await house.view())["failure"]["version"] == first


async def want(house: World) -> None:
    house.refusals["qwen"] = start.Refuse(code=Code.NO_CAPACITY, reason="none left", final=False)
    house.panel.wants.ask("qwen", now=house.clock.now())


async def hold(house: World) -> None:
    """No start failed: the provider refused them."""
    await block(house, "no_funds")
    await house.store.write(lambda tx: tx.put_memory(replace(tx.book.memory("qwen"), failure=None)))


async def fail(house: World) -> None:
    """Another start is allowed after it."""
    await block(house, "crash-loop")
    await house.store.write(lambda tx: tx.put_memory(replace(tx.book.memory("qwen"), hold_reason=None)))


async def begin(house: World) -> None:
    await house.request()


async def measure(house: World) -> None:
    await house.store.write(lambda tx: holds.note_cold_start(tx, "qwen", took=timedelta(seconds=200)))


@pytest.mark.parametrize("happens", [want, hold, fail, begin, measure])
async def test_the_view_of_a_model_at_rest_is_made_once_and_anew_with_whatever_shows_in_it(
    house: World, happens: Callable[[World], Awaitable[None]]
) -> None:
    resting = look(house.panel).models["qwen"]
    house.clock.advance(timedelta(seconds=30))
    assert look(house.panel).models["qwen"] is resting
    await happens(house)
    seen = look(house.panel).models["qwen"]
    assert seen == model_view(house.panel, house.panel.models["qwen"]) != resting


async def test_a_window_in_which_a_model_is_off_shows_in_the_view_of_one_at_rest(tmp_path: Path) -> None:
    async with world(tmp_path) as plain:
        minute = plain.clock.now().hour * 60 + plain.clock.now().minute
    window = Window(days=frozenset(range(DAYS)), begin_minute=minute + 2, end_minute=minute + 10)
    async with world(tmp_path, models=(model_policy(schedule=Schedule(off=(window,))),)) as house:
        assert look(house.panel).models["qwen"]["refusal"] is None
        house.clock.advance(timedelta(minutes=3))
        assert look(house.panel).models["qwen"]["refusal"]["code"] == "model_blocked"
