"""Is what no record holds stopped if it is ours, reported if it may be, and left alone otherwise?"""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from controller.core.deployment import ProviderState, SeenResource
from controller.core.evidence import Evidence, EvidenceKind, StopReason
from controller.core.identity import Tags
from controller.core.lifecycle import Phase
from controller.core.obligation import Obligation
from controller.providers.fake.adapter import Looked
from controller.store import deployments, duties
from controller.store.store import Store
from controller.tasks.orphan_sweeper import OrphanSweeper
from tests.tasks.world import Bench, on_bench

GRACE_S = 180


def sweeper(bench: Bench) -> OrphanSweeper:
    return OrphanSweeper(
        store=bench.store,
        view=bench.view,
        policy=bench.policy,
        models={"qwen": bench.model},
        holder=bench.holder,
    )


async def swept(bench: Bench, task: OrphanSweeper, *, after_s: float = 0) -> list[Obligation]:
    """Look and pass; returns what is owed without a deployment."""
    await bench.move(after_s)
    await bench.look()
    await task.run_pass()
    return [duty for duty in bench.store.book.obligations.values() if duty.deployment is None]


def copied(bench: Bench, **changes: Any) -> Tags:
    return replace(bench.tags("rcopied"), installation="elsewhere", **changes)


# Ours


@pytest.mark.parametrize(("after_s", "owed"), [(GRACE_S - 0.001, 0), (GRACE_S, 1)])
@on_bench
async def test_an_orphan_is_owed_a_stop_once_its_grace_is_over(bench: Bench, after_s: float, owed: int) -> None:
    seen, task = bench.stray(), sweeper(bench)
    assert await swept(bench, task) == []
    found = await swept(bench, task, after_s=after_s)
    assert [(duty.key, duty.reason, duty.due) for duty in found] == [(seen.key, StopReason.ORPHAN, True)] * owed


@on_bench
async def test_an_orphan_seen_in_one_listing_only_is_not(bench: Bench) -> None:
    bench.stray()
    task = sweeper(bench)
    await swept(bench, task)
    await bench.move(10 * GRACE_S)
    await task.run_pass()
    assert await bench.events("orphan.found") == []


@on_bench
async def test_a_partial_listing_suffices_and_a_failed_one_forgets_nothing(bench: Bench) -> None:
    bench.stray()
    task = sweeper(bench)
    await swept(bench, task)
    bench.provider.script.listings += [Looked.FAILED, Looked.PARTIAL]
    assert await swept(bench, task, after_s=100) == []
    assert len(await swept(bench, task, after_s=80)) == 1


@on_bench
async def test_first_sightings_survive_a_restart(bench: Bench) -> None:
    bench.stray()
    await swept(bench, sweeper(bench))
    await bench.restart()
    assert len(await swept(bench, sweeper(bench), after_s=GRACE_S)) == 1


@on_bench
async def test_what_a_complete_listing_lacks_is_forgotten(bench: Bench) -> None:
    seen, task = bench.stray(), sweeper(bench)
    await swept(bench, task)
    bench.provider.vanish(seen.key)
    await swept(bench, task, after_s=15)
    assert bench.store.book.sightings == {}
    bench.provider.put(seen)
    assert await swept(bench, task, after_s=GRACE_S) == []


@on_bench
async def test_a_pass_says_when_the_grace_is_over(bench: Bench) -> None:
    bench.stray()
    await bench.look()
    assert await sweeper(bench).run_pass() == bench.clock.now() + timedelta(seconds=GRACE_S)


@on_bench
async def test_what_a_record_holds_is_no_orphan(bench: Bench) -> None:
    await bench.serve()
    task = sweeper(bench)
    await swept(bench, task)
    assert await swept(bench, task, after_s=GRACE_S) == []
    assert bench.store.book.sightings == {}


@pytest.mark.parametrize("answered", [False, True])
@on_bench
async def test_what_a_create_in_flight_or_lost_may_have_made_is_expected(bench: Bench, answered: bool) -> None:
    if answered:
        await bench.lose(made=True)
    else:
        await bench.provider.create(bench.order(await bench.submit()))
    task = sweeper(bench)
    await swept(bench, task)
    assert await swept(bench, task, after_s=10 * GRACE_S) == []


@on_bench
async def test_a_second_resource_of_one_request_is_an_orphan(bench: Bench) -> None:
    await bench.serve()
    (seen,) = bench.provider.resources
    twin, task = bench.stray(tags=seen.tags), sweeper(bench)
    await swept(bench, task)
    assert [duty.key for duty in await swept(bench, task, after_s=GRACE_S)] == [twin.key]


@pytest.mark.parametrize(("marks", "owed"), [({}, 1), ({"owner": "somebody"}, 0), ({"request": "runheardof"}, 0)])
@on_bench
async def test_a_second_one_without_marks_is_known_by_the_request_that_we_sent(
    bench: Bench, marks: dict[str, Any], owed: int
) -> None:
    """As what waits in a queue, of which nothing is shown but the name."""
    await bench.serve()
    (seen,) = bench.provider.resources
    bench.stray(tags=replace(Tags(request=seen.tags.request), **marks), namespaced=True)
    task = sweeper(bench)
    await swept(bench, task)
    found = await swept(bench, task, after_s=GRACE_S)
    assert [duty.reason for duty in found] == [StopReason.ORPHAN] * owed


@on_bench
async def test_what_is_over_is_no_orphan(bench: Bench) -> None:
    bench.stray(state=ProviderState.TERMINATED)
    task = sweeper(bench)
    await swept(bench, task)
    assert await swept(bench, task, after_s=GRACE_S) == []


@on_bench
async def test_what_was_proven_gone_and_is_seen_again_is_owed_at_once(bench: Bench) -> None:
    record = await bench.serve()
    duty = await bench.require_stop(record)
    proof = Evidence(kind=EvidenceKind.EXTERNAL_CONFIRMATION, reference="x", observed_at=bench.clock.now())
    await bench.store.write(lambda tx: deployments.discharge(tx, duty.id, proof))
    (again,) = await swept(bench, sweeper(bench), after_s=1)
    assert (again.key, again.reason, again.due) == (record.key, StopReason.REAPPEARED, True)
    assert len(await bench.events("resource.reappeared")) == 1


@on_bench
async def test_a_listing_begun_before_the_proof_shows_nothing_again(bench: Bench) -> None:
    duty = await bench.require_stop(await bench.serve())
    await bench.look()
    await bench.move(1)
    proof = Evidence(kind=EvidenceKind.EXTERNAL_CONFIRMATION, reference="x", observed_at=bench.clock.now())
    await bench.store.write(lambda tx: deployments.discharge(tx, duty.id, proof))
    await sweeper(bench).run_pass()
    assert await bench.events("resource.reappeared") == []


@on_bench
async def test_what_a_settled_lost_create_made_after_all_is_owed_at_once(bench: Bench) -> None:
    record = await bench.lose(made=True)
    proof = Evidence(kind=EvidenceKind.INVENTORY_COMPLETE_ABSENT, reference="x", observed_at=bench.clock.now())
    await bench.store.write(lambda tx: deployments.discharge(tx, bench.duty(record).id, proof))
    (again,) = await swept(bench, sweeper(bench), after_s=1)
    assert again.reason is StopReason.REAPPEARED


@on_bench
async def test_what_came_on_record_meanwhile_is_dropped_and_fails_no_pass(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, task, write = bench.stray(), sweeper(bench), bench.store.write
    await swept(bench, task)
    await bench.move(GRACE_S)
    await bench.look()

    def held(tx: Any) -> None:
        duties.open_stray(tx, seen, StopReason.ORPHAN, holder=bench.holder, policy=bench.policy)

    async def overtaken(store: Store, work: Any) -> Any:
        if not bench.store.book.obligations and bench.store.book.sightings[seen.key].times == 2:
            await write(held)
        return await write(work)

    monkeypatch.setattr(Store, "write", overtaken)
    await task.run_pass()
    monkeypatch.undo()
    assert len(bench.store.book.obligations) == 1


# Not ours


def strangers(bench: Bench) -> dict[str, Tags]:
    ours = bench.tags("rx")
    return {
        "another owner": replace(ours, owner="stranger"),
        "no request id": replace(ours, request=None),
        "no installation": replace(ours, installation=None),
        "no tags": Tags(),
        "another installation": copied(bench),
    }


@on_bench
async def test_of_six_that_look_alike_only_ours_is_stopped_and_all_others_are_told(bench: Bench) -> None:
    ours = bench.stray("ours")
    for number, tags in enumerate(strangers(bench).values()):
        bench.stray(f"x{number}", tags=tags, created_at=None)
    task = sweeper(bench)
    await swept(bench, task)
    found = await swept(bench, task, after_s=60 * 24 * 3600)
    assert [duty.key for duty in found] == [ours.key]
    assert len(await bench.events("foreign.seen")) == 5


@on_bench
async def test_a_member_of_a_cluster_is_not_stopped(bench: Bench) -> None:
    bench.stray(cluster=True)
    task = sweeper(bench)
    await swept(bench, task)
    assert await swept(bench, task, after_s=GRACE_S) == []


@on_bench
async def test_what_has_nothing_to_do_with_us_is_left_alone(bench: Bench) -> None:
    bench.stray(tags=Tags(), namespaced=False)
    task = sweeper(bench)
    await swept(bench, task)
    assert await swept(bench, task, after_s=GRACE_S) == []


# Another installation's


@on_bench
async def test_a_copied_config_is_alarmed_until_its_resources_are_gone(bench: Bench) -> None:
    seen, task = bench.stray(tags=copied(bench)), sweeper(bench)
    await swept(bench, task)
    assert bench.alarms("copied-installation") == ["elsewhere"]
    bench.provider.script.listings.append(Looked.FAILED)
    bench.provider.vanish(seen.key)
    await swept(bench, task, after_s=15)
    assert bench.alarms("copied-installation") == ["elsewhere"]
    await swept(bench, task, after_s=15)
    assert bench.alarms("copied-installation") == []


def old(bench: Bench, *, age: timedelta) -> SeenResource:
    return bench.stray(tags=copied(bench), created_at=bench.clock.now() - age, alias=None)


@pytest.mark.parametrize(("older_by_s", "claimed"), [(-0.001, 0), (0, 1)])
@on_bench
async def test_it_is_claimed_once_it_outlived_every_lifetime(bench: Bench, older_by_s: float, claimed: int) -> None:
    watched = timedelta(minutes=15)
    old(bench, age=bench.policy.claim_age - watched - timedelta(seconds=60) + timedelta(seconds=older_by_s))
    task = sweeper(bench)
    await swept(bench, task)
    found = await swept(bench, task, after_s=16 * 60)
    assert len(found) == claimed
    assert len(await bench.events("resource.claimed")) == claimed


@pytest.mark.parametrize(("watched_s", "claimed"), [(899.999, 0), (900, 1)])
@on_bench
async def test_it_is_not_claimed_before_we_saw_it_for_a_quarter_of_an_hour(
    bench: Bench, watched_s: float, claimed: int
) -> None:
    old(bench, age=timedelta(days=300))
    task = sweeper(bench)
    await swept(bench, task)
    assert len(await swept(bench, task, after_s=watched_s)) == claimed


@on_bench
async def test_of_unknown_age_it_is_never_claimed(bench: Bench) -> None:
    bench.stray(tags=copied(bench), created_at=None)
    task = sweeper(bench)
    await swept(bench, task)
    assert await swept(bench, task, after_s=60 * 24 * 3600) == []


@on_bench
async def test_claimed_it_is_adopted_where_its_model_is_configured_and_free(bench: Bench) -> None:
    seen = old(bench, age=timedelta(days=300))
    bench.provider.put(replace(seen, alias="qwen"))
    task = sweeper(bench)
    await swept(bench, task)
    assert await swept(bench, task, after_s=900) == []
    (record,) = bench.store.book.live("qwen")
    assert (record.phase, record.key) == (Phase.REQUESTED, seen.key)
    assert bench.alarms("copied-installation") == []


# Bounds


@on_bench
async def test_many_strangers_are_written_once_in_portions_and_then_passed_over(bench: Bench) -> None:
    template = bench.stray(tags=replace(bench.tags(), owner="stranger"))
    for number in range(249):  # and the first
        bench.provider.put(replace(template, key=replace(template.key, incarnation=f"i{number}")))
    commits: list[int] = []
    bench.store.on_change(lambda: commits.append(len(bench.store.book.sightings)))
    task = sweeper(bench)
    await swept(bench, task)
    assert commits == [100, 200, 250]
    await swept(bench, task, after_s=15)
    assert commits == [100, 200, 250]
