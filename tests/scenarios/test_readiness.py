"""Is a machine taken for ready only when it really serves the model that was asked for?

Case B43: a port that is open, a 200, a page of the provider's in front of it are no readiness; the client's request
goes out after our own proof, and a server of another model ends the start.
"""

import json
from typing import Any

import pytest

from controller.emulators.exchange import Request
from tests.scenarios.world import World, scenario

COMPLETIONS = "/proxy/*/v1/chat/completions"
ASKED = "a question of the client's own"
QUESTION = [{"role": "user", "content": ASKED}]


def questions(world: World) -> list[float]:
    """When a client's own question was sent to a machine; filled as they come."""
    seen: list[float] = []
    take = world.emulator.take_fault

    def taking(request: Request) -> Any:
        if request.path.startswith("/proxy/") and ASKED.encode() in request.body:
            seen.append(world.now_s)
        return take(request)

    world.emulator.take_fault = taking  # type: ignore[method-assign]
    return seen


def test_a_word_that_nobody_knows_takes_no_machine_from_those_who_use_it() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            assert (await box.chat(world)).status == 200
            (pod,) = world.alive()
            world.emulator.change_pod(pod["id"], {"status": "CONFUSED"})
            await world.at(world.now_s + 150)
            assert (await box.chat(world)).status == 200
            assert box.daemon.view.value.failing_since is not None  # nothing is absent by such a listing
            world.emulator.change_pod(pod["id"], {"upstream": {"state": "booting"}})
            await world.until(lambda: box.daemon.store.book.live()[0].unready_since is not None, within=90)
            world.emulator.change_pod(pod["id"], {"upstream": {"state": "auto"}, "status": "RUNNING"})
            await world.at(world.now_s + 90)
            assert (await box.chat(world)).status == 200
            assert len(world.creates()) == 1

    scenario(play)


@pytest.mark.parametrize(
    "early",
    [
        {"answer": 503, "headers": {"content-type": "application/json"}, "body": {"error": {"message": "loading"}}},
        {"answer": 502, "headers": {"content-type": "text/html"}, "body": "<html>bad gateway</html>"},
        {"answer": 200, "headers": {"content-type": "text/html"}, "body": "<html>the app is coming up</html>"},
        {"answer": 404, "body": "404 page not found", "headers": {"content-type": "text/plain"}},
    ],
    ids=["the weights are loading", "a 502 in front", "a page with 200 in front", "the port is not there yet"],
)
def test_no_question_of_a_clients_goes_out_before_the_server_has_answered_ours(early: dict[str, Any]) -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        seen = questions(world)
        world.emulator.add_faults([{"match": {"method": "POST", "path": COMPLETIONS}, "do": early}])
        async with world.box() as box:
            asking = world.soon(box.chat(world, messages=QUESTION))
            await world.at(120)
            assert (seen, asking.done, len(world.alive())) == ([], False, 1)
            world.emulator.clear_faults()
            await world.until(lambda: asking.done, within=120)
            assert asking.got.status == 200
            assert len(seen) == 1 and seen[0] > 120
            assert len(world.creates()) == 1

    scenario(play, boot_seconds=5, ready_seconds=5)


def test_a_page_in_front_of_every_path_is_no_health() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        page = {"answer": 200, "headers": {"content-type": "text/html"}, "body": "<html>coming up</html>"}
        world.emulator.add_faults([{"match": {"path": "/proxy/*"}, "do": page}])
        async with world.box() as box:
            asking = world.soon(box.chat(world, messages=QUESTION))
            await world.at(120)
            assert box.daemon.store.book.live()[0].phase.value == "requested"
            world.emulator.clear_faults()
            await world.until(lambda: asking.done, within=120)
            assert asking.got.status == 200

    scenario(play, boot_seconds=5, ready_seconds=5)


def test_a_server_of_another_model_ends_the_start_and_those_who_wait_are_told() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        seen = questions(world)
        async with world.box() as box:
            asking = world.soon(box.chat(world, messages=QUESTION))
            await world.until(lambda: asking.done, within=400)
            assert (asking.got.status, asking.got.error["code"]) == (503, "start_failed")
            assert asking.got.error["reason"] == "served-model-mismatch"
            assert "some-other-model" not in json.dumps(asking.got.error)
            await world.until(lambda: not world.alive(), within=60)
            assert seen == []

    scenario(play, upstream={"state": "wrong-model"})
