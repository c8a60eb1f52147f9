"""Is a deployment that the daemon doubts asked for one token, and is the asking no use of it?"""

import anyio
import pytest

from tests.gateway.world import ENDPOINT, World, asking, in_world, together
from tests.support.fake_daemon import route

HTML = [(b"content-type", b"text/html")]


def doubt(world: World, *, doubted: bool = True) -> None:
    world.daemon.change("m1", phase="ready", routes=[route("d1", ENDPOINT, doubted=doubted)], starting=None)


def test_a_doubted_deployment_that_writes_is_told_as_proved() -> None:
    async def scene(world: World) -> tuple[int, list[str]]:
        doubt(world)
        await anyio.sleep(1)
        return world.server.proofs, world.daemon.kinds()

    assert in_world(scene) == (1, ["proved"])


def test_one_that_takes_the_request_and_says_nothing_for_a_minute_is_told_to_give_no_token() -> None:
    async def scene(world: World) -> tuple[list[str], list[str]]:
        world.server.think_s = 10_000
        doubt(world)
        await anyio.sleep(59)
        before = world.daemon.kinds()
        await anyio.sleep(2)
        return before, world.daemon.kinds()

    assert in_world(scene) == ([], ["no-token"])


@pytest.mark.parametrize(("status", "kinds"), [(524, ["no-token"]), (502, []), (503, []), (403, [])])
def test_only_a_machine_that_was_reached_and_kept_silent_gave_no_token(status: int, kinds: list[str]) -> None:
    async def scene(world: World) -> list[str]:
        world.server.status, world.server.complaint = status, (HTML, b"error code: 1010")
        doubt(world)
        await anyio.sleep(20)
        return world.daemon.kinds()

    assert in_world(scene) == kinds


def test_the_question_is_no_use_and_is_asked_again_only_while_the_doubt_lasts() -> None:
    async def scene(world: World) -> tuple[int, int, int]:
        doubt(world)
        await anyio.sleep(75)
        asked = world.server.proofs
        doubt(world, doubted=False)
        await anyio.sleep(300)
        return asked, world.server.proofs, len(world.daemon.leases)

    assert in_world(scene) == (3, 3, 0)


def test_callers_are_served_meanwhile() -> None:
    async def scene(world: World) -> list[int]:
        doubt(world)
        answers = await together(*[lambda: world.ask(asking())] * 3)
        return [answer.status for answer in answers]

    assert in_world(scene) == [200] * 3
