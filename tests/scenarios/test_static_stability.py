"""Is it noticed by clients that the daemon is away, where it does not have to be?

What was ready is served on, streams go on, and what is cold is told within seconds. When the daemon returns it hears of
what was open meanwhile, and idles nothing out for its own absence.
"""

import pytest

from tests.scenarios.world import Pending, World, scenario


@pytest.mark.parametrize("crash", [False, True])
def test_with_the_daemon_away_ready_models_are_served_and_nothing_is_reaped_on_its_return(crash: bool) -> None:
    async def play(world: World) -> None:
        world.configure("m1", "m2")
        streams: list[Pending] = []
        async with world.front("m1", "m2") as front:
            async with world.box(front=front, crash=crash) as box:
                assert (await box.chat(world)).status == 200
                streams.append(world.soon(box.chat(world, stream=True, max_tokens=2400)))
                await world.at(world.now_s + 5)
            away_from = world.now_s
            while world.now_s < away_from + 900:  # three times the idle time
                assert (await box.chat(world)).status == 200
                asked_at, cold = world.now_s, await box.chat(world, "m2")
                assert (cold.status, cold.error["code"], cold.at - asked_at <= 6) == (503, "controller_down", True)
                await world.at(world.now_s + 60)
            assert not streams[0].done
            async with world.box(front=front) as again:
                await world.at(world.now_s + 15)
                (record,) = again.daemon.store.book.live("m1")
                assert again.daemon.stream_leases.open_requests(record.id, now=again.daemon.store.now) == 1
                await world.until(lambda: streams[0].done, within=600)
                assert b"[DONE]" in streams[0].got.body
                ended_at = world.now_s
                await world.until(lambda: bool(world.deletes()), within=400)
                assert ended_at + 300 <= world.now_s <= ended_at + 310
        assert [line["reason"] for line in world.events("obligation.due")] == ["idle"]

    scenario(play, token_rate=2)


def test_what_was_used_in_the_daemon_s_absence_is_not_idle_when_it_returns() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.front("m1") as front:
            async with world.box(front=front) as box:
                assert (await box.chat(world)).status == 200
                await world.at(world.now_s + 5)
            await world.at(world.now_s + 400)
            assert (await box.chat(world)).status == 200
            last_at = world.now_s
            await world.at(last_at + 20)
            async with world.box(front=front):
                await world.until(lambda: bool(world.deletes()), within=400)
                assert last_at + 300 <= world.now_s <= last_at + 20 + 310  # the proof under the new epoch is use

    scenario(play)
