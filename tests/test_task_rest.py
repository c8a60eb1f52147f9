"""Does a task sleep on while nothing concerns it, and never through what does?"""

from dataclasses import replace
from datetime import datetime
from functools import partial

import anyio
import pytest

from controller.core.identity import DeploymentId
from controller.core.lease import Lease
from controller.news import Change, Changes, Looks
from controller.supervision import Pulse, Runner, keep_running
from tests.support.loop_clock import BEGIN, LoopClock
from tests.support.passing import Passes, S, at, fail, runner_of
from tests.support.virtual_time import run_virtual


@pytest.mark.parametrize(
    ("until", "began_s"), [(None, [0, 300]), (120.0, [0, 120, 420]), (500.0, [0, 300])], ids=["none", "nearer", "later"]
)
def test_at_rest_a_pass_comes_at_its_deadline_and_no_later_than_five_minutes(
    until: float | None, began_s: list[float]
) -> None:
    task = Passes(*([] if until is None else [at(until)]))
    runners: list[Runner] = []

    async def main() -> None:
        runners.append(runner_of(task))
        runners[0].at_rest = lambda: True
        with anyio.move_on_after(450):
            await keep_running(runners[0], clock=LoopClock(), failures_max=8)

    run_virtual(main)
    assert task.began_s == pytest.approx(began_s)


@pytest.mark.parametrize(("after_s", "silent"), [(420, False), (420.001, True)])
def test_a_task_that_means_to_rest_is_silent_only_after_its_rest(after_s: float, silent: bool) -> None:
    pulse = Pulse(name="x", period=60 * S, last_pass_at=BEGIN)
    pulse.rests(300 * S)
    assert pulse.silent(BEGIN + after_s * S) is silent


def change(*book: str, view: tuple[str, ...] = (), at_rest: bool = False, rest_changed: bool = False) -> Change:
    return Change(book=frozenset(book), view=frozenset(view), at_rest=at_rest, rest_changed=rest_changed)


def informed(task: Passes) -> Runner:
    runner = runner_of(task)
    runner.looks = Looks.of(book=("part",))
    return runner


@pytest.mark.parametrize(
    ("replaced", "idle", "began_s"), [(False, False, [0]), (True, False, [0, 7]), (True, True, [0])]
)
def test_news_wakes_only_who_looks_at_what_was_replaced_and_has_something_to_do(
    replaced: bool, idle: bool, began_s: list[float]
) -> None:
    task = Passes()

    async def main() -> None:
        runner = informed(task)
        runner.idle = lambda: idle
        async with anyio.create_task_group() as group:
            group.start_soon(partial(keep_running, runner, clock=LoopClock(), failures_max=8))
            await anyio.sleep(7)
            runner.news(change("part" if replaced else "other"))
            await anyio.sleep(7)
            group.cancel_scope.cancel()

    run_virtual(main)
    assert task.began_s == pytest.approx(began_s)


def test_news_in_the_midst_of_a_pass_is_not_lost() -> None:
    """The pass may have read the part before it was replaced."""

    async def overtaken() -> datetime | None:
        await anyio.sleep(1)
        runner.news(change("part"))
        await anyio.sleep(1)
        return None

    task = Passes(overtaken)
    runner = informed(task)

    async def main() -> None:
        with anyio.move_on_after(30):
            await keep_running(runner, clock=LoopClock(), failures_max=8)

    run_virtual(main)
    assert task.began_s == pytest.approx([0, 2])


def test_who_does_not_say_what_it_looks_at_is_woken_by_all_news() -> None:
    task = Passes()

    async def main() -> None:
        runner = runner_of(task)
        async with anyio.create_task_group() as group:
            group.start_soon(partial(keep_running, runner, clock=LoopClock(), failures_max=8))
            await anyio.sleep(7)
            runner.news(change())
            await anyio.sleep(7)
            group.cancel_scope.cancel()

    run_virtual(main)
    assert task.began_s == pytest.approx([0, 7])


class Record:
    """A moment of what is on record."""

    def __init__(self, part: object, *, at_rest: bool) -> None:
        self.part, self.at_rest, self.else_ = part, at_rest, object()


class Sight:
    """A moment of what was seen."""

    def __init__(self, always: object, held: object) -> None:
        self.always, self.held, self.else_ = always, held, object()


LOOKS = Looks.of(book=("part",), view=("always",), view_held=("held",))


@pytest.mark.parametrize(
    ("changed", "at_rest", "differs"),
    [
        ("else", False, False),
        ("part", False, True),
        ("part", True, True),
        ("always", False, True),
        ("always", True, True),
        ("held", False, True),
        ("held", True, False),
        ("rest", True, True),
        ("rest", False, True),
    ],
)
def test_what_a_task_looks_at_is_news_and_a_rest_that_begins_or_ends(
    changed: str, at_rest: bool, differs: bool
) -> None:
    part, always, held = object(), object(), object()
    former = (Record(part, at_rest=at_rest), Sight(always, held))
    latter = (
        Record(object() if changed == "part" else part, at_rest=at_rest is not (changed == "rest")),
        Sight(object() if changed == "always" else always, object() if changed == "held" else held),
    )
    changes = Changes([LOOKS, Looks.of(book=("else_",), view=("else_",))])
    assert LOOKS.concern(changes.since(*former))
    assert not LOOKS.concern(changes.since(*former))
    assert LOOKS.concern(changes.since(*latter)) is differs


@pytest.mark.parametrize(
    ("changed", "settled", "differs"),
    [("open", True, False), ("open", False, True), ("seen", True, False), ("seen", False, True), ("part", True, True)],
)
def test_what_decides_while_something_is_open_is_news_only_then(changed: str, settled: bool, differs: bool) -> None:
    looks = Looks.of(book=("part",), book_open=("open",), view_open=("seen",))
    news = change(changed, view=(changed,))
    assert looks.concern(news, settled=settled) is differs


def woken_by_news(left_open: bool, *, in_the_midst: bool = False) -> bool:
    """Is a task woken by what decides only while something is open?"""

    async def overtaken() -> datetime | None:
        await anyio.sleep(1)
        if in_the_midst:
            runner.news(change("open"))
        return None

    task = Passes(overtaken)
    runner = runner_of(task)
    runner.looks, runner.left_open = Looks.of(book_open=("open",)), lambda: left_open

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(partial(keep_running, runner, clock=LoopClock(), failures_max=8))
            await anyio.sleep(2)
            if not in_the_midst:
                runner.news(change("open"))
            await anyio.sleep(1)
            group.cancel_scope.cancel()

    run_virtual(main)
    return len(task.began_s) == 2


@pytest.mark.parametrize("left_open", [False, True])
def test_a_pass_that_left_nothing_open_is_slept_after(left_open: bool) -> None:
    assert woken_by_news(left_open) is left_open


def test_while_a_pass_goes_on_everything_may_be_open() -> None:
    assert woken_by_news(False, in_the_midst=True)


def test_after_a_failed_pass_everything_may_be_open() -> None:
    """It may not have come to what is open; and what it said of the pass before is old."""
    task = Passes(at(60.0), fail)
    runner = runner_of(task)
    runner.looks, runner.left_open = Looks.of(book_open=("open",)), lambda: False
    told: list[bool] = []

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(partial(keep_running, runner, clock=LoopClock(), failures_max=8))
            await anyio.sleep(1)
            told.append(runner.settled)
            await anyio.sleep(59.5)
            told.append(runner.settled)
            group.cancel_scope.cancel()

    run_virtual(main)
    assert told == [True, False]


def test_a_facet_is_news_only_where_more_than_it_leaves_out_has_changed() -> None:
    former, renewed, anew = (held({"d1": one}) for one in (LEASE, replace(LEASE, expires_at=None), LEASE))
    changes = Changes([Looks.of(book=("held_leases",))])
    changes.since(former, None)
    assert changes.since(anew, None).book == frozenset()
    assert changes.since(renewed, None).book == {"held_leases"}


LEASE = Lease(deployment=DeploymentId("d1"), holder="h", epoch=1, expires_at=BEGIN)


class Held(Record):
    """A moment of what is leased."""

    def __init__(self, leases: dict[str, Lease]) -> None:
        super().__init__(None, at_rest=False)
        self.leases = leases


def held(leases: dict[str, Lease]) -> Held:
    return Held(leases)
