"""Does a qualification run leave nothing alive and nothing owed, whatever the emulator is set to?

How long listings and reads lag is set up to the settle time: who lies for longer than that may hide a machine.
"""

from contextlib import suppress
from typing import Any

import pytest

from controller.cli.exits import Failure
from tests.scenarios.test_qualification import LIMIT, qualify
from tests.scenarios.world import World, scenario


@pytest.mark.parametrize(
    "settings",
    [
        *({"upstream": {"state": state}} for state in ("crashing", "open", "wrong-model", "refusing-key", "hung")),
        {"stop_lag_seconds": 110, "list_lag_seconds": 110, "get_lag_seconds": 110, "ready_seconds": 1e6},
        {"page_size": 1, "billing_delay_seconds": 7200, "billing_quantum_seconds": 3600},
        {"price_jump": 4.0},
        {"quotas": {"minute": 6}},
        {"clock_offset_seconds": 7200},
        {"balance": 0.05},
        {"made_otherwise": {"disk": 500}},
    ],
    ids=str,
)
def test_nothing_is_left_and_no_more_is_spent_than_the_limit(settings: dict[str, Any]) -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        with suppress(Failure):
            await qualify(world)
        assert world.alive() == []
        assert sum(pod["billed_usd"] for pod in world.pods()) <= LIMIT
        opened, ended = (
            {line["obligation"] for event in events for line in world.events(f"obligation.{event}")}
            for events in (["opened"], ["discharged", "void"])
        )
        assert opened == ended

    scenario(play, **settings)
