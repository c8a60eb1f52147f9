"""What does an operator's restart write, and what is told of a machine that makes way?"""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from controller.api.client import Problem
from controller.core import start
from controller.core.deployment import Record
from controller.core.errors import Code
from controller.core.evidence import StopReason
from controller.core.identity import DeploymentId
from controller.core.lifecycle import Phase
from controller.store import deployments, owing, replacing
from controller.store.deployments import Declaration
from tests.api.world import HOLDER, POLICY, World, at
from tests.core.samples import spec, wish

RESTART = "/v1/models/qwen/restart"


async def told(house: World) -> list[str]:
    lines = (await house.operator.get("/v1/models/qwen/explain"))["lines"]
    return [line["text"] for line in lines]


async def why(house: World) -> str:
    return str((await house.operator.get("/v1/models/qwen"))["model"]["why"])


async def shown(house: World, name: str = "qwen-1") -> dict[str, Any]:
    found: dict[str, Any] = (await house.operator.get(f"/v1/deployments/{name}"))["deployments"][0]
    return found


async def succeeded(house: World) -> Record:
    """`qwen-2` is declared to replace `qwen-1`."""
    asked = wish(spec=spec(id=DeploymentId("qwen-2")), replaces=DeploymentId("qwen-1"), now=house.clock.now())
    declaration = Declaration(wish=asked, offer="L40S", ceiling=Decimal(1), holder=HOLDER)
    planned = await house.store.write(lambda tx: deployments.declare(tx, declaration, policy=POLICY))
    return planned.record


async def test_a_restart_is_on_record_before_it_is_accepted_and_names_what_makes_way(house: World) -> None:
    await house.serve()
    answer = await house.operator.post(RESTART)
    assert answer["replaced"] == ["qwen-1"]
    assert house.record().restart_asked_at == house.clock.now()
    assert (await shown(house))["restart_asked_at"] == at(house.clock.now())
    assert house.rung


async def test_what_does_not_serve_is_not_restarted(house: World) -> None:
    assert (await house.operator.post(RESTART))["replaced"] == []
    await house.request()
    assert (await house.operator.post(RESTART))["replaced"] == []
    assert house.record().restart_asked_at is None


async def test_a_restart_of_an_unknown_model_is_refused(house: World) -> None:
    with pytest.raises(Problem) as unknown:
        await house.operator.post("/v1/models/llama/restart")
    assert unknown.value.code == "unknown_model"


async def test_a_restart_while_it_is_being_replaced_asks_nothing_of_the_successor(house: World) -> None:
    await house.serve()
    await succeeded(house)
    assert (await house.operator.post(RESTART))["replaced"] == ["qwen-1"]
    assert house.record("qwen-2").restart_asked_at is None


async def test_who_replaces_whom_is_told_on_both_and_in_one_line(house: World) -> None:
    await house.serve()
    await succeeded(house)
    assert (await shown(house))["replaced_by"] == "qwen-2"
    assert (await shown(house, "qwen-2"))["replaces"] == "qwen-1"
    assert "being replaced by qwen-2, and serves until that one does" in await told(house)
    assert (await why(house)).endswith("; being replaced by qwen-2")


async def test_what_waits_for_its_successor_is_told_with_the_reason(house: World) -> None:
    await house.serve()
    house.refuse("qwen-1", start.Refuse(code=Code.REFUSED, reason="no room", final=False))
    assert "waits for its successor, and serves meanwhile: no room" in await told(house)
    assert (await why(house)).endswith("; waits for its successor")
    refused = {"code": "refused", "reason": "no room", "final": False, "retry_at": None}
    assert (await shown(house))["successor_refused"] == refused


async def test_what_drains_says_what_it_was_replaced_by(house: World) -> None:
    old = await house.serve()
    new = await succeeded(house)
    until = house.clock.now()
    await owing.oblige_by(house.store, replacing.retirement(old, new, drain_until=until))
    assert house.record().reason is StopReason.REPLACED
    assert (await why(house)) == "stopping: replaced by qwen-2"


async def test_a_gateway_s_proof_is_kept_of_a_successor_only(house: World) -> None:
    await house.serve()
    await house.report("proved")
    assert house.record().proven_at is None
    successor = replace(house.record(), replaces=DeploymentId("qwen-0"))
    await house.store.write(lambda tx: tx.put_record(successor))
    await house.report("proved", epoch=house.record().epoch + 1)
    assert house.record().proven_at is None
    await house.report("proved")
    assert (house.record().phase, house.record().proven_at) == (Phase.ACTIVE, house.clock.now())
