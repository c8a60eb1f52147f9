"""Which of two words about a model stands, and how soon a returned daemon is heard."""

from typing import Any

import anyio
import pytest

from controller.gateway.routes import RouteTable
from tests.gateway.world import World, in_world
from tests.support.fake_daemon import route, view


def poll(version: int, **fields: Any) -> dict[str, Any]:
    return {"version": version, "controller": "run-1", "models": {"m1": view("m1", **fields)}}


@pytest.mark.parametrize(("asked_at", "phase"), [(1, "ready"), (2, "starting")])
def test_a_view_that_was_asked_for_before_a_newer_poll_is_dropped(asked_at: int, phase: str) -> None:
    changed: list[set[str]] = []
    table = RouteTable(changed.append)
    table.take(poll(2, phase="ready", routes=[route("d1", "https://one/v1")]))
    table.overlay("m1", view("m1", phase="starting"), asked_at=asked_at)
    assert table.views["m1"].phase == phase
    assert len(changed) == (1 if phase == "ready" else 2)


@pytest.mark.parametrize("broken", [{"models": {}}, {**poll(3), "models": {"m1": {}}}, {**poll(3), "models": []}])
def test_a_poll_that_cannot_be_read_changes_nothing(broken: dict[str, Any]) -> None:
    table = RouteTable(lambda aliases: None)
    table.take(poll(2, phase="ready"))
    with pytest.raises((KeyError, TypeError, ValueError, AttributeError)):
        table.take(broken)
    assert (table.version, table.views["m1"].phase) == (2, "ready")


def test_a_daemon_that_returned_is_heard_at_once_though_it_counts_anew() -> None:
    async def scene(world: World) -> str:
        for _ in range(5):
            await world.changed(phase="off")
        world.daemon.go_down()
        await anyio.sleep(5)
        world.daemon.models["m1"]["phase"] = "blocked"
        world.daemon.return_()
        await anyio.sleep(2)
        return world.gateway.table.views["m1"].phase

    assert in_world(scene) == "blocked"
