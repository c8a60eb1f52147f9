"""Does the emulated API count calls, tell what is left and refuse what is too much?"""

import pytest

from controller.emulators.runpod.reading import BadControl
from controller.emulators.runpod.settings import Settings
from tests.emulators.world import World


async def test_one_call_too_many_is_refused_until_the_next_window_and_counts_too() -> None:
    world = World(quotas={"minute": 3})
    world.now += 12.5
    answers = [await world.client.get("/v2/pods") for _ in range(4)]
    left = [(answer.status_code, answer.headers["ratelimit"].partition(",")[0]) for answer in answers]
    assert left == [(200, f'"minute";r={rest};t=48') for rest in (2, 1, 0)] + [(429, '"minute";r=0;t=48')]
    assert answers[-1].headers["retry-after"] == "48"
    assert answers[-1].json()["detail"] == "rate limit exceeded for the minute window"
    world.now += 47.5
    assert (await world.client.get("/v2/pods")).status_code == 200


async def test_what_is_refused_for_the_rate_does_nothing() -> None:
    world = World(quotas={"minute": 1})
    pod = await world.create()
    assert (await world.client.delete(f"/v2/pods/{pod}")).status_code == 429
    assert (await world.client.get(f"/v2/pods/{pod}/logs")).status_code == 429
    assert world.truth_of(pod)["deleted_at"] is None


async def test_the_longest_window_that_is_used_up_says_how_long_to_wait() -> None:
    world = World(quotas={"minute": 1, "hour": 2})
    world.now += 60 - world.now % 60
    waits = [(await world.client.get("/v2/pods")).headers.get("retry-after") for _ in range(3)]
    assert waits[:2] == [None, "60"]
    assert int(waits[2] or 0) == 3600 - int(world.now % 3600)


@pytest.mark.parametrize("quotas", [{"week": 5}, {"minute": 0}, {"minute": "many"}, 5])
def test_a_quota_that_means_nothing_is_refused(quotas: object) -> None:
    with pytest.raises(BadControl, match="quotas"):
        Settings(quotas=quotas)  # type: ignore[arg-type]
