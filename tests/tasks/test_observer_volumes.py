"""Are the volumes that models name asked for seldom, and what was known of them kept?"""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

from controller.core.storage import Storage, Stored
from controller.tasks.observer import Observer, Rules, Watched
from tests.tasks.observing import watch
from tests.tasks.world import Bench, on_bench

MINE = Stored(id="v1", place="A", models=("qwen",), found=True, size_gb=10, usd_per_month=Decimal("0.70"))


def with_volumes(bench: Bench, **changes: Any) -> Observer:
    watched = Watched(server="vllm", secret_reference=None, credential=None, volumes=True)
    rules = Rules(policy=bench.policy, watched={"qwen": watched}, wanted=frozenset)
    return bench.observer(rules=rules, **changes)


@on_bench
async def test_volumes_are_asked_for_four_times_a_day_and_never_where_no_model_names_one(bench: Bench) -> None:
    watch(bench, bench.observer())
    await bench.move(7 * 3600)
    assert bench.provider.calls["storage"] == 0
    bench.provider.storage = Storage(volumes=(MINE,))
    watch(bench, with_volumes(bench))
    await bench.move(24 * 3600 - 1)
    assert bench.provider.calls["storage"] == 4
    assert bench.view.value.storage is not None
    assert bench.view.value.storage.volumes == (MINE,)


@on_bench
async def test_volumes_that_cannot_be_read_leave_what_is_known_and_are_asked_for_each_half_hour(bench: Bench) -> None:
    bench.provider.storage = Storage(volumes=(MINE,))
    await with_volumes(bench).run_pass()
    bench.provider.storage = Storage(volumes=(replace(MINE, found=None, usd_per_month=None),), problem="scripted")
    watch(bench, with_volumes(bench))
    await bench.move(6 * 3600 + 3599)
    storage = bench.view.value.storage
    assert storage is not None
    assert (storage.volumes, storage.problem, bench.provider.calls["storage"]) == ((MINE,), "scripted", 3)


@on_bench
async def test_volumes_are_asked_for_in_time_where_nothing_else_is_due_sooner(bench: Bench) -> None:
    rare = replace(bench.policy, listing_idle=timedelta(hours=1))
    watched = Watched(server="vllm", secret_reference=None, credential=None, volumes=True)
    observer = bench.observer(rules=Rules(policy=rare, watched={"qwen": watched}, wanted=frozenset))
    bench.provider.prices = {"L40S": Decimal("0.79")}
    await bench.move(700)
    await observer.run_pass()
    assert bench.view.value.storage is not None
    asked_at = bench.clock.now() - timedelta(minutes=20)
    failed = Storage(volumes=(MINE,), asked_at=asked_at, problem="scripted")
    bench.view.publish(replace(bench.view.value, storage=failed))
    assert await observer.run_pass() == asked_at + timedelta(minutes=30)
