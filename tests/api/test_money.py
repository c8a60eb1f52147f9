"""Does what the provider bills stand beside what we estimate, and is unknown not nothing?"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from controller.core.billing import Bill, Bucket
from controller.core.deployment import Record
from controller.core.policy import Volume
from controller.core.storage import Storage, Stored
from tests.api.world import World, world
from tests.core.samples import model_policy

HOUR = timedelta(hours=1)


def hour_of(at: datetime) -> datetime:
    return at.replace(minute=0, second=0, microsecond=0)


def bills(house: World, *incarnations: str, hours: float = 0, problem: str | None = None) -> None:
    """The provider bills half a dollar for the first hour of each."""
    began = hour_of(house.clock.now()) - hours * HOUR
    buckets = tuple(Bucket(incarnation=name, begin=began, end=began + HOUR, micros=500_000) for name in incarnations)
    asked_at = house.clock.now()
    bill = Bill(since=began - HOUR, asked_at=asked_at, buckets=buckets, problem=problem)
    house.panel.view.publish(replace(house.panel.view.value, bill=bill))


async def served(house: World) -> Record:
    record = await house.serve()
    house.clock.advance(HOUR)
    return record


async def shown(house: World) -> dict[str, str | None]:
    money: dict[str, str | None] = (await house.operator.get("/v1/models/qwen"))["model"]["money"]
    return money


async def test_the_catalogs_prices_are_told_with_their_date_and_none_before_they_were_read(house: World) -> None:
    unread: dict[str, Any] = {"schema": 1, "priced_at": None, "card_usd_per_hour": {}}
    assert await house.operator.get("/v1/prices") == unread
    prices = {"L40S": Decimal("0.860"), "A40@EU-NL-1": Decimal(1)}
    house.panel.view.publish(
        replace(house.panel.view.value, usd_per_hour=prices, priced_at=datetime(2026, 11, 29, 8, 30, tzinfo=UTC))
    )
    assert await house.operator.get("/v1/prices") == {
        "schema": 1,
        "priced_at": "2026-11-29T08:30:00.000Z",
        "card_usd_per_hour": {"A40@EU-NL-1": "1", "L40S": "0.86"},
    }


async def test_before_it_is_on_a_bill_what_was_billed_is_unknown_beside_the_estimate(house: World) -> None:
    await served(house)
    assert await shown(house) == {"estimated_usd": "0.7900", "billed_usd": None, "billed_until": None}
    bills(house, "somebody's", hours=1)
    assert (await shown(house))["billed_usd"] is None
    lines = (await house.operator.get("/v1/models/qwen/explain"))["lines"]
    assert any("about $0.7900 so far; billed: unknown so far" in line["text"] for line in lines)


async def test_what_is_billed_is_shown_with_how_far_it_goes_for_the_machine_and_the_model_and_today(
    house: World,
) -> None:
    record = await served(house)
    bills(house, "p1", "somebody's", hours=1)
    (told,) = (await house.operator.get(f"/v1/deployments/{record.id}"))["deployments"]
    until = hour_of(house.clock.now()).isoformat()[:13]
    for money in (told["money"], await shown(house), await house.operator.get("/v1/spend")):
        assert (money["billed_usd"], str(money["billed_until"])[:13]) == ("0.5000", until)
    assert told["money"]["estimated_usd"] == "0.7900"
    lines = (await house.operator.get("/v1/models/qwen/explain"))["lines"]
    assert any("; billed: $0.5000 until" in line["text"] for line in lines)


async def test_the_sum_of_a_model_is_unknown_while_it_is_of_one_of_its_machines(house: World) -> None:
    await house.serve()
    await house.serve("qwen-2", incarnation="p2", slot=1)
    house.clock.advance(HOUR)
    bills(house, "p1", hours=1)
    assert (await shown(house))["billed_usd"] is None
    bills(house, "p1", "p2", hours=1)
    assert await shown(house) | {"billed_until": None} == {
        "estimated_usd": "1.5800",
        "billed_usd": "1.0000",
        "billed_until": None,
    }


async def test_a_bill_that_could_not_be_read_says_nothing(house: World) -> None:
    await served(house)
    bills(house, "p1", hours=1, problem="half of it")
    assert (await shown(house))["billed_usd"] is None
    assert (await house.operator.get("/v1/spend"))["billed_usd"] is None


@pytest.mark.parametrize(("on_it", "billed"), [("p1", 0.5), ("somebody's", None)])
async def test_metrics_have_no_sample_of_what_is_not_known(house: World, on_it: str, billed: float | None) -> None:
    await served(house)
    bills(house, on_it, hours=1)
    lines = (await house.operator.text("/metrics")).splitlines()
    assert any(line.startswith('gpuwarden_usd_estimated{model="qwen"} 0.79') for line in lines)
    assert ('gpuwarden_usd_billed{model="qwen"} 0.5' in lines) is (billed is not None)
    assert ("gpuwarden_spend_billed_usd 0.5" in lines) is (billed is not None)
    assert "gpuwarden_bill_age_seconds 0" in lines


UNKNOWN: dict[str, Any] = {
    "usd_per_hour": None,
    "usd_per_month": None,
    "asked_at": None,
    "problem": None,
    "volumes": [],
}
VOLUME = Stored(id="v1", place="A", models=("qwen",), found=True, size_gb=100, usd_per_month=Decimal(7))


async def storage(house: World) -> dict[str, Any]:
    told: dict[str, Any] = (await house.operator.get("/v1/status"))["storage"]
    assert (await house.operator.get("/v1/spend"))["storage"] == told
    return told


async def test_without_volumes_none_costs_anything(house: World) -> None:
    assert await storage(house) == {**UNKNOWN, "usd_per_hour": "0.0000", "usd_per_month": "0.0000"}


async def test_what_volumes_bill_is_unknown_before_the_first_look_at_them(tmp_path: Path) -> None:
    async with world(tmp_path, models=(model_policy(volumes=(Volume(place="A", offers=("L40S",)),)),)) as house:
        assert await storage(house) == UNKNOWN
        assert "gpuwarden_volumes_unpriced 0" not in await house.operator.text("/metrics")


async def test_what_volumes_bill_is_told_beside_the_day_s_money_and_what_is_unknown_of_one_is_of_the_sum(
    house: World,
) -> None:
    seen = Storage(volumes=(VOLUME,), asked_at=house.clock.now())
    house.panel.view.publish(replace(house.panel.view.value, storage=seen))
    told = await storage(house)
    assert (told["usd_per_month"], told["usd_per_hour"]) == ("7.0000", "0.0097")
    (volume,) = told["volumes"]
    assert (volume["id"], volume["place"], volume["models"], volume["size_gb"]) == ("v1", "A", ["qwen"], 100)
    lines = (await house.operator.get("/v1/models/qwen/explain"))["lines"]
    assert any(line["text"].startswith("its volume bills about $7.00 a month") for line in lines)

    odd = replace(VOLUME, id="v2", usd_per_month=None)
    house.panel.view.publish(replace(house.panel.view.value, storage=replace(seen, volumes=(VOLUME, odd))))
    assert (await storage(house))["usd_per_month"] is None
    page = await house.operator.text("/metrics")
    assert 'gpuwarden_volume_usd_per_hour{volume="v1",place="A"} 0.0097' in page
    assert 'volume="v2"' not in page
    assert "gpuwarden_volumes_unpriced 1" in page
