"""How is a volume asked to be filled, and what of it is shown?"""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from controller.api.client import Problem
from controller.core import start
from controller.core.errors import Code
from controller.core.evidence import StopReason
from controller.core.lifecycle import Phase
from controller.core.policy import Volume
from controller.store import deployments
from controller.store.deployments import Declaration
from tests.api.world import HOLDER, POLICY, World
from tests.core.samples import spec, wish

PREFETCH = "/v1/models/qwen/prefetch"
VOLUMES = (Volume(place="A", offers=("L40S @ A",)), Volume(place="B", offers=("L40S @ B",)))


@pytest.fixture
def house(house: World) -> World:
    models: Any = house.panel.models
    models["qwen"] = replace(models["qwen"], volumes=VOLUMES)
    return house


def wished(house: World) -> list[str]:
    return house.panel.wants.fills("qwen", now=house.clock.now())


async def fill(house: World) -> None:
    asked = wish(spec=spec(), slot=64, fills="A", now=house.clock.now())
    declaration = Declaration(wish=asked, offer="L40S @ A", ceiling=Decimal(1), holder=HOLDER)
    await house.store.write(lambda tx: deployments.declare(tx, declaration, policy=POLICY))


async def test_every_volume_is_asked_for_or_the_one_that_is_named(house: World) -> None:
    answer = await house.operator.post(PREFETCH, {"place": "B"})
    assert (wished(house), [told["place"] for told in answer["places"]]) == (["B"], ["B"])
    await house.operator.post(PREFETCH)
    assert sorted(wished(house)) == ["A", "B"]
    assert house.rung


async def test_what_is_under_way_is_named_and_not_asked_for_again(house: World) -> None:
    await fill(house)
    answer = await house.operator.post(PREFETCH)
    assert [told["deployment"] for told in answer["places"]] == ["qwen-1", None]
    assert wished(house) == ["B"]


@pytest.mark.parametrize(
    ("alias", "body", "code"),
    [
        ("nobody", {}, Code.UNKNOWN_MODEL),
        ("qwen", {"place": "C"}, Code.NOT_FOUND),
        ("qwen", {"place": 1}, Code.BAD_REQUEST),
    ],
)
async def test_what_makes_no_sense_is_refused(house: World, alias: str, body: dict[str, Any], code: Code) -> None:
    with pytest.raises(Problem) as refused:
        await house.operator.post(f"/v1/models/{alias}/prefetch", body)
    assert (refused.value.code, wished(house)) == (code, [])


async def test_a_model_without_volumes_has_nothing_to_fill(house: World) -> None:
    models: Any = house.panel.models
    models["qwen"] = replace(models["qwen"], volumes=())
    with pytest.raises(Problem, match="no volumes") as refused:
        await house.operator.post(PREFETCH)
    assert refused.value.code == Code.REFUSED


async def test_why_it_is_not_begun_is_told_with_the_provider_s_words(house: World) -> None:
    house.prefetch_refusals["qwen", "A"] = start.Refuse(
        code=Code.NO_FUNDS, reason="no_funds", final=True, detail="top up your balance"
    )
    told = (await house.operator.post(PREFETCH, {"place": "A"}))["places"][0]["refusal"]
    assert (told["code"], told["final"], told["detail"]) == ("no_funds", True, "top up your balance")


async def test_what_fills_a_volume_is_shown_as_that_and_as_nothing_that_serves(house: World) -> None:
    await fill(house)
    shown = (await house.operator.get("/v1/models/qwen"))["model"]
    assert (shown["phase"], shown["volumes"]) == ("prefetching", ["A", "B"])
    assert shown["prefetches"] == [{"place": "A", "deployment": "qwen-1"}]
    gateway = await house.view()
    assert (gateway["routes"], gateway["starting"], gateway["refusal"]) == ([], None, None)
    assert 'gpuwarden_model_phase{model="qwen",phase="prefetching"} 1' in (await house.operator.text("/metrics"))


async def test_a_stop_of_the_model_forgets_what_was_wished_and_ends_what_is_under_way(house: World) -> None:
    await fill(house)
    await house.operator.post(PREFETCH)
    await house.operator.post("/v1/models/qwen/stop")
    assert (wished(house), house.record().phase, house.record().reason) == (
        [],
        Phase.CANCELLED,
        StopReason.OPERATOR_REQUEST,
    )
