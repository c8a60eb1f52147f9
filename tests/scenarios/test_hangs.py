"""Is an engine that hangs behind a healthy answer stopped, and a slow or busy one never?"""

import anyio

from tests.scenarios.world import Pending, World, scenario

HUNG_AFTER_S = 300


async def reasons(world: World) -> list[str]:
    await anyio.sleep(1)  # until it is in the file
    return [line["reason"] for line in world.events("obligation.due")]


async def streaming(world: World, box: object, words: int) -> Pending:
    pending = world.soon(box.chat(world, stream=True, max_tokens=words))  # type: ignore[attr-defined]
    await anyio.sleep(5)
    return pending


def hang(world: World) -> None:
    (pod,) = world.alive()
    world.emulator.change_pod(pod["id"], {"upstream": {"state": "hung"}})


def test_an_engine_that_hangs_under_an_open_request_is_stopped_within_minutes() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            await box.chat(world)
            open_request = await streaming(world, box, 100_000)
            hang(world)
            begun = world.now_s
            await world.until(lambda: not world.alive(), within=900)
            # Counts that stood still, a scrape, a token that did not come within a minute, a scrape.
            assert HUNG_AFTER_S <= world.now_s - begun <= HUNG_AFTER_S + 60 + 60 + 60 + 15
            assert await reasons(world) == ["hung"]
            assert not open_request.done or open_request.got.status == 200  # a stream that had begun

    scenario(play, token_rate=10)


def test_a_stream_of_a_word_every_ninety_seconds_is_slow_and_not_hung() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            await box.chat(world)
            (pod,) = world.alive()
            world.emulator.change_pod(pod["id"], {"upstream": {"token_rate": 1 / 90}})
            await streaming(world, box, 40)
            await anyio.sleep(3600)
            assert await reasons(world) == []
            assert len(world.alive()) == 1

    scenario(play)


def test_an_engine_that_writes_the_token_it_is_asked_for_is_kept() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            await box.chat(world)
            await streaming(world, box, 100_000)
            hang(world)
            (pod,) = world.alive()
            (record,) = box.daemon.store.book.live()
            await world.until(lambda: box.daemon.doubts.holds(record.id), within=400)
            world.emulator.change_pod(pod["id"], {"upstream": {"state": "auto"}})
            await world.until(lambda: not box.daemon.doubts.holds(record.id), within=100)
            await anyio.sleep(1200)
            assert await reasons(world) == ["idle"]  # it works for nobody any more

    scenario(play, token_rate=10)


def test_an_engine_that_hangs_with_nobody_there_is_idled_out_as_any_other() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            got = await box.chat(world)
            hang(world)
            await world.until(lambda: not world.alive(), within=400)
            assert world.now_s - got.at <= 320
            assert await reasons(world) == ["idle"]

    scenario(play)


def test_without_a_gateway_to_ask_nothing_is_found_hung_and_the_server_is_no_witness_for_ever() -> None:
    """It goes on saying that it works for somebody: that postpones its idle stop once."""

    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            await box.chat(world)
            await streaming(world, box, 100_000)
            vars(box.gateway.table)["_on_change"] = lambda aliases: None  # it hears of no doubt
            hang(world)
            begun = world.now_s
            await world.until(lambda: not world.alive(), within=1000)
            assert 600 <= world.now_s - begun <= 600 + 120 + 60
            assert await reasons(world) == ["idle"]

    scenario(play, token_rate=10)


def test_answers_that_the_providers_proxy_cuts_off_are_timeouts_and_end_no_machine() -> None:
    """PF-10: it answers 524 for a server that is silent for two minutes, and the server goes on."""

    async def play(world: World) -> None:
        world.configure("m1")
        cut = {"answer": 524, "headers": {"content-type": "text/html"}, "body": "<html>a timeout occurred</html>"}
        async with world.box() as box:
            await box.chat(world)
            order = world.emulator.add_faults(
                [{"match": {"method": "POST", "path": "/proxy/*/completions"}, "do": cut}]
            )
            for _ in range(4):
                told = await box.chat(world)
                assert (told.status, told.error["code"]) == (504, "upstream_timeout")
                await anyio.sleep(100)
            assert (len(world.alive()), await reasons(world)) == (1, [])
            world.emulator.remove_faults(order)
            assert (await box.chat(world)).status == 200
            assert len(world.creates()) == 1

    scenario(play)
