"""Does a resource stay ours when the provider moves it to another machine?"""

from controller.core.lifecycle import Phase
from tests.scenarios.world import World, scenario


def test_a_moved_pod_is_followed_and_neither_stopped_nor_made_again() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        world.excepted.add("two-at-once")
        async with world.box() as box:
            assert (await box.chat(world)).status == 200
            (before,) = world.alive()
            world.emulator.change_pod(before["id"], {"migrate": True})
            await world.at(world.now_s + 240)
            (record,) = box.daemon.store.book.live()
            (after,) = world.alive()
            assert after["id"] != before["id"]
            assert record.phase is Phase.ACTIVE
            assert record.key is not None and record.key.incarnation == after["id"]
            assert (len(world.creates()), len(world.deletes())) == (1, 0)
            await world.until(lambda: not world.alive(), within=600)
            await world.until(lambda: not box.daemon.store.book.live(), within=60)

    scenario(play)


def test_a_clone_with_our_tags_is_told_and_stopped_while_the_recorded_one_serves_on() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        world.excepted.add("two-at-once")
        async with world.box() as box:
            assert (await box.chat(world)).status == 200
            (recorded,) = world.alive()
            clone = {"name": recorded["name"], "env": recorded["env"], "gpu": recorded["gpu"]}
            cloned = world.emulator.put_pod(clone)
            await world.until(lambda: len(world.alive()) == 1, within=400)
            assert [pod["id"] for pod in world.alive()] == [recorded["id"]]
            assert [call["pod"] for call in world.deletes()] == [cloned]
            assert any(line["detail"]["alarm"] == "duplicate-tags" for line in world.events("alarm.raised"))
            assert (await box.chat(world)).status == 200

    scenario(play)
