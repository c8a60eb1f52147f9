"""What do the network volumes that models name bill?"""

from dataclasses import replace
from typing import Any

import pytest

from controller.core.storage import Storage
from controller.providers.runpod.order import NetworkVolume, RunpodModel
from controller.providers.runpod.volumes import read_storage
from tests.support.runpod_samples import MODEL
from tests.support.scripted_runpod import Scripted, answer

V1 = NetworkVolume(id="v1", data_center="EU-RO-1")
BESIDE = replace(MODEL, volumes=(V1, NetworkVolume(id="v2", data_center="US-KS-2")))


def listed(**changes: Any) -> dict[str, Any]:
    return {"id": "v1", "name": "x", "size": 100, "dataCenter": "EU-RO-1", "type": "STANDARD"} | changes


async def storage(told: Any, *models: RunpodModel, code: int = 200) -> Storage:
    script = Scripted(answer(code, told))
    found = await read_storage(script.account, models or [replace(BESIDE, volumes=(V1,))])
    assert [(request.method, request.url.path) for request in script.requests] == [("GET", "/v2/network-volumes")]
    return found


@pytest.mark.parametrize(
    ("shown", "size_gb", "usd"),
    [
        ({}, 100, "7.00"),
        ({"type": "HIGH_PERFORMANCE"}, 100, "14.00"),
        ({"type": "COLD"}, 100, None),
        ({"type": None}, 100, None),
        ({"size": None}, None, None),
        ({"size": 0}, None, None),
        ({"size": True}, None, None),
        ({"size": 10**9}, None, None),
    ],
)
async def test_a_volume_costs_what_its_size_and_kind_cost_and_else_nobody_knows(
    shown: dict[str, Any], size_gb: int | None, usd: str | None
) -> None:
    (volume,) = (await storage({"networkVolumes": [None, {"id": 7}, listed(**shown)]})).volumes
    told = None if volume.usd_per_month is None else str(volume.usd_per_month)
    assert (volume.found, volume.size_gb, told) == (True, size_gb, usd)


async def test_one_that_two_models_name_is_told_once_and_what_the_account_lacks_is_missing() -> None:
    found = await storage({"networkVolumes": [listed(), listed(id="theirs")]}, BESIDE, replace(BESIDE, alias="other"))
    assert [(volume.id, volume.found, volume.models) for volume in found.volumes] == [
        ("v1", True, (MODEL.alias, "other")),
        ("v2", False, (MODEL.alias, "other")),
    ]
    assert found.usd_per_month is None


@pytest.mark.parametrize(
    ("code", "told"), [(403, {}), (200, []), (200, {"networkVolumes": None}), (500, {"networkVolumes": []})]
)
async def test_an_answer_that_tells_nothing_leaves_every_volume_unknown(code: int, told: Any) -> None:
    found = await storage(told, code=code)
    assert found.problem is not None
    assert [(volume.id, volume.found, volume.usd_per_month) for volume in found.volumes] == [("v1", None, None)]
