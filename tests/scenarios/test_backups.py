"""What happens when an old copy of the store is put back?

Case B15's sibling, RP-52: since the copy was made epochs were given, machines were started and stopped. Nothing that
serves is swept, nothing is made twice, no epoch and no number repeats, and everything is stopped in the end.
"""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from controller.cli.evidence import verify
from controller.cli.exits import Exit
from controller.core.evidence_chain import RESTORED
from controller.core.lifecycle import Phase
from controller.core.restoration import RAISED_BY
from controller.settings import load
from controller.store.backups import back_up, contents, put_back
from tests.scenarios.world import Box, World, scenario

PutBack = Callable[[World, Path], None]


def store_of(world: World) -> Path:
    return world.state / "gpuwarden.db"


def copied(world: World) -> Path:
    """A copy of the store as it is now."""
    copy = world.folder / f"copy-{world.now_s}"
    back_up(store_of(world), copy)
    return copy


def by_command(world: World, copy: Path) -> None:
    held = contents(copy)
    identity = (held.owner, held.provider, held.account)
    put_back(copy, store_of(world), identity=identity, now=world.clock.now())


def by_hand(world: World, copy: Path) -> None:
    """As somebody does who knows of no command."""
    for path in world.state.glob("gpuwarden.db*"):
        path.unlink()
    shutil.copy(copy, store_of(world))


def by_hand_with_no_evidence_left(world: World, copy: Path) -> None:
    by_hand(world, copy)
    world.excepted.add("lost-store")
    (world.state / "evidence.jsonl").unlink()


ways = pytest.mark.parametrize("way", [by_command, by_hand, by_hand_with_no_evidence_left])


async def both_served(world: World, box: Box, *aliases: str) -> None:
    asked = [world.soon(box.chat(world, alias)) for alias in aliases or ("m1", "m2")]
    await world.until(lambda: all(pending.done for pending in asked), within=400)
    assert {pending.got.status for pending in asked} == {200}


async def ends_well(world: World, box: Box, *, deletes: int) -> None:
    """Idle rules apply to whatever is there; then nothing is left, and the evidence is whole."""
    await world.until(lambda: not world.alive(), within=900)
    await world.until(lambda: not [d for d in box.daemon.store.book.obligations.values() if d.open], within=400)
    await world.at(world.now_s + 400)
    assert len(world.deletes()) == deletes
    assert box.daemon.store.book.matching_since is None
    assert ("store-restored", "store") not in box.daemon.store.book.alarms


async def verified(world: World) -> None:
    """By the command, against the store: the daemon is down."""
    assert await verify(load(world.folder / "config.toml", {}), as_json=True) is Exit.UNREACHABLE


@ways
@pytest.mark.parametrize("moment", ["before the creates", "between create and answer", "serving", "one of two"])
def test_copy_made_at_any_moment_of_a_start_ends_in_the_same_machines_serving(moment: str, way: PutBack) -> None:
    async def play(world: World) -> None:
        world.configure("m1", "m2")
        creating = {"method": "POST", "path": "/v2/pods"}
        world.emulator.add_faults([{"match": creating, "times": 2, "do": {"delay": 3.0}}])
        async with world.box(crash=True) as box:
            copy = copied(world)
            if moment == "one of two":
                await both_served(world, box, "m1")
                copy = copied(world)
            asked = [world.soon(box.chat(world, alias)) for alias in ("m1", "m2")]
            if moment == "between create and answer":
                await world.until(lambda: len(world.events("create.submitted")) == 2, within=10)
                copy = copied(world)
            await world.until(lambda: all(pending.done for pending in asked), within=100)
            if moment == "serving":
                copy = copied(world)
            await world.at(world.now_s + 60)
            made = {pod["id"] for pod in world.alive()}
            latest = box.daemon.store.book.epoch_latest
        way(world, copy)
        async with world.box() as box:
            await both_served(world, box)
            assert {pod["id"] for pod in world.alive()} == made
            assert len(world.creates()) == 2
            assert world.deletes() == []
            lowest = min(record.epoch for record in box.daemon.store.book.live())
            assert lowest > (RAISED_BY if way is by_command else latest)
            await ends_well(world, box, deletes=2)
        await verified(world)

    scenario(play)


@pytest.mark.parametrize("way", [by_command, by_hand])
def test_machine_that_followed_an_idle_stop_after_the_copy_is_kept_and_serves(way: PutBack) -> None:
    async def play(world: World) -> None:
        world.configure("m1", "m2")
        async with world.box(crash=True) as box:
            await both_served(world, box)
            copy = copied(world)
            await world.until(lambda: not world.alive(), within=500)
            await world.at(world.now_s + 60)
            await both_served(world, box)
            second = {pod["id"] for pod in world.alive()}
        way(world, copy)
        async with world.box() as box:
            await both_served(world, box)
            assert {pod["id"] for pod in world.alive()} == second
            assert len(world.creates()) == 4
            assert len(world.deletes()) == 2
            await ends_well(world, box, deletes=4)
        await verified(world)

    scenario(play)


@pytest.mark.parametrize("way", [by_command, by_hand])
def test_machines_stopped_after_the_copy_are_proven_gone_and_started_again_only_when_asked(way: PutBack) -> None:
    async def play(world: World) -> None:
        world.configure("m1", "m2")
        async with world.box(crash=True) as box:
            await both_served(world, box)
            copy = copied(world)
            await world.until(lambda: not world.alive(), within=500)
            await world.at(world.now_s + 60)
        way(world, copy)
        async with world.box() as box:
            await world.at(world.now_s + 400)
            assert [record.phase for record in box.daemon.store.book.live()] == []
            assert len(world.creates()) == 2
            await both_served(world, box)
            assert len(world.creates()) == 4
            await ends_well(world, box, deletes=4)

    scenario(play)


def test_create_of_the_last_moment_that_listings_show_late_is_found_before_another_is_made() -> None:
    """HC-20's sibling: the record of the create is lost as well as its answer."""

    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box(crash=True) as box:
            copy = copied(world)
            world.soon(box.chat(world))
            await world.until(lambda: bool(world.creates()), within=10)
        by_command(world, copy)
        async with world.box() as box:
            await both_served(world, box, "m1")
            assert len(world.creates()) == 1
            await ends_well(world, box, deletes=1)

    scenario(play, list_lag_seconds=60)


def test_what_nobody_wants_any_more_is_owed_a_stop_with_proof() -> None:
    async def play(world: World) -> None:
        world.configure("m1", "m2")
        async with world.box(crash=True) as box:
            copy = copied(world)
            await both_served(world, box)
        world.configure("m1")
        by_command(world, copy)
        async with world.box() as box:
            await world.until(lambda: len(world.alive()) == 1, within=30)
            assert [pod["name"].split("-")[1] for pod in world.alive()] == ["m1"]
            await ends_well(world, box, deletes=2)

    scenario(play)


def test_stream_that_outlives_the_store_keeps_its_machine_though_nothing_else_tells_of_it() -> None:
    """A gateway goes on serving; the copy is older than the machine, and the evidence is lost with the disk."""

    async def play(world: World) -> None:
        world.configure("m1")
        async with world.front("m1") as front:
            async with world.box(front=front, crash=True) as box:
                copy = copied(world)
                await both_served(world, box, "m1")
                streaming = world.soon(box.chat(world, stream=True, max_tokens=900))
                await world.at(world.now_s + 20)
                (record,) = box.daemon.store.book.live()
            by_hand_with_no_evidence_left(world, copy)
            async with world.box(front=front) as box:
                await world.until(lambda: bool(box.daemon.store.book.live()), within=30)
                (adopted,) = box.daemon.store.book.live()
                assert (adopted.id, adopted.epoch > RAISED_BY) == (record.id, True)
                await world.until(lambda: streaming.done, within=1000)
                assert world.deletes() == []
                await ends_well(world, box, deletes=1)

    scenario(play, token_rate=1)


def test_machine_whose_environment_is_hidden_is_adopted_on_the_word_of_a_gateway() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.front("m1") as front:
            async with world.box(front=front, crash=True) as box:
                copy = copied(world)
                await both_served(world, box, "m1")
                streaming = world.soon(box.chat(world, stream=True, max_tokens=100))
                await world.at(world.now_s + 20)
                (record,) = box.daemon.store.book.live()
            by_hand_with_no_evidence_left(world, copy)
            async with world.box(front=front) as box:
                await world.until(lambda: bool(box.daemon.store.book.live()), within=30)
                assert [adopted.id for adopted in box.daemon.store.book.live()] == [record.id]
                await world.until(lambda: streaming.done, within=200)
                await ends_well(world, box, deletes=1)

    scenario(play, token_rate=1, echo_env="none")


def test_no_create_leaves_while_listings_fail_after_a_restore() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box(crash=True) as box:
            copy = copied(world)
            await both_served(world, box, "m1")
        by_command(world, copy)
        world.emulator.add_faults([{"match": {"method": "GET", "path": "/v2/pods"}, "do": {"answer": 500}}])
        async with world.box() as box:
            asked = world.soon(box.chat(world))
            await world.at(world.now_s + 300)
            assert len(world.creates()) == 1
            world.emulator.clear_faults()
            await world.until(lambda: asked.done, within=100)
            assert (asked.got.status, len(world.creates())) == (200, 1)
            await ends_well(world, box, deletes=1)

    scenario(play)


def test_old_copy_that_is_restored_again_and_again_repeats_nothing() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box(crash=True) as box:
            copy = copied(world)
            await both_served(world, box, "m1")
        for way in (by_command, by_hand, by_command):
            way(world, copy)
            async with world.box(crash=True) as box:
                await both_served(world, box, "m1")
                assert len(world.creates()) == 1
        breaks = world.events(RESTORED)
        assert [line["detail"]["epoch"] for line in breaks] == sorted({line["detail"]["epoch"] for line in breaks})
        assert len(breaks) == 3
        async with world.box() as box:
            await ends_well(world, box, deletes=1)
        await verified(world)

    scenario(play)


def test_crash_before_the_break_is_in_the_file_declares_it_once() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box(crash=True) as box:
            copy = copied(world)
            await both_served(world, box, "m1")
        by_command(world, copy)
        async with world.daemon(crash=True):
            assert world.events(RESTORED) == []
        async with world.box() as box:
            await both_served(world, box, "m1")
            assert len(world.events(RESTORED)) == 1
            await ends_well(world, box, deletes=1)
        await verified(world)

    scenario(play)


def test_copy_from_a_time_to_come_stops_what_is_due_and_creates_nothing() -> None:
    """HC-32: its mark is a day ahead."""

    async def play(world: World) -> None:
        world.configure("m1", "m2")
        async with world.box(crash=True) as box:
            await both_served(world, box, "m1")
            copy = copied(world)
        with closing(sqlite3.connect(copy)) as rows, rows:
            rows.execute("UPDATE meta SET mark_ms = mark_ms + 86400000")
        by_command(world, copy)
        async with world.box() as box:
            asked: dict[str, Any] = {"prefer": "wait=0"}
            await world.at(world.now_s + 200)
            assert (await box.chat(world, "m2", **asked)).status == 503
            await world.until(lambda: box.daemon.store.book.matching_since is None, within=200)
            await anyio.sleep(60)
            assert len(world.creates()) == 1
            await box.operators.post("/v1/models/m1/stop", {"now": True})
            await world.until(lambda: not world.alive(), within=30)

    scenario(play)


def test_copy_from_long_ago_holds_nothing_up_by_its_mark() -> None:
    async def play(world: World) -> None:
        world.configure("m1")
        async with world.box() as box:
            await world.at(5)
            copy = copied(world)
        await world.at(90 * 24 * 3600)
        by_command(world, copy)
        async with world.box() as box:
            await both_served(world, box, "m1")
            assert [record.phase for record in box.daemon.store.book.live()] == [Phase.ACTIVE]
            await ends_well(world, box, deletes=1)

    scenario(play)
