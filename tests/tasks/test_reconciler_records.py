"""Is what is on record held to its rules, and what came of a lost create found?"""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from controller.core.deployment import ProviderState
from controller.core.evidence import StopReason
from controller.core.identity import Tags
from controller.core.lifecycle import Phase
from controller.core.obligation import Ending
from controller.core.readiness import Verdict
from controller.providers.fake.adapter import Made
from tests.tasks.reconciling import asked, creates, passed, reconciler
from tests.tasks.world import Bench, on_bench

# What is on record


@on_bench
async def test_what_our_own_probe_finds_ready_is_active_and_first_sightings_are_kept(bench: Bench) -> None:
    await bench.start()
    await bench.move(90)
    await passed(bench, await reconciler(bench))
    assert (bench.record().phase, bench.record().ready_at) == (Phase.ACTIVE, bench.clock.now())
    assert bench.duty().seen_at == bench.clock.now()


@pytest.mark.parametrize(("served", "told"), [(("Qwen",), "Qwen"), (("Qwen", "other"), None), ((), None), (None, None)])
@on_bench
async def test_the_one_model_that_its_server_names_is_told_and_several_are_not(
    bench: Bench, served: tuple[str, ...] | None, told: str | None
) -> None:
    await bench.start()
    bench.prober.served = served
    await passed(bench, await reconciler(bench))
    observed = bench.record().observed
    assert observed is not None
    assert observed.served_model == told


@pytest.mark.parametrize(
    ("looks", "after_s", "took_s"),
    [
        ([], 60, 60),
        ([], 60.001, None),
        ([(30, Verdict.NOT_READY)], 90, 90),
        ([(30, Verdict.NOT_READY)], 90.001, None),
        ([(30, Verdict.NOT_READY), (70, Verdict.NOT_READY)], 90.001, 90.001),
        ([(30, Verdict.NOT_READY), (70, None)], 90.001, None),
        ([(30, Verdict.UNREACHABLE)], 90, 90),
        ([(30, None)], 60.001, None),
    ],
)
@on_bench
async def test_only_a_start_that_was_watched_is_measured(
    bench: Bench, looks: list[tuple[float, Verdict | None]], after_s: float, took_s: float | None
) -> None:
    """A machine that nobody could look at for nine hours did not take nine hours to start; `None`: no answer at all."""
    await bench.start()
    task, begun = await reconciler(bench), bench.clock.now()
    for at_s, verdict in [*looks, (after_s, Verdict.READY)]:
        await bench.move((begun + timedelta(seconds=at_s) - bench.clock.now()).total_seconds())
        bench.prober.verdict, bench.prober.answered = verdict or Verdict.UNREACHABLE, verdict is not None
        await passed(bench, task)
    assert bench.record().phase is Phase.ACTIVE
    assert bench.store.book.memory("qwen").cold_start == (None if took_s is None else timedelta(seconds=took_s))


@on_bench
async def test_how_long_a_start_took_whose_beginning_nobody_knows_is_not_known(bench: Bench) -> None:
    record = await bench.start()
    await bench.store.write(lambda tx: tx.put_record(replace(tx.record(record.id), started_at=None)))
    await bench.move(30)
    await passed(bench, await reconciler(bench))
    assert (bench.record().phase, bench.store.book.memory("qwen").cold_start) == (Phase.ACTIVE, None)


@pytest.mark.parametrize(("version", "told"), [("0.32.0", "runs vLLM 0.32.0"), (None, None)])
@on_bench
async def test_with_its_readiness_it_is_told_what_a_server_runs_that_says_so(
    bench: Bench, version: str | None, told: str | None
) -> None:
    record = await bench.start()
    task = await reconciler(bench)
    view = await bench.look()
    said = replace(view.probes[record.id], version=version)
    bench.view.publish(replace(view, probes={record.id: said}))
    await passed(bench, task, look=False)
    ready = (await bench.events("deployment.phase"))[-1]
    assert (ready["phase"]["to"], ready.get("detail")) == ("active", told)


@pytest.mark.parametrize(
    ("verdict", "phase", "reason"),
    [
        (Verdict.NOT_READY, Phase.REQUESTED, None),
        (Verdict.UNREACHABLE, Phase.REQUESTED, None),
        (Verdict.PROXY_REFUSED, Phase.REQUESTED, None),
        (Verdict.REFUSED, Phase.STOP_REQUIRED, StopReason.KEY_REFUSED),
        (Verdict.UNPROTECTED, Phase.STOP_REQUIRED, StopReason.UNPROTECTED),
        (Verdict.SECRET_UNSUBSTITUTED, Phase.STOP_REQUIRED, StopReason.SECRET_UNSUBSTITUTED),
    ],
)
@on_bench
async def test_what_the_probe_finds_decides(
    bench: Bench, verdict: Verdict, phase: Phase, reason: StopReason | None
) -> None:
    await bench.start()
    bench.prober.verdict = verdict
    await passed(bench, await reconciler(bench))
    assert (bench.record().phase, bench.record().reason) == (phase, reason)


@pytest.mark.parametrize(("after_s", "phase"), [(899.999, Phase.REQUESTED), (900, Phase.STOP_REQUIRED)])
@on_bench
async def test_a_start_ends_at_its_deadline(bench: Bench, after_s: float, phase: Phase) -> None:
    await bench.start()
    bench.prober.verdict = Verdict.NOT_READY
    await bench.move(after_s)
    await passed(bench, await reconciler(bench))
    assert bench.record().phase is phase


async def bills(bench: Bench, usd: str) -> None:
    """Let the provider say so in one more listing."""
    key = bench.record().key
    assert key is not None
    seen = next(seen for seen in bench.provider.resources if seen.key == key)
    bench.provider.put(replace(seen, usd_per_hour=Decimal(usd)))
    await passed(bench, await reconciler(bench))


@on_bench
async def test_a_machine_that_bills_more_than_its_model_s_ceiling_drains_after_two_listings(bench: Bench) -> None:
    await bench.serve()
    await bills(bench, "1")
    await bills(bench, "1.01")
    assert bench.record().phase is Phase.ACTIVE
    await bills(bench, "1.02")
    record = bench.record()
    assert (record.phase, record.reason) == (Phase.STOP_REQUIRED, StopReason.SPEND)
    assert record.drain_until == bench.clock.now() + bench.model.drain_limit


@on_bench
async def test_without_a_configured_ceiling_what_was_reserved_is_the_ceiling(bench: Bench) -> None:
    bench.model = replace(bench.model, usd_per_hour_max=None)
    await bench.serve()
    await bills(bench, "1.01")
    await bills(bench, "1.01")
    assert bench.record().reason is StopReason.SPEND


@on_bench
async def test_a_ceiling_that_was_lowered_is_obeyed_at_once_by_what_runs(bench: Bench) -> None:
    await bench.serve()
    bench.model = replace(bench.model, usd_per_hour_max=Decimal("0.5"))
    await bills(bench, "0.79")
    await bills(bench, "0.79")
    assert bench.record().reason is StopReason.SPEND


@on_bench
async def test_a_higher_rate_is_believed_for_all_that_it_has_cost_and_a_lower_one_is_not(bench: Bench) -> None:
    await bench.serve()
    await bills(bench, "0.9")
    await bills(bench, "0.9")
    await bills(bench, "0")
    assert bench.record().usd_per_hour == Decimal("0.9")
    (drift,) = await bench.events("ledger.drift")
    assert (drift["usd_per_hour"], drift["detail"]) == ("0.9", {"before_usd_per_hour": "0.79"})


@on_bench
async def test_a_higher_rate_that_one_listing_alone_says_is_not_believed(bench: Bench) -> None:
    """It would be what the machine is settled at: one absurd word would use up the day's limit."""
    await bench.serve()
    for usd in ("99999", "0.79", "99999"):
        await bills(bench, usd)
    assert bench.record().usd_per_hour == Decimal("0.79")


@on_bench
async def test_a_lifetime_ends_with_a_drain_and_a_broken_machine_without(bench: Bench) -> None:
    bench.policy = replace(bench.policy, max_lifetime=timedelta(hours=1))
    bench.model = replace(bench.model, drain_limit=timedelta(seconds=77))
    await bench.serve()
    await bench.serve("qwen-2", slot=1)
    broken = bench.record("qwen-2").key
    assert broken is not None
    await bench.move(3600.001)
    seen = bench.provider.described(broken, tags=bench.tags())
    bench.provider.put(replace(seen, fault=StopReason.POD_EXITED))
    await passed(bench, await reconciler(bench))
    one, other = bench.record(), bench.record("qwen-2")
    assert (one.reason, one.drain_until) == (
        StopReason.LIFETIME_EXCEEDED,
        bench.clock.now() + timedelta(seconds=77),
    )
    assert (other.reason, other.drain_until) == (StopReason.POD_EXITED, None)


@pytest.mark.parametrize(("readable", "phase"), [(True, Phase.STOP_REQUIRED), (False, Phase.ACTIVE)])
@on_bench
async def test_a_removed_model_drains_unless_the_config_could_not_be_read(
    bench: Bench, readable: bool, phase: Phase
) -> None:
    bench.policy = replace(bench.policy, drain_limit=timedelta(minutes=3))
    await bench.serve()
    await passed(bench, await reconciler(bench, models={}, config_readable=readable))
    drained_at = bench.clock.now() + timedelta(minutes=3) if readable else None
    assert (bench.record().phase, bench.record().drain_until) == (phase, drained_at)


@on_bench
async def test_what_no_listing_shows_is_held_to_its_lifetime_all_the_same(bench: Bench) -> None:
    bench.policy = replace(bench.policy, max_lifetime=timedelta(hours=1))
    key = (await bench.serve()).key
    assert key is not None
    bench.provider.vanish(key)
    await bench.move(3600.001)
    await passed(bench, await reconciler(bench))
    assert bench.record().reason is StopReason.LIFETIME_EXCEEDED


@on_bench
async def test_what_moved_to_another_key_is_followed(bench: Bench) -> None:
    key = (await bench.serve()).key
    assert key is not None
    seen = bench.provider.described(replace(key, incarnation="moved"), tags=bench.provider.resources[0].tags)
    await bench.look()
    bench.provider.vanish(key)
    bench.provider.put(seen)
    task = await reconciler(bench)
    for _ in range(2):
        await passed(bench, task)
    assert (bench.record().key, bench.duty().key) == (seen.key, seen.key)


@on_bench
async def test_what_is_declared_and_not_sent_is_not_looked_for(bench: Bench) -> None:
    await bench.plan()
    task = await reconciler(bench)
    await bench.move(3600)
    await passed(bench, task)
    assert (bench.record().phase, bench.alarms("create-unresolved")) == (Phase.DECLARED, [])


@on_bench
async def test_what_definitely_stopped_serving_is_stopped_after_its_startup_deadline(bench: Bench) -> None:
    await bench.serve()
    bench.prober.verdict = Verdict.NOT_READY
    task = await reconciler(bench)
    await passed(bench, task)
    await bench.move(899.999)
    await passed(bench, task)
    assert bench.record().phase is Phase.ACTIVE
    await bench.move(0.001)
    await passed(bench, task)
    assert bench.record().reason is StopReason.STOPPED_SERVING


@on_bench
async def test_what_serves_again_begins_that_time_anew(bench: Bench) -> None:
    await bench.serve()
    task = await reconciler(bench)
    for verdict in (Verdict.NOT_READY, Verdict.READY, Verdict.NOT_READY):
        bench.prober.verdict = verdict
        await bench.move(600)
        await passed(bench, task)
    assert bench.record().phase is Phase.ACTIVE
    assert bench.record().unready_since == bench.clock.now()


@pytest.mark.parametrize(("newer", "phase"), [(1, Phase.DISOWNED), (0, Phase.STOP_REQUIRED), (-1, Phase.STOP_REQUIRED)])
@on_bench
async def test_another_owner_s_tag_hands_over_or_is_reported(bench: Bench, newer: int, phase: Phase) -> None:
    record = await bench.serve()
    assert record.key is not None
    tags = Tags(owner="stranger", epoch=record.epoch + newer)
    bench.provider.put(bench.provider.described(record.key, tags=tags))
    await passed(bench, await reconciler(bench))
    assert bench.record().phase is phase
    if phase is Phase.DISOWNED:
        assert bench.duty().ending is Ending.TRANSFERRED
    else:
        assert (bench.record().reason, bench.duty().open) == (StopReason.OWNERSHIP_LOST, True)


@on_bench
async def test_vanished_tags_change_nothing(bench: Bench) -> None:
    record = await bench.serve()
    assert record.key is not None
    bench.provider.put(bench.provider.described(record.key, tags=Tags()))
    await passed(bench, await reconciler(bench))
    assert bench.record().phase is Phase.ACTIVE


@on_bench
async def test_a_pass_without_news_writes_nothing(bench: Bench) -> None:
    await bench.serve()
    task = await reconciler(bench)
    await passed(bench, task)
    await bench.move(60)
    before = bench.store.book
    await passed(bench, task)
    assert bench.store.book is before


# Lost creates


@on_bench
async def test_what_a_lost_create_made_is_adopted_and_not_made_again(bench: Bench) -> None:
    task = await reconciler(bench)
    bench.provider.script.creates.append(Made.LOST_BUT_MADE)
    await asked(bench, task)
    await asked(bench, task)
    (record,) = bench.store.book.live("qwen")
    assert (creates(bench), record.phase) == (1, Phase.REQUESTED)
    assert record.key == bench.provider.resources[0].key


@pytest.mark.parametrize("why", ["model removed", "stop asked for"])
@on_bench
async def test_what_a_lost_create_made_and_nobody_wants_is_owed_under_its_key(bench: Bench, why: str) -> None:
    record = await bench.lose(made=True)
    if why == "stop asked for":
        await bench.require_stop(record)
    await passed(bench, await reconciler(bench, models={}))
    assert bench.record().phase is Phase.STOP_REQUIRED
    assert (bench.duty().key, bench.duty().due) == (bench.provider.resources[0].key, True)


@on_bench
async def test_what_is_over_is_not_adopted(bench: Bench) -> None:
    await bench.lose(made=True)
    (seen,) = bench.provider.resources
    bench.provider.put(replace(seen, state=ProviderState.TERMINATED))
    await passed(bench, await reconciler(bench))
    assert bench.record().phase is Phase.UNCERTAIN


@pytest.mark.parametrize(("after_s", "alarms"), [(299.999, 0), (300, 1)])
@on_bench
async def test_a_create_that_stays_unresolved_is_alarmed_once(bench: Bench, after_s: float, alarms: int) -> None:
    await bench.lose()
    task = await reconciler(bench)
    await bench.move(after_s)
    await passed(bench, task)
    await passed(bench, task)
    assert len(bench.alarms("create-unresolved")) == alarms
    assert len(await bench.events("alarm.raised")) == alarms


@on_bench
async def test_an_unresolved_create_asks_for_a_pass_when_its_alarm_is_due_and_for_none_after_it(bench: Bench) -> None:
    await bench.lose()
    task = await reconciler(bench)
    await bench.look()
    due_at = bench.clock.now() + timedelta(seconds=300)
    assert await task.run_pass() == due_at
    await bench.move(300)
    assert await task.run_pass() is None
    bench.lock_store()  # nothing is left to be written
    assert await task.run_pass() is None


@pytest.mark.parametrize(("fits", "reason"), [({"L40S"}, None), (set(), StopReason.WRONG_RESOURCE)])
@on_bench
async def test_what_the_create_s_answer_left_out_is_compared_when_a_listing_shows_it(
    bench: Bench, fits: set[str], reason: StopReason | None
) -> None:
    """While a machine is looked for its type, its place and its mounts may be unsaid."""
    await bench.start()
    (seen,) = bench.provider.resources
    bench.provider.put(replace(seen, fits=frozenset(fits)))
    await passed(bench, await reconciler(bench))
    assert bench.record().reason is reason
