"""What the list of models tells of each, in whose shape, and that reading it wakes nothing."""

import json
from typing import Any

import pytest

from controller.gateway.config import Declared
from tests.gateway.world import Answered, World, in_world

ANTHROPIC = [(b"anthropic-version", b"2023-06-01")]
DECLARED = {"m1": Declared(wires=("chat",), tools=False, adapters=("sql",))}


async def read(world: World, path: str = "/v1/models", **options: Any) -> Answered:
    return await world.ask(b"", path=path, method="GET", **options)


def test_a_model_that_starts_says_how_far_it_is() -> None:
    async def scene(world: World) -> dict[str, Any]:
        starting = {"deployment": "d1", "phase": "loading", "eta_seconds": 42.5, "usd_so_far": "0.02"}
        await world.changed(phase="starting", starting=starting, cold_start_seconds=180.0, usd_per_hour="0.79")
        found: dict[str, Any] = json.loads((await read(world, "/v1/models/m1")).body)
        assert world.daemon.starts == []
        return found

    assert in_world(scene) == {
        "id": "m1",
        "object": "model",
        "created": 0,
        "owned_by": "gpuwarden",
        "ready": False,
        "phase": "starting",
        "starting": "loading",
        "eta_seconds": 42.5,
        "cold_start_seconds": 180.0,
        "usd_so_far": "0.02",
        "usd_per_hour": "0.79",
        "wires": ["chat", "completions", "embeddings"],
        "tools": True,
    }


def test_models_are_ready_off_or_unknown_and_adapters_as_ready_as_their_model() -> None:
    async def scene(world: World) -> list[tuple[str, bool, str]]:
        await world.ready()
        del world.gateway.table.views["m2"]
        entries = json.loads((await read(world)).body)["data"]
        return [(entry["id"], entry["ready"], entry["phase"]) for entry in entries]

    expected = [("m1", True, "ready"), ("m1:sql", True, "ready"), ("m2", False, "unknown")]
    assert in_world(scene, declared=DECLARED) == expected


def test_anthropics_clients_get_a_page_of_their_own_shape() -> None:
    async def scene(world: World) -> tuple[dict[str, Any], dict[str, Any]]:
        page = await read(world, headers=ANTHROPIC)
        model = await read(world, "/v1/models/m2", headers=ANTHROPIC)
        return json.loads(page.body), json.loads(model.body)

    page, model = in_world(scene)
    assert (page["has_more"], page["first_id"], page["last_id"]) == (False, "m1", "m2")
    assert page["data"][1] == model
    assert model.items() >= {"id": "m2", "type": "model", "display_name": "m2", "phase": "off"}.items()


@pytest.mark.parametrize("headers", [[], ANTHROPIC])
def test_a_model_that_is_not_there_is_a_404(headers: list[tuple[bytes, bytes]]) -> None:
    async def scene(world: World) -> tuple[int, str]:
        answer = await read(world, "/v1/models/m1:none", headers=headers)
        return answer.status, answer.code

    assert in_world(scene) == (404, "unknown_model")


def test_one_model_is_for_those_with_a_key_too() -> None:
    async def scene(world: World) -> int:
        return (await read(world, "/v1/models/m1", key=None)).status

    assert in_world(scene) == 401
