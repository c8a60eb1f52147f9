"""Is a clock that went wrong told once, and a pause noticed?"""

from datetime import timedelta
from typing import Any

import pytest

from controller.store.errors import StoreUnwritable
from controller.tasks.clock_keeper import ClockKeeper
from tests.tasks.world import Bench, on_bench

HOUR = timedelta(hours=1)


async def events(bench: Bench) -> list[tuple[str, Any]]:
    told = {"clock.jumped", "alarm.raised", "alarm.cleared"}
    return [(line["event"], line["detail"]) for line in await bench.lines() if line["event"] in told]


@on_bench
async def test_a_jump_is_told_once_and_the_alarm_stands_until_it_is_over(bench: Bench) -> None:
    keeper = ClockKeeper(store=bench.store)
    await keeper.run_pass()
    bench.clock.ahead = 2 * HOUR
    for _ in range(3):
        await bench.move(10)
        await keeper.run_pass()
    ((jumped, detail), (raised, alarm)) = await events(bench)
    assert (jumped, detail["by_seconds"], detail["followed"]) == ("clock.jumped", 7200, False)
    assert (detail["from"], detail["to"]) == ("2026-11-29T12:00:10.000Z", "2026-11-29T14:00:10.000Z")
    assert (raised, alarm["alarm"]) == ("alarm.raised", "clock")
    bench.clock.ahead = timedelta()
    await bench.move(10)
    await keeper.run_pass()
    assert [event for event, _ in (await events(bench))[2:]] == ["clock.jumped", "alarm.cleared"]


@on_bench
async def test_a_jump_that_could_not_be_written_is_told_later(bench: Bench) -> None:
    keeper, real = ClockKeeper(store=bench.store), bench.store.write
    bench.clock.ahead = 2 * HOUR
    await bench.move(10)

    async def refused(work: Any) -> Any:
        raise StoreUnwritable("planted")

    bench.store.write = refused  # type: ignore[method-assign, assignment]
    with pytest.raises(StoreUnwritable):
        await keeper.run_pass()
    bench.store.write = real  # type: ignore[method-assign]
    await keeper.run_pass()
    assert [event for event, _ in await events(bench)] == ["clock.jumped", "alarm.raised"]


@pytest.mark.parametrize(
    ("held", "silent_s", "paused"), [(True, 25, False), (True, 25.001, True), (False, 75, False), (False, 75.001, True)]
)
@on_bench
async def test_a_beat_that_stayed_away_is_a_pause(bench: Bench, held: bool, silent_s: float, paused: bool) -> None:
    """With nothing held it is less frequent: nothing is judged by spans of time then."""
    if held:
        await bench.start()
    await ClockKeeper(store=bench.store).run_pass()
    await bench.move(silent_s)
    assert (bench.store.clock.now(), bench.store.clock.resumed_at is not None) == (bench.clock.now(), paused)


@on_bench
async def test_while_all_is_well_a_locked_store_is_not_asked(bench: Bench) -> None:
    bench.lock_store()
    await ClockKeeper(store=bench.store).run_pass()


@on_bench
async def test_nothing_is_written_while_all_is_well(bench: Bench) -> None:
    keeper, before = ClockKeeper(store=bench.store), bench.store.book
    assert await keeper.run_pass() == bench.clock.now() + timedelta(seconds=60)
    assert bench.store.book is before
    await bench.start()
    assert await keeper.run_pass() == bench.clock.now() + timedelta(seconds=10)
