"""Does counting tokens leave the model asleep, its idle clock alone and the client's budget whole (B25)?"""

import json
from decimal import Decimal
from typing import Any

import anyio
import pytest

from tests.gateway.test_clients import Kept, client
from tests.gateway.world import ENDPOINT, Answered, World, in_world
from tests.support.fake_daemon import route

STARTING = {"deployment": "d1", "phase": "loading", "eta_seconds": 42.0, "usd_so_far": "0.02"}


async def count(world: World, **options: Any) -> Answered:
    body = {"model": "m1", "messages": [{"role": "user", "content": "say"}]}
    return await world.ask(body, path="/v1/messages/count_tokens", **options)


def in_messages_world(scene: Any, **changes: Any) -> Any:
    async def main(world: World) -> Any:
        await world.changed(wires=["chat", "messages"])
        return await scene(world)

    return in_world(main, **changes)


def use(world: World) -> tuple[int, int, int]:
    """What would move the idle clock: starts, leases told, questions to the model server but the last."""
    return len(world.daemon.starts), len(world.daemon.leases), len(world.upstream.sent) - 1


@pytest.mark.parametrize("proven", [True, False])
def test_a_ready_model_counts_with_no_lease_and_no_proof(proven: bool) -> None:
    async def scene(world: World) -> tuple[Answered, World]:
        await world.ready(proven=proven)
        answer = await count(world)
        await anyio.sleep(60)
        return answer, world

    answer, world = in_messages_world(scene)
    assert (answer.status, json.loads(answer.body)) == (200, {"input_tokens": 3})
    assert world.upstream.sent[-1].url.endswith("/v1/messages/count_tokens")
    assert use(world) == (0, 0, 0)


@pytest.mark.parametrize("preferred", [(), [(b"prefer", b"wait=60")]])
def test_a_cold_model_is_not_woken_and_nobody_is_asked_to_come_back(preferred: Any) -> None:
    async def scene(world: World) -> tuple[Answered, float, World]:
        begun = anyio.current_time()
        answer = await count(world, headers=preferred)
        took = anyio.current_time() - begun
        await anyio.sleep(60)
        return answer, took, world

    answer, took, world = in_messages_world(scene)
    assert (answer.status, answer.code, answer.error["phase"]) == (503, "not_served", "off")
    assert (answer.headers.get(b"x-should-retry"), b"retry-after" in answer.headers) == (b"false", False)
    assert (took, use(world)) == (0, (0, 0, -1))


def test_a_model_that_others_woke_says_when_it_can_count() -> None:
    async def scene(world: World) -> tuple[Answered, World]:
        await world.changed(phase="starting", starting=STARTING)
        answer = await count(world)
        await world.ready(proven=False)
        await anyio.sleep(60)
        return answer, world

    answer, world = in_messages_world(scene)
    assert (answer.status, answer.code, answer.headers[b"retry-after"]) == (503, "model_starting", b"42")
    assert b"x-should-retry" not in answer.headers
    assert use(world) == (0, 0, -1)


def test_with_no_word_of_the_daemon_it_is_the_controller_that_is_missed() -> None:
    async def scene(world: World) -> Answered:
        world.gateway.table.views.clear()
        return await count(world)

    answer = in_world(scene)
    assert (answer.status, answer.code) == (503, "controller_down")


def test_a_client_with_nothing_left_still_counts_and_pays_nothing() -> None:
    async def scene(world: World) -> tuple[list[int], dict[str, float]]:
        await world.ready()
        answers = [await count(world, key="one") for _ in range(2)]
        return [answer.status for answer in answers], world.gateway.spending.known()

    kept = Kept(client("one", usd_per_day=Decimal(0)))
    statuses, spent = in_messages_world(scene, read_clients=kept.read)
    assert statuses == [200, 200]
    assert not any(spent.values())


def test_one_whose_server_is_not_there_is_told_so_and_another_one_is_tried() -> None:
    async def scene(world: World) -> list[tuple[int, str]]:
        gone = route("d2", "https://nowhere/v1/")
        await world.changed(phase="ready", routes=[gone])
        alone = await count(world)
        await world.changed(routes=[gone, route("d3", ENDPOINT)])
        beside = await count(world)
        return [(alone.status, alone.code), (beside.status, "")]

    assert in_messages_world(scene) == [(502, "upstream_disconnected"), (200, "")]
