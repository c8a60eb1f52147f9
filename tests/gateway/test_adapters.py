"""How is an adapter asked for, and what does the model server see of it?"""

import json
from typing import Any

from controller.gateway.config import Declared
from tests.gateway.world import ENDPOINT, World, asking, in_world
from tests.support.fake_daemon import route

DECLARED = {"m1": Declared(wires=("chat",), tools=False, adapters=("fr", "sql"))}


def play(scene: Any) -> Any:
    return in_world(scene, declared=DECLARED)


def test_an_adapter_is_listed_behind_its_model() -> None:
    async def scene(world: World) -> list[tuple[str, str | None]]:
        answer = await world.ask(b"", path="/v1/models", method="GET")
        return [(entry["id"], entry.get("parent")) for entry in json.loads(answer.body)["data"]]

    assert play(scene) == [("m1", None), ("m1:fr", "m1"), ("m1:sql", "m1"), ("m2", None)]


def test_vllm_is_asked_for_the_adapter_by_its_name() -> None:
    async def scene(world: World) -> Any:
        await world.ready()
        await world.ask(asking("m1:sql"))
        return world.server.asked[0]["model"]

    assert play(scene) == "sql"


def test_llama_cpp_is_told_the_place_of_the_adapter_whatever_the_client_wrote() -> None:
    async def scene(world: World) -> list[dict[str, Any]]:
        await world.changed(server="llama_cpp", adapters=["fr", "sql"])
        await world.ready()
        await world.ask(asking("m1:sql"))
        await world.ask(asking("m1:fr", lora=[{"id": 1, "scale": 1}]))
        await world.ask(asking("m1"))
        return world.server.asked

    first, second, plain = play(scene)
    assert (first["lora"], first["model"]) == ([{"id": 1, "scale": 1.0}], "org/m1")
    assert second["lora"] == [{"id": 0, "scale": 1.0}]
    assert "lora" not in plain


def test_a_llama_cpp_of_an_older_config_is_not_asked_by_place() -> None:
    async def scene(world: World) -> tuple[int, str, int]:
        older = route("d1", ENDPOINT) | {"current": False}
        await world.changed(server="llama_cpp", adapters=["fr", "sql"], phase="ready", routes=[older], starting=None)
        answer = await world.ask(asking("m1:sql"))
        return answer.status, answer.code, len(world.server.bodies)

    assert play(scene) == (503, "model_starting", 0)


def test_an_adapter_wakes_its_model_and_holds_a_lease_on_it() -> None:
    async def scene(world: World) -> tuple[set[str], int]:
        world.daemon.on_start = lambda alias: world.make_ready(alias)
        await world.ask(asking("m1:sql"))
        return {alias for _, alias, _ in world.daemon.starts}, sum("d1" in told for _, told in world.daemon.leases)

    starts, leases = play(scene)
    assert (starts, leases > 0) == ({"m1"}, True)


def test_an_adapter_that_nobody_declared_is_no_model_and_wakes_nothing() -> None:
    async def scene(world: World) -> list[tuple[int, str]]:
        answers = [await world.ask(asking(model)) for model in ("m1:x", "m1:", "m2:sql", ":sql", "x:sql")]
        return [(answer.status, answer.code) for answer in answers] + [(len(world.daemon.starts), "")]

    assert play(scene) == [(404, "unknown_model")] * 5 + [(0, "")]
