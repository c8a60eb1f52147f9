"""Do an account's secrets reach the containers and nobody else?"""

from typing import Any

import pytest

from tests.emulators.world import World

PATH = "/v2/account/secrets"


async def test_a_secret_is_written_listed_by_name_changed_and_removed_and_never_read() -> None:
    world = World(secrets={})
    made = await world.client.post(PATH, json={"name": "hub", "value": "canary"})
    await world.client.post(PATH, json={"name": "other", "value": "canary"})
    listed = await world.client.get(PATH, params={"name": "hub"})
    changed = await world.client.patch(f"{PATH}/{made.json()['id']}", json={"value": "canary-2"})
    read = await world.client.get(f"{PATH}/{made.json()['id']}")
    assert (made.status_code, changed.status_code, [s["name"] for s in listed.json()["secrets"]]) == (201, 200, ["hub"])
    assert "canary" not in made.text + listed.text + changed.text + read.text
    assert world.emulator.settings.secrets["hub"] == "canary-2"
    assert (await world.client.delete(f"{PATH}/{made.json()['id']}")).status_code == 204
    assert list(world.emulator.settings.secrets) == ["other"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"name": "RunPod_x", "value": "v"}, 422),
        ({"name": "1st", "value": "v"}, 422),
        ({"name": "x"}, 422),
        ({"name": "x", "value": "v", "colour": "red"}, 422),
        ({"name": "key", "value": "v"}, 409),
    ],
)
async def test_a_secret_that_breaks_a_rule_is_refused(body: dict[str, Any], status: int) -> None:
    assert (await World().client.post(PATH, json=body)).status_code == status


async def test_a_secret_that_is_not_there_is_404() -> None:
    world = World()
    assert (await world.client.get(f"{PATH}/none")).status_code == 404
    assert (await world.client.delete(f"{PATH}/none")).status_code == 404
