"""What does the daemon hear of the callers who left, were told, or are on their way back?"""

import anyio
import pytest

from tests.gateway.test_waiting import WAIT_0
from tests.gateway.world import World, asking, in_world


def starting(world: World, eta: float | None) -> None:
    told = {"deployment": "d1", "phase": "requested", "since": "", "eta_seconds": eta, "usd_so_far": "0.0123"}
    world.daemon.on_start = lambda alias: world.daemon.change(alias, phase="starting", starting=told)


def test_the_daemon_hears_that_the_last_one_left() -> None:
    async def scene(world: World) -> list[tuple[float, str, int, float]]:
        asked = [world.start(asking()) for _ in range(2)]
        await anyio.sleep(5)
        asked[0].close()
        await anyio.sleep(5)
        assert world.daemon.left == []
        asked[1].close()
        await anyio.sleep(0.1)
        return world.daemon.left

    assert [(round(at), *said) for at, *said in in_world(scene)] == [(10, "m1", 0, 0.0)]


@pytest.mark.parametrize(("eta", "returning"), [(142.0, 142.0), (20.0, 20.0), (None, 30.0), (1e9, 6 * 3600.0)])
def test_the_daemon_hears_for_how_long_who_was_told_may_be_on_the_way(eta: float | None, returning: float) -> None:
    async def scene(world: World) -> list[float]:
        starting(world, eta)
        await world.ask(asking(), headers=WAIT_0)
        await anyio.sleep(0.1)
        return [said[3] for said in world.daemon.left]

    assert [round(said) for said in in_world(scene)] == [returning]


def test_the_daemon_hears_of_who_was_told_while_others_wait_on() -> None:
    async def scene(world: World) -> list[float]:
        starting(world, 300.0)
        waits = world.start(asking())
        await anyio.sleep(5)
        await world.ask(asking(), headers=WAIT_0)
        await anyio.sleep(10)
        waits.close()
        await anyio.sleep(0.1)
        return [said[3] for said in world.daemon.left]

    assert [round(said) for said in in_world(scene)] == [290]


def test_who_found_the_queue_full_is_expected_back() -> None:
    async def scene(world: World) -> list[float]:
        await world.changed(queue=1)
        waits = world.start(asking())
        await anyio.sleep(1)
        assert (await world.ask(asking())).code == "queue_full"
        waits.close()
        await anyio.sleep(0.1)
        return [said[3] for said in world.daemon.left]

    assert [round(said) for said in in_world(scene)] == [30]


def test_of_those_who_were_served_nothing_is_said() -> None:
    async def scene(world: World) -> list[tuple[float, str, int, float]]:
        waits = world.start(asking())
        await anyio.sleep(5)
        await world.ready()
        await waits.begun()
        await anyio.sleep(1)
        return world.daemon.left

    assert in_world(scene) == []


def test_who_came_while_the_former_left_is_counted() -> None:
    async def scene(world: World) -> list[int]:
        former = world.start(asking())
        await anyio.sleep(5)
        former.close()
        latter = world.start(asking())
        await anyio.sleep(1)
        latter.close()
        await anyio.sleep(1)
        return [said[2] for said in world.daemon.left]

    assert in_world(scene) in ([1, 0], [0])
