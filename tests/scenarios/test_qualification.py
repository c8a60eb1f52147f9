"""Does a qualification run find out what it asks, whatever the provider does, and leave nothing alive?"""

import json
import shutil
from decimal import Decimal
from typing import Any

import anyio
import pytest

from controller.cli.doctor.live import Wish, live
from controller.cli.doctor.trial import ALIAS
from controller.cli.exits import Exit, Failure
from controller.daemon.built import Seams
from controller.ids import SeededRandomness
from tests.scenarios.world import A40, L40S, World, _at_once, scenario
from tests.support.stores import template
from tests.support.threadless_sqlite import threadless

LIMIT = Decimal(2)


async def qualify(
    world: World, *, limit: Decimal = LIMIT, model: str | None = None, interrupted: anyio.Event | None = None
) -> Exit:
    """One run of the command, on the store and the account of this world."""
    world.runs += 1
    store = world.state / "gpuwarden.db"
    if not store.exists():
        store.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        store.write_bytes(template())
        store.chmod(0o600)
    seams = Seams(
        clock=world.clock,
        randomness=SeededRandomness(world.runs),
        transport=world.transport,
        creator=threadless(store),
        blocking=_at_once,
    )
    wish = Wish(limit=limit, model=model)
    stop = interrupted or anyio.Event()
    return await live(world.folder / "config.toml", wish, seams=seams, environment={}, interrupted=stop)


def said(world: World) -> dict[str, str]:
    return {line["detail"]["question"]: line["detail"]["said"] for line in world.events("qualification.finding")}


ALL_WELL = {"OU-2": "yes", "OU-3": "yes", "OU-4": "yes", "OU-5": "no", "OU-6": "yes", "OU-7": "open"}


@pytest.mark.parametrize(
    ("settings", "differs"),
    [
        ({}, {}),
        ({"echo_env": "none"}, {"OU-2": "no"}),
        ({"echo_env": "resolved"}, {}),
        ({"substitute_secrets": False}, {"OU-3": "no", "OU-5": "open"}),
        ({"started_at_moves": True}, {"OU-5": "yes"}),
        ({"price_jump": 0.5}, {"OU-6": "no"}),
        ({"delete_stops_billing": False}, {"OU-4": "no"}),
        ({"provisioning": False, "stop_lag_seconds": 90, "list_lag_seconds": 60, "get_lag_seconds": 30}, {}),
    ],
)
def test_each_question_is_answered_either_way_and_nothing_is_left(
    settings: dict[str, Any], differs: dict[str, str]
) -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        assert await qualify(world) is Exit.OK
        assert said(world) == ALL_WELL | differs
        assert (len(world.pods()), world.alive()) == (1, [])
        (pod,) = world.pods()
        assert pod["gpu"]["id"] == A40
        (stored,) = world.events("obligation.discharged")
        assert stored["model"] == ALIAS

    scenario(play, **settings)


@pytest.mark.parametrize(("together", "answer"), [(True, "yes"), (False, "no")])
def test_two_cards_are_counted_where_a_model_asks_for_two(together: bool, answer: str) -> None:
    async def play(world: World) -> None:
        world.configure("m1", extra="gpu_count = 2")
        assert await qualify(world) is Exit.OK
        assert said(world)["OU-7"] == answer
        assert world.alive() == []

    scenario(play, cards_together=together)


def test_the_secrets_value_is_told_as_shown_and_is_nowhere_itself(capfd: pytest.CaptureFixture[str]) -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        await qualify(world)
        (line,) = [each for each in world.events("qualification.finding") if each["detail"]["question"] == "OU-2"]
        assert "its value is shown, which must not be logged" in line["detail"]["text"]

    scenario(play, echo_env="resolved")
    out, err = capfd.readouterr()
    assert "OU-2" in out
    assert "open-sesame" not in out + err


async def refused(world: World, **changes: Any) -> Failure:
    with pytest.raises(Failure) as caught:
        await qualify(world, **changes)
    return caught.value


def test_a_limit_that_does_not_pay_for_a_run_rents_nothing() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        failure = await refused(world, limit=Decimal("0.12"))
        assert (failure.code, "at least $0.12" in failure.words or "at least $0.13" in failure.words) == (6, True)
        assert world.pods() == []
        assert await qualify(world, limit=Decimal("0.13")) is Exit.OK

    scenario(play)


def test_a_run_needs_no_more_of_the_days_money_than_its_own_limit() -> None:
    async def play(world: World) -> None:
        world.configure("m1", usd_per_day=2)
        assert await qualify(world) is Exit.OK

    scenario(play)


def test_a_daemon_on_the_store_is_not_disturbed() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.daemon():
            failure = await refused(world)
        assert (failure.code, "in use: end the daemon first" in failure.words) == (6, True)
        assert world.pods() == []

    scenario(play)


def test_while_other_machines_are_owed_nothing_is_rented_and_none_is_touched() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            await box.operators.post("/v1/models/m1/start")
            await world.until(lambda: bool(world.alive()), within=60)
            await anyio.sleep(60)
        failure = await refused(world)
        assert (failure.code, "owes 1 stops of other machines" in failure.words) == (6, True)
        world.configure("m2")
        assert (await refused(world)).code == 6
        async with world.box() as box:  # nor was that config taken by it
            assert box.daemon.mode.name == "former-config"
        assert (len(world.alive()), world.deletes()) == (1, [])

    scenario(play)


def test_a_fault_that_reading_finds_rents_nothing() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        world.emulator.change_settings({"secrets": {}})
        failure = await refused(world)
        assert (failure.code, "finds fault with secrets" in failure.words) == (6, True)
        assert world.creates() == []

    scenario(play)


def test_an_unknown_model_and_no_stock_rent_nothing() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        assert (await refused(world, model="m9")).code is Exit.NOT_FOUND
        world.emulator.change_settings({"stock": {A40: "NONE", L40S: "NONE"}})
        assert (await refused(world)).code is Exit.PROVIDER
        assert world.creates() == []

    scenario(play)


def test_a_create_that_is_refused_again_and_again_ends_with_nothing_owed() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        world.emulator.add_faults([{"match": {"method": "POST", "path": "/v2/pods"}, "do": {"answer": 400}}])
        failure = await refused(world)
        assert failure.code is Exit.PROVIDER
        assert world.pods() == []

    scenario(play)


def test_a_key_that_might_not_act_is_tried_again() -> None:
    """Whether it may is what a run finds out: what the last one met must not keep the next from it."""

    async def play(world: World) -> None:
        world.configure("m1")
        order = world.emulator.add_faults([{"match": {"method": "POST", "path": "/v2/pods"}, "do": {"answer": 403}}])
        assert (await refused(world)).code is Exit.PROVIDER
        world.emulator.remove_faults(order)
        assert await qualify(world) is Exit.OK

    scenario(play)


@pytest.mark.parametrize("effect", [True, False])
def test_a_create_whose_answer_is_lost_is_settled_before_the_run_ends(effect: bool) -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        match = {"method": "POST", "path": "/v2/pods"}
        world.emulator.add_faults([{"match": match, "times": 1, "do": {"answer": 500, "effect": effect}}])
        await qualify(world)
        assert (len(world.creates()), world.alive()) == (1, [])
        assert len(world.pods()) == effect

    scenario(play)


def test_a_machine_that_never_serves_is_stopped_within_its_life() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        assert await qualify(world, limit=Decimal("0.2")) is Exit.OK
        assert world.alive() == []
        (pod,) = world.pods()
        assert pod["billed_usd"] <= 0.2
        assert said(world)["OU-3"] == "open"

    scenario(play, ready_seconds=100_000)


def test_stops_that_are_refused_for_a_while_are_sent_until_one_is_taken() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        match = {"method": "DELETE", "path": "/v2/pods/*"}
        world.emulator.add_faults([{"match": match, "times": 5, "do": {"answer": 500}}])
        assert await qualify(world) is Exit.OK
        assert (world.alive(), len(world.deletes()) > 5) == ([], True)

    scenario(play)


def test_stops_that_are_refused_for_ever_leave_a_duty_that_the_daemon_keeps() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        order = world.emulator.add_faults([{"match": {"method": "DELETE", "path": "*"}, "do": {"answer": 500}}])
        failure = await refused(world)
        assert (failure.code, "not proven gone, and owed" in failure.words) == (1, True)
        world.emulator.remove_faults(order)
        async with world.daemon():
            await world.until(lambda: not world.alive(), within=120)
            await world.until(lambda: bool(world.events("obligation.discharged")), within=300)

    scenario(play)


def test_an_interruption_asks_no_more_and_waits_for_the_proof() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        interrupted = anyio.Event()
        codes: list[Exit] = []

        async def run() -> None:
            codes.append(await qualify(world, interrupted=interrupted))

        async with anyio.create_task_group() as group:
            group.start_soon(run)
            await world.until(lambda: bool(world.alive()), within=120)
            interrupted.set()
        assert (codes, world.alive(), said(world)) == ([Exit.INTERRUPTED], [], {})
        assert len(world.events("obligation.discharged")) == 1

    scenario(play)


def test_an_interruption_before_anything_is_rented_rents_nothing() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        interrupted = anyio.Event()
        interrupted.set()
        assert (await refused(world, interrupted=interrupted)).code is Exit.INTERRUPTED
        assert world.creates() == []

    scenario(play)


def test_an_alias_that_is_the_runs_own_is_no_models() -> None:
    async def play(world: World) -> None:
        world.configure("m1", ALIAS)
        assert (await refused(world)).code is Exit.REFUSED

    scenario(play)


def test_the_cheapest_of_all_is_rented_unless_a_model_is_named() -> None:
    async def play(world: World) -> None:
        world.configure("m1", "m2")
        config = world.folder / "config.toml"
        before, _, after = config.read_text().rpartition(f'gpus = ["{L40S}", "{A40}"]')
        config.write_text(f'{before}gpus = ["{L40S}"]{after}')
        world.emulator.change_settings({"stock": {A40: "LOW"}})
        await qualify(world)
        await qualify(world, model="m2")
        assert [pod["gpu"]["id"] for pod in world.pods()] == [A40, L40S]
        assert all(pod["env"]["VLLM_API_KEY"] == "{{ RUNPOD_SECRET_vllm_m1 }}" for pod in world.pods()[:1])

    scenario(play)


@pytest.mark.parametrize("seconds", [0.5, 2.5, 4.5, 5, 40, 58, 61, 75, 100, 200, 400])
@pytest.mark.parametrize("again", ["doctor", "daemon"])
def test_killed_at_any_moment_and_run_again_nothing_is_left(seconds: float, again: str) -> None:
    """The disk is left as it was at that moment, and the provider as it is."""

    async def play(world: World) -> None:
        world.configure("m1")
        kept = world.folder / "as-it-was"

        async def run() -> None:
            await qualify(world)

        async with anyio.create_task_group() as group:
            group.start_soon(run)
            await world.at(seconds)
            if world.state.exists():
                shutil.copytree(world.state, kept)
            world.transport.refusing = True  # nothing of what the dead process does reaches anybody
            group.cancel_scope.cancel()
        world.transport.refusing = False
        shutil.rmtree(world.state)
        kept.rename(world.state)
        before = len(world.pods())
        if again == "doctor":
            assert await qualify(world) is Exit.OK
            assert said(world)["OU-4"] == "yes"
            assert len(world.pods()) == before + 1
        else:
            async with world.daemon() as daemon:
                await anyio.sleep(700)
                assert daemon.store.book.obligations == {} or not any(
                    duty.open for duty in daemon.store.book.obligations.values()
                )
        assert world.alive() == []

    scenario(play)


@pytest.mark.parametrize("again", ["doctor", "daemon"])
def test_killed_while_the_create_is_on_its_way_and_run_again_nothing_is_left(again: str) -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        match = {"method": "POST", "path": "/v2/pods"}
        world.emulator.add_faults([{"match": match, "times": 1, "do": {"delay": 20}}])
        kept = world.folder / "as-it-was"

        async def run() -> None:
            await qualify(world)

        async with anyio.create_task_group() as group:
            group.start_soon(run)
            await world.until(lambda: bool(world.creates()), within=60)
            shutil.copytree(world.state, kept)
            world.transport.refusing = True
            group.cancel_scope.cancel()
        world.transport.refusing = False
        shutil.rmtree(world.state)
        kept.rename(world.state)
        await anyio.sleep(30)
        assert len(world.alive()) == 1, "it came to be after its caller was dead"
        if again == "doctor":
            assert await qualify(world) is Exit.OK
        else:
            async with world.daemon():
                await world.until(lambda: not world.alive(), within=300)
        assert world.alive() == []

    scenario(play)


def test_the_answers_are_told_as_data_too(capfd: pytest.CaptureFixture[str]) -> None:
    shown: list[dict[str, Any]] = []

    async def play(world: World) -> None:
        world.configure("m1")
        await qualify(world)
        store = world.state / "gpuwarden.db"
        seams = Seams(
            clock=world.clock,
            randomness=SeededRandomness(9),
            transport=world.transport,
            creator=threadless(store),
            blocking=_at_once,
        )
        capfd.readouterr()
        wish = Wish(limit=LIMIT, as_json=True)
        config = world.folder / "config.toml"
        assert await live(config, wish, seams=seams, environment={}, interrupted=anyio.Event()) is Exit.OK
        shown.append(json.loads(capfd.readouterr().out))

    scenario(play)
    assert (shown[0]["schema"], shown[0]["unproven"], shown[0]["rented"]["offer"]) == (1, [], A40)
    assert {answer["question"]: answer["said"] for answer in shown[0]["answers"]} == ALL_WELL
