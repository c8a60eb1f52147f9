"""Do clients notice that a model has several machines, that one fails, or that one replaces another?"""

from datetime import timedelta
from functools import partial

import anyio

from tests.gateway.stub_server import StubServer
from tests.gateway.world import ENDPOINT, World, asking, in_world, together
from tests.support.fake_daemon import route

TWO = "https://two/v1/"


def both(world: World) -> StubServer:
    """A second machine beside the first."""
    other = StubServer()
    world.upstream.apps["two"] = other.app
    return other


def routes(*, first: bool = True, second: bool = True, second_proven: bool = True) -> list[dict[str, object]]:
    found = []
    if first:
        found.append(route("d1", ENDPOINT))
    if second:
        found.append(route("d2", TWO, proven=second_proven))
    return found


async def ask_often(world: World, statuses: list[int], *, until: anyio.Event, stream: bool) -> None:
    number = 0
    while not until.is_set():
        number += 1
        messages = [{"role": "user", "content": f"{number}"}]
        answer = await world.ask(asking(messages=messages, stream=stream))
        statuses.append(answer.status if answer.whole else 0)


def test_no_client_notices_a_replacement_under_load() -> None:
    async def scene(world: World) -> tuple[set[int], bool, int, int]:
        other = both(world)
        world.server.gap_s = other.gap_s = 0.05
        world.server.think_s = other.think_s = 0.02
        await world.changed(phase="ready", routes=routes(second=False))
        statuses, over = list[int](), anyio.Event()
        async with anyio.create_task_group() as group:
            for number in range(12):
                group.start_soon(partial(ask_often, world, statuses, until=over, stream=number % 2 == 0))
            await anyio.sleep(0.5)
            await world.changed(routes=routes(second_proven=False))
            await anyio.sleep(0.5)
            world.daemon.refused.add("d1")  # it drains: a lease is refused before the table says it
            await anyio.sleep(2)
            before = len(world.server.bodies)
            await world.changed(routes=routes(first=False))
            await anyio.sleep(0.5)
            over.set()
        return set(statuses), len(statuses) > 200, len(world.server.bodies) - before, len(other.bodies)

    found, many, late, moved = in_world(scene, lease_interval=timedelta(seconds=1))
    assert (found, many, late) == ({200}, True, 0)
    assert moved > 100


def test_one_conversation_stays_on_one_machine_and_many_use_both() -> None:
    async def scene(world: World) -> tuple[list[int], list[int]]:
        other = both(world)
        await world.changed(phase="ready", routes=routes())
        for turn in range(6):
            said = [
                {"role": "user", "content": "the same"},
                *({"role": "assistant", "content": "x"} for _ in range(turn)),
            ]
            await world.ask(asking(messages=said))
        one = [len(world.server.bodies), len(other.bodies)]
        for number in range(40):
            await world.ask(asking(messages=[{"role": "user", "content": f"another {number}"}]))
        return one, [len(world.server.bodies), len(other.bodies)]

    one, many = in_world(scene)
    assert sorted(one) == [0, 6]
    assert min(many) > 8


def test_one_that_cannot_be_reached_costs_no_client_anything_and_comes_back_once_it_is_proven() -> None:
    async def scene(world: World) -> tuple[list[int], int, int]:
        other = both(world)
        await world.changed(phase="ready", routes=routes())
        app, world.upstream.apps["one"] = world.upstream.apps["one"], None
        statuses = [await of_another(world, number) for number in range(30)]
        asked_away = len(other.bodies)
        world.upstream.apps["one"] = app
        await anyio.sleep(40)
        for number in range(30):
            await of_another(world, number)
        return statuses, asked_away, len(world.server.bodies)

    assert in_world(scene)[:2] == ([200] * 30, 30)
    assert in_world(scene)[2] > 5


def test_one_that_breaks_off_what_it_begins_stays_away_longer_each_time() -> None:
    async def scene(world: World) -> list[int]:
        other = both(world)
        await world.changed(phase="ready", routes=routes())
        world.server.cut = True
        failures = list[int]()
        for _ in range(3):
            for number in range(200):
                await of_another(world, number)
                await anyio.sleep(0.1)
            failures.append(len(world.server.bodies))
        assert other.bodies
        return failures

    first, second, third = in_world(scene)
    assert first <= 5
    assert second - first <= 2
    assert third - second <= 2


async def of_another(world: World, number: int) -> int:
    """Of a conversation of its own."""
    return (await world.ask(asking(messages=[{"role": "user", "content": f"{number}"}], stream=True))).status


def test_the_only_machine_goes_on_being_asked_though_it_failed() -> None:
    async def scene(world: World) -> list[int]:
        await world.ready()
        world.server.cut, world.server.pieces = True, []
        first = await world.ask(asking(stream=True))
        world.server.cut, world.server.pieces = False, StubServer().pieces
        second = await world.ask(asking(stream=True))
        return [first.status, second.status]

    assert in_world(scene) == [502, 200]


def test_load_that_comes_at_once_is_spread_by_what_each_has_to_do() -> None:
    async def scene(world: World) -> list[int]:
        other = both(world)
        world.server.think_s = other.think_s = 1.0
        await world.changed(phase="ready", routes=routes())
        same = asking(messages=[{"role": "user", "content": "the same"}])
        await together(*(partial(world.ask, same) for _ in range(40)))
        return [len(world.server.bodies), len(other.bodies)]

    assert min(in_world(scene)) >= 15


def test_a_conversation_that_waited_for_a_cold_model_goes_to_its_own_machine() -> None:
    async def scene(world: World) -> set[tuple[int, int]]:
        other = both(world)
        found = set()
        for _ in range(4):
            await world.changed(phase="off", routes=[])
            asked = [world.start(asking(messages=[{"role": "user", "content": "once"}])) for _ in range(2)]
            await anyio.sleep(5)
            before = len(world.server.bodies), len(other.bodies)
            await world.changed(phase="ready", routes=routes())
            for answer in asked:
                await answer.begun()
            found.add((len(world.server.bodies) - before[0], len(other.bodies) - before[1]))
            await anyio.sleep(30)
        return found

    assert in_world(scene) in ({(2, 0)}, {(0, 2)})


def test_what_is_nested_so_deep_that_it_can_just_be_read_is_answered_or_refused() -> None:
    """To find its conversation's machine it is written out again, a few calls further down than it was read."""

    async def scene(world: World) -> set[int]:
        both(world)
        await world.changed(phase="ready", routes=routes())
        found = set()
        for depth in range(700, 1000, 3):
            words = b"[" * depth + b"]" * depth
            body = b'{"model": "m1", "messages": [{"role": "user", "content": %b}]}' % words
            found.add((await world.ask(body)).status)
        return found

    assert in_world(scene) == {200, 400}
