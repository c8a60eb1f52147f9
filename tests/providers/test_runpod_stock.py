"""What is asked of the catalog before it is believed that none is left."""

from dataclasses import replace
from typing import Any

import pytest

from controller.providers.runpod.adapter import RunpodReading
from tests.providers.emulated import World, in_world
from tests.support.runpod_samples import MODEL, NAMESPACE


@pytest.mark.parametrize(("cards", "gone"), [(1, set()), (2, {"NVIDIA L40S"})])
def test_stock_is_asked_for_as_many_cards_as_the_machine_has(cards: int, gone: set[str]) -> None:
    async def look(world: World) -> Any:
        reading = RunpodReading(world.account, namespace=NAMESPACE, models=[replace(MODEL, gpu_count=cards)])
        return await reading.read_stock("qwen")

    assert in_world(look, stock={"NVIDIA L40S": 1}).none_left == gone


def test_stock_that_cannot_be_asked_says_why_and_nothing_else() -> None:
    async def look(world: World) -> Any:
        world.fault("GET", "/v2/catalog/gpus", answer=503)
        return await world.reading.read_stock("qwen")

    stock = in_world(look, stock={"NVIDIA L40S": "NONE"})
    assert stock.none_left == frozenset()
    assert "503" in stock.problem
