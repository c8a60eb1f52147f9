"""Does one failure take anything else along?

Case B18: every item has its turn, every task its next pass; what fails for ever ends the daemon, what is silent is
told.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import anyio
import httpx
import pytest

from controller.api.client import Problem
from controller.supervision import GaveUp
from tests.scenarios.world import Box, World, sabotage, scenario

DELETE: Final = {"method": "DELETE", "path": "/v2/pods/*"}


async def two_idle_pods(world: World, box: Box) -> list[dict[str, Any]]:
    asked = [world.soon(box.chat(world, alias)) for alias in ("m1", "m2")]
    await world.until(lambda: all(pending.done for pending in asked), within=100)
    return sorted(world.alive(), key=lambda pod: str(pod["name"]))


def break_transport(world: World, pod: str, error: Callable[[], BaseException]) -> None:
    """Every DELETE of one pod raises inside the HTTP client."""
    real = world.transport.handle_async_request

    async def breaking(request: httpx.Request) -> httpx.Response:
        if request.method == "DELETE" and request.url.path.endswith(pod):
            raise error()
        return await real(request)

    world.transport.handle_async_request = breaking  # type: ignore[method-assign]


def spoil(deed: dict[str, Any]) -> Callable[[World, str], None]:
    def arrange(world: World, pod: str) -> None:
        world.emulator.add_faults([{"match": {**DELETE, "pod": pod}, "do": deed}])

    return arrange


def raising(error: Callable[[], BaseException]) -> Callable[[World, str], None]:
    return lambda world, pod: break_transport(world, pod, error)


@pytest.mark.parametrize(
    "arrange",
    [
        spoil({"answer": 200, "body": "\udcff{"}),
        spoil({"malformed": "huge", "effect": False}),
        spoil({"drop": "before"}),
        spoil({"hang": 1000.0}),
        raising(lambda: httpx.ReadError("broken")),
        raising(asyncio.CancelledError),
        raising(lambda: RuntimeError("from inside the client")),
        raising(lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "from a parser")),
    ],
    ids=["garbage", "huge", "cut", "hanging", "ReadError", "CancelledError", "RuntimeError", "UnicodeDecodeError"],
)
def test_stop_of_one_pod_that_fails_in_any_way_holds_up_no_other(arrange: Callable[[World, str], None]) -> None:
    async def play(world: World) -> None:
        world.configure("m1", "m2")
        async with world.box() as box:
            first, _ = await two_idle_pods(world, box)
            arrange(world, first["id"])
            await world.until(lambda: len(world.alive()) == 1, within=310)
            assert world.alive()[0]["id"] == first["id"]
            assert world.now_s <= 365
            await world.at(520)
            now = world.clock.now()
            assert not [pulse.name for pulse in box.daemon.pulses if pulse.silent(now)]
            assert [pulse.failures for pulse in box.daemon.pulses] == [0] * len(box.daemon.pulses)
            (duty,) = box.daemon.store.book.owed()
            assert duty.key is not None and duty.key.incarnation == first["id"]
            assert duty.stop_attempts >= 3

    scenario(play)


TASKS: Final = [
    "observer",
    "account_guard",
    "lookout",
    "reconciler",
    "prefetcher",
    "idle_reaper",
    "abandonment_watcher",
    "crash_loop_detector",
    "orphan_sweeper",
    "obligation_settler",
    "clock_keeper",
    "lease_keeper",
    "ledger_keeper",
    "restore_matcher",
    "billing_watcher",
    "log_watcher",
    "hang_detector",
    "evidence_writer",
]


@pytest.mark.parametrize("error", [lambda: RuntimeError("planted"), asyncio.CancelledError], ids=["error", "cancelled"])
@pytest.mark.parametrize("name", TASKS)
def test_task_that_fails_a_few_times_goes_on_and_the_idle_pod_is_stopped_on_time(
    name: str, error: Callable[[], BaseException]
) -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            assert {pulse.name for pulse in box.daemon.pulses} == set(TASKS)
            got = await box.chat(world)
            await world.at(340)
            sabotage(box.daemon, name, times=3, error=error)
            await world.until(lambda: not world.alive(), within=60)
            assert world.now_s <= got.at + 320
            await world.until(lambda: not box.daemon.store.book.owed(), within=60)
            await anyio.sleep(20)
            assert [pulse.failures for pulse in box.daemon.pulses] == [0] * len(TASKS)

    scenario(play)


def leaves(problem: BaseException) -> list[BaseException]:
    if isinstance(problem, BaseExceptionGroup):
        return [leaf for inner in problem.exceptions for leaf in leaves(inner)]
    return [problem]


@pytest.mark.parametrize("name", [task for task in TASKS if task != "evidence_writer"])
def test_task_that_fails_for_ever_ends_the_daemon(name: str) -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        with pytest.raises(BaseExceptionGroup) as ended:
            async with world.daemon() as daemon:
                await world.at(10)
                sabotage(daemon, name, times=10**6, error=lambda: RuntimeError("planted"))
                await world.at(3600)
        assert GaveUp in {type(problem) for problem in leaves(ended.value)}
        assert world.now_s < 1300

    scenario(play)


def test_evidence_writer_that_fails_for_ever_ends_the_daemon_and_gives_the_store_back() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        with pytest.raises(RuntimeError, match="planted"):  # from the last attempt, while the daemon is closed
            async with world.daemon() as daemon:
                sabotage(daemon, "evidence_writer", times=10**6, error=lambda: RuntimeError("planted"))
                await world.at(3600)
        assert world.now_s < 1300
        async with world.daemon():
            await anyio.sleep(30)

    scenario(play)


@pytest.mark.parametrize("name", ["idle_reaper", "obligation_settler", "reconciler", "orphan_sweeper"])
def test_task_that_hangs_shows_in_readiness_and_is_named(name: str) -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            await world.at(10)
            assert (await box.operators.get("/readyz"))["ready"] is True
            (runner,) = [runner for runner in box.daemon.runners if runner.task.name == name]
            runner.task.run_pass = anyio.sleep_forever  # type: ignore[method-assign]
            await world.at(500)  # at rest, a pass may begin five minutes later, and has three to end
            try:
                await box.operators.get("/readyz")
            except Problem as problem:
                assert problem.status == 503
                assert name in str(problem)
            else:
                raise AssertionError("a silent task is not told")

    scenario(play)
