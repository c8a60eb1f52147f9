"""How a gateway asks for a model and follows the routes."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

from controller.api.client import Problem
from controller.core import start
from controller.core.errors import Code
from controller.core.evidence import StopReason
from controller.store import holds, owing
from tests.api.world import World, world
from tests.core.samples import model_policy
from tests.support.stores import unwritable
from tests.support.virtual_time import run_virtual


async def test_a_start_is_remembered_and_wakes_the_tasks(house: World) -> None:
    view = await house.gateway.start("qwen", gateway="g-1", waiting=3)
    assert view["alias"] == "qwen"
    assert house.panel.wants.wanted("qwen", now=house.clock.now())
    assert house.rung == 1


async def test_a_start_of_what_is_coming_in_every_slot_wakes_nobody(tmp_path: Path) -> None:
    async with world(tmp_path, models=(model_policy(slots=2),)) as house:
        rung = []
        for slot in range(2):
            await house.request(f"qwen-{slot}", incarnation=f"p{slot}", slot=slot)
            view = await house.gateway.start("qwen", gateway="g-1", waiting=3)
            assert view["phase"] == "starting"
            rung.append(house.rung)
        assert rung == [1, 1]
        await owing.oblige(house.store, house.record(), StopReason.STARTUP_DEADLINE)
        await house.gateway.start("qwen", gateway="g-1", waiting=3)
        assert house.rung == 2


async def test_that_the_last_one_left_is_no_wish_and_wakes_who_gives_starts_up(house: World) -> None:
    await house.gateway.start("qwen", gateway="g-1", waiting=1)
    house.panel.wants.satisfied("qwen")
    assert house.panel.waits.awaited("qwen", now=house.panel.now)
    await house.gateway.start("qwen", gateway="g-1", waiting=0, left=True)
    assert not house.panel.waits.awaited("qwen", now=house.panel.now)
    assert not house.panel.wants.wanted("qwen", now=house.clock.now())
    assert house.rung == 2


async def test_who_was_told_to_come_back_is_stored_where_a_start_may_be_given_up(tmp_path: Path) -> None:
    patient = model_policy(abandon_after=timedelta(minutes=10))
    for model, kept in ((patient, 60), (model_policy(), None)):
        folder = tmp_path / str(kept)
        folder.mkdir()
        async with world(folder, models=(model,)) as house:
            now, told = house.panel.now, timedelta(seconds=60)
            await house.gateway.start("qwen", gateway="g-1", waiting=0, returning=told, left=True)
            memory = house.store.book.memory("qwen")
            assert memory.expected_until == (None if kept is None else now + told)


async def test_who_is_expected_a_little_later_is_not_written_again(tmp_path: Path) -> None:
    async with world(tmp_path, models=(model_policy(abandon_after=timedelta(minutes=10)),)) as house:
        stored = []
        for seconds in (60, 89, 90):
            await house.gateway.start("qwen", gateway="g-1", waiting=1, returning=timedelta(seconds=seconds))
            until = house.store.book.memory("qwen").expected_until
            assert until is not None
            stored.append((until - house.panel.now).total_seconds())
    assert stored == [60, 60, 90]


async def test_what_an_operator_starts_is_theirs_for_the_longest_start(tmp_path: Path) -> None:
    async with world(tmp_path, models=(model_policy(abandon_after=timedelta(minutes=10)),)) as house:
        await house.operator.post("/v1/models/qwen/start")
        assert house.store.book.memory("qwen").expected_until == house.panel.now + timedelta(hours=6)
        assert house.panel.wants.wanted("qwen", now=house.clock.now())


async def test_a_store_that_takes_no_writes_does_not_turn_callers_away(tmp_path: Path) -> None:
    async with world(tmp_path, models=(model_policy(abandon_after=timedelta(minutes=10)),)) as house:
        with unwritable(tmp_path):
            await house.gateway.start("qwen", gateway="g-1", waiting=1, returning=timedelta(seconds=60))
        assert house.store.book.memory("qwen").expected_until is None
        assert house.panel.waits.expected_until("qwen") == house.panel.now + timedelta(seconds=60)


async def test_a_model_that_is_not_there_is_unknown_and_wanted_by_nobody(house: World) -> None:
    with pytest.raises(Problem) as caught:
        await house.gateway.start("llama", gateway="g-1", waiting=1)
    assert (caught.value.status, caught.value.code) == (404, "unknown_model")
    assert not house.panel.wants.all(now=house.clock.now())


async def test_routes_without_a_version_are_answered_at_once(house: World) -> None:
    answer = await house.gateway.routes(after=None, wait=timedelta(seconds=60))
    assert (answer["version"], answer["controller"], answer["stream_lease_seconds"]) == (1, "c-1", 30.0)
    assert list(answer["models"]) == ["qwen"]


async def test_routes_of_a_former_run_are_answered_at_once(house: World) -> None:
    with anyio.fail_after(2):
        answer = await house.gateway.routes(after=17, wait=timedelta(seconds=60))
    assert answer["version"] == 1


async def test_who_follows_the_routes_is_answered_by_the_change(house: World) -> None:
    answers = []

    async def follow() -> None:
        answers.append(await house.gateway.routes(after=1, wait=timedelta(seconds=60)))

    await house.gateway.routes(after=None, wait=timedelta(0))
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(follow)
            await anyio.wait_all_tasks_blocked()
            assert not answers
            await house.request()
    assert (answers[0]["version"], answers[0]["models"]["qwen"]["phase"]) == (2, "starting")


async def test_a_change_that_no_gateway_acts_on_answers_nobody(house: World) -> None:
    await house.gateway.routes(after=None, wait=timedelta(0))
    answered = anyio.Event()

    async def follow() -> None:
        await house.gateway.routes(after=1, wait=timedelta(seconds=60))
        answered.set()

    async with anyio.create_task_group() as group:
        group.start_soon(follow)
        await anyio.wait_all_tasks_blocked()
        await house.store.write(lambda tx: holds.note_cold_start(tx, "qwen", took=timedelta(seconds=5)))
        await anyio.wait_all_tasks_blocked()
        assert not answered.is_set()
        group.cancel_scope.cancel()


async def test_the_end_of_the_daemon_answers_who_waits(house: World) -> None:
    await house.gateway.routes(after=None, wait=timedelta(0))
    with anyio.fail_after(2):
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: house.gateway.routes(after=1, wait=timedelta(seconds=60)))
            group.start_soon(lambda: house.operator.get("/v1/evidence?after=99&wait=60"))
            await anyio.wait_all_tasks_blocked()
            house.closing.set()


def test_routes_are_answered_when_the_wait_is_over_and_after_five_minutes_at_most(tmp_path: Path) -> None:
    async def follow() -> list[float]:
        async with world(tmp_path) as house:
            await house.gateway.routes(after=None, wait=timedelta(0))
            began, took = anyio.current_time(), []
            for wait in (25, 3600):
                await house.gateway.routes(after=1, wait=timedelta(seconds=wait))
                took.append(round(anyio.current_time() - began, 3))
            return took

    assert run_virtual(follow) == [25.0, 325.0]


def test_a_refusal_that_comes_after_the_ask_reaches_who_follows_the_routes(tmp_path: Path) -> None:
    """The reconciler commits nothing when it refuses: it rings."""

    told: list[tuple[float, Any]] = []

    async def follow() -> None:
        async with world(tmp_path) as house, anyio.create_task_group() as group:
            await house.gateway.start("qwen", gateway="g-1", waiting=1)
            seen = await house.gateway.routes(after=None, wait=timedelta(0))
            refusal = start.Refuse(code=Code.BUDGET_EXHAUSTED, reason="over", final=True)
            began = anyio.current_time()
            group.start_soon(later, 7, lambda: house.refuse("qwen", refusal))
            answer = await house.gateway.routes(after=seen["version"], wait=timedelta(seconds=25))
            told.append((round(anyio.current_time() - began, 3), answer["models"]["qwen"]["refusal"]["code"]))

    run_virtual(follow)
    assert told == [(7.0, "budget_exhausted")]


async def later(seconds: float, act: Callable[[], None]) -> None:
    await anyio.sleep(seconds)
    act()


@pytest.mark.parametrize(
    ("path", "field"),
    [("/v1/routes?after=x", "after"), ("/v1/routes?after=-1", "after"), ("/v1/routes?after=1&wait=inf", "wait")],
)
async def test_a_wrong_query_is_named(house: World, path: str, field: str) -> None:
    with pytest.raises(Problem) as caught:
        await house.gateway.get(path)
    assert (caught.value.status, caught.value.detail.partition(":")[0]) == (400, field)


async def test_the_gateways_socket_answers_nothing_of_the_operators(house: World) -> None:
    for path in ("/v1/status", "/v1/evidence", "/v1/obligations", "/metrics"):
        with pytest.raises(Problem) as caught:
            await house.gateway.get(path)
        assert (caught.value.status, caught.value.code) == (404, "not_found")
    with pytest.raises(Problem):
        await house.gateway.post("/v1/stop")


async def test_a_call_that_no_gateway_makes_is_refused_in_words(house: World) -> None:
    for call, path, status in ((house.gateway.post, "/v1/routes", 405), (house.gateway.get, "/v1/nothing", 404)):
        with pytest.raises(Problem) as caught:
            await call(path)
        assert (caught.value.status, bool(caught.value.code)) == (status, True)
