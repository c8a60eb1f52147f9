"""Does a claim take over exactly one installation's resources, duty first?"""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from controller.core.deployment import ProviderState, SeenResource
from controller.core.evidence import StopReason
from controller.core.identity import ResourceKey
from controller.core.lifecycle import Phase
from controller.core.spend import Hold
from controller.store import deployments
from controller.store.claims import Claim, claim
from tests.core.samples import OURS, key, model_policy, resource
from tests.store.samples import HOLDER, POLICY, accept, opened, proof
from tests.support.clocks import HandClock


def theirs(incarnation: str, **changes: Any) -> SeenResource:
    tags = replace(OURS, installation="i2", epoch=70)
    return resource(**{"key": key(incarnation), "tags": tags, "alias": "qwen", **changes})


def claiming(*resources: SeenResource) -> Claim:
    return Claim(installation="i2", resources=resources, models={"qwen": model_policy()}, holder=HOLDER, policy=POLICY)


async def test_a_configured_model_s_resource_is_adopted_into_the_free_slot_with_its_duty(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        await store.write(lambda tx: claim(tx, claiming(theirs("p1"))))
        (record,) = store.book.records.values()
        (duty,) = store.book.duties(record.id)
        assert (record.phase, record.key, record.slot) == (Phase.REQUESTED, key("p1"), 0)
        assert (duty.key, duty.due_at) == (key("p1"), None)
        assert record.epoch == duty.epoch > 70


async def test_a_resource_made_in_time_to_come_lives_no_longer_for_it(tmp_path: Path) -> None:
    clock = HandClock()
    async with opened(tmp_path, clock) as store:
        made_at = clock.now() + timedelta(days=400)
        await store.write(lambda tx: claim(tx, claiming(theirs("p1", created_at=made_at))))
        (record,) = store.book.records.values()
        assert record.started_at == clock.now()


async def test_an_adopted_resource_holds_the_rest_of_today_up_to_its_lifetime(tmp_path: Path) -> None:
    clock = HandClock()
    async with opened(tmp_path, clock) as store:
        made_at = clock.now() - timedelta(days=7) + timedelta(hours=2)
        await store.write(lambda tx: claim(tx, claiming(theirs("p1", created_at=made_at))))
        (record,), (held,) = store.book.records.values(), store.book.reservations.values()
        assert (held.deployment, held.hold, held.reserved_micros) == (record.id, Hold.STARTED, 2 * 790_000)
        assert held.begun_at == made_at


async def test_an_adopted_resource_of_untold_price_holds_its_model_s_ceiling(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        models = {"qwen": model_policy(usd_per_hour_max=Decimal(2))}
        asked = replace(claiming(theirs("p1", usd_per_hour=None)), models=models)
        await store.write(lambda tx: claim(tx, asked))
        (held,) = store.book.reservations.values()
        assert held.reserved_micros == 24_000_000


async def test_a_claimed_resource_is_settled_with_its_proof(tmp_path: Path) -> None:
    clock = HandClock()
    async with opened(tmp_path, clock) as store:
        (duty,) = await store.write(lambda tx: claim(tx, claiming(theirs("p1"))))
        (record,) = store.book.records.values()
        await store.write(lambda tx: deployments.require_stop(tx, record, StopReason.IDLE))
        clock.move(timedelta(hours=1))
        await store.write(lambda tx: deployments.discharge(tx, duty, proof("listing 9")))
        (held,) = store.book.reservations.values()
        assert (held.settled_micros, held.evidence_reference) == (790_000, "listing 9")


@pytest.mark.parametrize("alias", [None, "removed"])
async def test_a_resource_of_no_configured_model_is_owed_a_stop(tmp_path: Path, alias: str | None) -> None:
    async with opened(tmp_path, HandClock()) as store:
        await store.write(lambda tx: claim(tx, claiming(theirs("p1", alias=alias))))
        (owed,) = store.book.owed()
        assert (owed.key, owed.reason, store.book.records) == (key("p1"), StopReason.ORPHAN, {})


async def test_where_no_slot_is_free_it_is_owed_a_stop(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        await store.write(lambda tx: claim(tx, claiming(theirs("p1"), theirs("p2"))))
        owed: list[ResourceKey | None] = [duty.key for duty in store.book.owed()]
        assert (len(store.book.records), owed) == (1, [key("p2")])


async def test_only_that_installation_s_living_resources_that_nobody_holds_are_taken(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        await store.write(lambda tx: accept(tx, "d1", "p9", model="held"))
        others = [
            theirs("p1", tags=replace(OURS, installation="i3")),
            theirs("p2", tags=replace(OURS, owner="other", installation="i2")),
            theirs("p3", state=ProviderState.TERMINATED),
            theirs("p9"),
        ]
        assert await store.write(lambda tx: claim(tx, claiming(*others))) == []


async def test_a_claimed_installation_is_ours_from_then_on(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        await store.write(lambda tx: claim(tx, claiming()))
        assert store.book.owner.holds(replace(OURS, installation="i2"))
    async with opened(tmp_path, HandClock()) as store:
        assert store.book.owner.claimed == {"i2"}
