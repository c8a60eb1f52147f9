"""What the daemon is told of open requests, and that nothing of it leaks."""

from itertools import pairwise

import anyio
import pytest

from tests.gateway.stub_server import DONE, event
from tests.gateway.world import ENDPOINT, World, asking, in_world, now
from tests.support.fake_daemon import route


def test_the_lease_is_granted_before_the_first_byte_goes_upstream() -> None:
    async def scene(world: World) -> bool:
        await world.ready()
        seen: list[bool] = []
        serve = world.server.app

        async def spying(scope: object, receive: object, send: object) -> None:
            seen.append("d1" in world.daemon.listed)
            await serve(scope, receive, send)  # type: ignore[arg-type]  # passed through

        world.upstream.apps["one"] = spying
        await world.ask(asking())
        return seen == [True]

    assert in_world(scene)


def test_requests_on_a_held_lease_do_not_ask_the_daemon() -> None:
    async def scene(world: World) -> int:
        await world.ready()
        for _ in range(50):
            await world.ask(asking())
        return len(world.daemon.leases)

    assert in_world(scene) == 1


def test_a_lease_is_renewed_every_ten_seconds_while_a_request_is_open() -> None:
    async def scene(world: World) -> list[int]:
        await world.ready()
        world.server.gap_s = 12
        begun = now()
        await world.ask(asking(stream=True))
        return [round(at - begun) for at, listed in world.daemon.leases if listed["d1"]["open"] == 1]

    renewed = in_world(scene)
    assert renewed[0] == 0
    assert all(9 <= later - earlier <= 10 for earlier, later in pairwise(renewed))
    assert len(renewed) == 4


def test_a_lease_stays_listed_until_a_renewal_told_that_nothing_is_open() -> None:
    async def scene(world: World) -> list[dict[str, int]]:
        await world.ready()
        await world.ask(asking())
        await anyio.sleep(60)
        return [{name: lease["open"] for name, lease in listed.items()} for _, listed in world.daemon.leases]

    assert in_world(scene) == [{"d1": 1}, {"d1": 0}, {}]


def test_idle_time_counts_from_the_last_byte() -> None:
    async def scene(world: World) -> list[tuple[float, bool]]:
        await world.ready()
        world.server.silent = True
        with anyio.move_on_after(25):
            await world.ask(asking(stream=True))
        return [(round(listed["d1"]["idle_seconds"]), listed["d1"]["bytes_seen"]) for _, listed in world.daemon.leases]

    told = in_world(scene)
    assert [seen for _, seen in told] == [False, True, True]
    assert (told[0][0], told[2][0] - told[1][0]) == (0, 10)


def test_a_refused_deployment_gets_no_request_and_the_model_is_cold() -> None:
    async def scene(world: World) -> tuple[str, int, int]:
        world.daemon.refused = {"d1"}
        await world.ready()
        answer = await world.ask(asking(), headers=[(b"prefer", b"wait=0")])
        return answer.code, len(world.server.bodies), len(world.daemon.starts)

    assert in_world(scene) == ("model_starting", 0, 1)


def test_a_request_goes_to_another_deployment_when_one_is_refused() -> None:
    async def scene(world: World) -> int:
        world.daemon.refused = {"d1"}
        await world.changed(phase="ready", routes=[route("d1", "https://gone/v1/"), route("d2", ENDPOINT)])
        return (await world.ask(asking())).status

    assert in_world(scene) == 200


def test_the_deployment_with_the_fewest_open_requests_is_next() -> None:
    async def scene(world: World) -> list[int]:
        world.upstream.apps["two"] = world.server.app
        await world.changed(phase="ready", routes=[route("d1", ENDPOINT), route("d2", "https://two/v1/")])
        world.server.gap_s = 60
        async with anyio.create_task_group() as group:
            for number in range(4):
                other = {"messages": [{"role": "user", "content": f"{number}"}]}
                group.start_soon(world.ask, asking(stream=True) | other)
                await anyio.sleep(0.1)
            counts = [world.gateway.leases.open((name, 1)) for name in ("d1", "d2")]
            group.cancel_scope.cancel()
        return counts

    assert in_world(scene) == [2, 2]


def test_a_request_of_an_older_epoch_counts_for_that_epoch_alone() -> None:
    async def scene(world: World) -> tuple[int, int]:
        await world.ready(epoch=1)
        world.server.gap_s = 60
        async with anyio.create_task_group() as group:
            group.start_soon(world.ask, asking(stream=True))
            await anyio.sleep(1)
            await world.ready(epoch=2)
            group.start_soon(world.ask, asking(stream=True))
            await anyio.sleep(1)
            world.client.answers[0].close()
            await anyio.sleep(1)
            counts = world.gateway.leases.open(("d1", 1)), world.gateway.leases.open(("d1", 2))
            group.cancel_scope.cancel()
        return counts

    assert in_world(scene) == (0, 1)


def test_while_the_daemon_is_away_ready_models_are_served_and_it_is_told_on_return() -> None:
    async def scene(world: World) -> tuple[list[int], bool, bool]:
        await world.ready()
        world.daemon.go_down()
        await anyio.sleep(5)
        statuses = [(await world.ask(asking())).status]
        await anyio.sleep(600)
        statuses.append((await world.ask(asking())).status)
        world.server.gap_s = 60
        async with anyio.create_task_group() as group:
            group.start_soon(world.ask, asking(stream=True))
            await anyio.sleep(1)
            told_while_away = bool(world.daemon.leases)
            world.daemon.return_()
            await anyio.sleep(11)
            told = world.daemon.listed.get("d1", {}).get("open") == 1
            group.cancel_scope.cancel()
        return statuses, told_while_away, told

    assert in_world(scene) == ([200, 200], False, True)


def test_a_cold_model_is_a_503_soon_when_the_daemon_was_away_before_the_caller_came() -> None:
    async def scene(world: World) -> tuple[int, str, int]:
        world.daemon.go_down()
        await anyio.sleep(60)
        begun = now()
        answer = await world.ask(asking())
        return answer.status, answer.code, round(answer.at - begun)

    assert in_world(scene) == (503, "controller_down", 5)


def test_a_daemon_that_returns_within_the_grace_is_asked() -> None:
    async def scene(world: World) -> int:
        world.daemon.go_down()
        await anyio.sleep(60)
        async with anyio.create_task_group() as group:

            async def come_back() -> None:
                await anyio.sleep(3)
                world.daemon.return_()
                await anyio.sleep(10)
                await world.ready()

            group.start_soon(come_back)
            return (await world.ask(asking())).status
        raise AssertionError("unreachable")

    assert in_world(scene) == 200


def test_a_daemon_that_takes_requests_and_says_nothing_holds_up_one_request_alone() -> None:
    async def scene(world: World) -> list[float]:
        await world.changed(phase="ready", routes=[route("d1", ENDPOINT), route("d2", ENDPOINT)])
        world.daemon.hangs = True
        world.server.gap_s = 60
        took = []
        for _ in range(2):
            begun = now()
            answer = await world.open(asking(stream=True))  # the second finds the first at work and goes to d2
            took.append(now() - begun)
            assert answer.status == 200
        return took

    first, second = in_world(scene)
    assert first <= 10
    assert second < 0.1


def test_an_end_during_a_renewal_is_told_by_the_next_one() -> None:
    async def scene(world: World) -> list[dict[str, int]]:
        await world.ready()
        world.daemon.lease_answer_s = 1
        world.server.pieces, world.server.gap_s = [event("one"), event("two", "stop"), DONE], 3.5
        await world.ask(asking(stream=True))
        await anyio.sleep(60)
        return [{name: lease["open"] for name, lease in listed.items()} for _, listed in world.daemon.leases]

    assert in_world(scene) == [{"d1": 1}, {"d1": 1}, {"d1": 0}, {}]


@pytest.mark.parametrize(("refused", "status", "served"), [(False, 200, 2), (True, 503, 1)])
def test_a_request_that_comes_while_its_lease_is_given_back_waits_until_the_daemon_heard_of_it(
    refused: bool, status: int, served: int
) -> None:
    async def scene(world: World) -> tuple[list[tuple[int, int]], int, int]:
        told: list[tuple[int, int]] = []
        await world.ready()
        await world.ask(asking())
        world.daemon.lease_answer_s = 2
        await anyio.sleep(10.5)  # the renewal that says so is on its way
        if refused:
            world.daemon.refuse_open = {"d1"}
        async with anyio.create_task_group() as group:
            results: list[int] = []

            async def ask() -> None:
                results.append((await world.ask(asking(), headers=[(b"prefer", b"wait=0")])).status)

            group.start_soon(ask)
            for _ in range(2):
                await anyio.sleep(1.5)
                told.append((world.daemon.listed["d1"]["open"], len(world.server.bodies)))
        return told, results[0], len(world.server.bodies)

    assert in_world(scene) == ([(0, 1), (1, 1)], status, served)
