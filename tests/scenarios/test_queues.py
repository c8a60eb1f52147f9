"""What becomes of a pod that the provider queued instead of making it?

Nothing of ours is ever queued on purpose, and what waits there becomes a pod that bills without a further call.
"""

from typing import Any

import pytest

from tests.scenarios.world import World, scenario

CREATE = {"method": "POST", "path": "/v2/pods"}


def queue_it(world: World, **changes: Any) -> str:
    """As if the create whose answer was lost had been queued."""
    request = world.events("create.submitted")[0]["request"]
    return world.emulator.put_queued({"name": f"gpuwarden-m1-{request}"} | changes)


@pytest.mark.parametrize("after", [5, 400])
def test_what_came_of_a_lost_create_and_waits_is_cancelled_before_it_bills(after: float) -> None:
    """Found while its create is unresolved, or long after it was proven to have made nothing."""

    async def play(world: World) -> None:
        world.configure("m1")
        world.emulator.add_faults([{"match": CREATE, "times": 1, "do": {"answer": 500}}])
        async with world.box() as box:
            world.soon(box.chat(world, prefer="wait=0"))
            await world.at(after)
            queued = queue_it(world, deploys_in_seconds=900)
            await world.at(after + 400)
            assert world.emulator.queued[queued].state == "CANCELLED"
            assert box.daemon.store.book.owed() == ()
        assert world.pods() == []
        assert world.events("obligation.discharged") != []

    scenario(play)


def test_what_left_the_queue_meanwhile_is_found_as_a_pod_and_stopped_or_used() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        world.emulator.add_faults([{"match": CREATE, "times": 1, "do": {"answer": 500}}])
        async with world.box() as box:
            world.soon(box.chat(world, prefer="wait=0"))
            await world.at(5)
            request = world.events("create.submitted")[0]["request"]
            queue_it(world, env=world.ours(box.daemon, request=request), deploys_in_seconds=0.5)
            await world.at(900)
            assert box.daemon.store.book.owed() == ()
        assert world.alive() == []

    scenario(play)


def test_what_others_queued_is_left_alone_whatever_it_is_called() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        names = ("jupyter", "gpuwarden-m1-by-hand", "gpuwarden-m1-r0123456789abcdef")
        queued = [world.emulator.put_queued({"name": name}) for name in names]
        async with world.daemon():
            await world.at(1800)
        assert [world.emulator.queued[name].state for name in queued] == ["QUEUED"] * 3
        assert world.deletes() == []

    scenario(play)
