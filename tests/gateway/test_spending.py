"""What is a client charged, and what happens when its day's budget is spent?"""

import fcntl
import json
import os
import stat
from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.gateway.day_book import Busy, DayBook, Micros, Unreadable
from controller.gateway.shares import Share
from tests.gateway.test_clients import Kept, client
from tests.gateway.world import ENDPOINT, Answered, World, asking, in_world, together
from tests.support.fake_daemon import route

DAY_S = 86_400


@given(
    st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100)), min_size=1, max_size=12),
    st.floats(0.1, 50),
)
def test_the_parts_of_all_come_to_the_price_of_the_time_in_which_any_was_open(
    spans: list[tuple[float, float]], usd_per_hour: float
) -> None:
    share = Share(usd_per_hour, 0.0)
    begins = [(begin, 0, number) for number, (begin, _) in enumerate(spans)]
    moves = sorted([*begins, *((begin + spans[number][1], 1, number) for begin, _, number in begins)])
    marks: dict[int, float] = {}
    paid = 0.0
    busy_s, open_now, before = 0.0, 0, 0.0
    for instant, ends, number in moves:
        busy_s += (instant - before) if open_now else 0.0
        before = instant
        if ends:
            paid += share.end(instant) - marks[number]
            open_now -= 1
        else:
            marks[number] = share.begin(instant)
            open_now += 1
    assert paid == pytest.approx(usd_per_hour / 3600 * busy_s, abs=1e-9)
    assert share.open == 0


def test_each_pays_by_how_many_were_open_beside_it_and_a_new_price_holds_from_then_on() -> None:
    share = Share(3600.0, 0.0)
    one = share.begin(0.0)
    two = share.begin(10.0)
    assert share.end(20.0) - one == pytest.approx(10 + 5)
    share.reprice(7200.0, 25.0)
    assert share.end(30.0) - two == pytest.approx(5 + 5 + 10)
    assert share.begin(100.0) == share.mark(100.0)  # what nobody uses is charged to nobody


def test_several_processes_add_to_one_book_and_read_the_sum(tmp_path: Path) -> None:
    one, two = DayBook(tmp_path / "state" / "spent.json"), DayBook(tmp_path / "state" / "spent.json")
    assert one.add("2026-11-29", {"alice": 5}) == {"alice": 5}
    assert two.add("2026-11-29", {"alice": 7, "bob": 1}) == {"alice": 12, "bob": 1}
    assert one.read("2026-11-29") == {"alice": 12, "bob": 1}
    assert stat.S_IMODE(one.path.stat().st_mode) == 0o600
    assert one.read("2026-11-30") == {}
    assert one.add("2026-11-30", {"bob": 2}) == {"bob": 2}
    assert [path.name for path in one.path.parent.iterdir()] == ["spent.json"]


def test_a_book_in_use_is_not_waited_for(tmp_path: Path) -> None:
    book = DayBook(tmp_path / "spent.json")
    held = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    with pytest.raises(Busy):
        book.add("2026-11-29", {"alice": 5})
    os.close(held)
    assert book.add("2026-11-29", {"alice": 5}) == {"alice": 5}


@pytest.mark.parametrize("content", ["{", "[]", '{"day":"2026-11-29"}', '{"day":"2026-11-29","usd_micros":{"a":-1}}'])
def test_a_book_that_cannot_be_believed_is_an_error_and_is_left_alone(tmp_path: Path, content: str) -> None:
    book = DayBook(tmp_path / "spent.json")
    book.path.write_text(content)
    with pytest.raises(Unreadable):
        book.read("2026-11-29")
    with pytest.raises(Unreadable):
        book.add("2026-11-29", {"alice": 5})
    assert book.path.read_text() == content


def test_an_empty_book_and_none_say_that_nothing_was_spent(tmp_path: Path) -> None:
    book = DayBook(tmp_path / "spent.json")
    assert book.read("2026-11-29") == {}
    book.path.write_text("")
    assert book.read("2026-11-29") == {}


# At 3.6 USD an hour a second costs 0.001 USD, which is what the stand-in for the daemon tells.


def limited(usd: str, scene: Any, **changes: Any) -> Any:
    kept = Kept(client("alice", usd_per_day=Decimal(usd)), client("bob"))
    return in_world(scene, read_clients=kept.read, **changes)


def told(answer: Answered) -> tuple[int, bytes | None, bytes | None]:
    return (
        answer.status,
        answer.headers.get(b"x-gpuwarden-usd-today"),
        answer.headers.get(b"x-gpuwarden-usd-limit"),
    )


def test_a_budget_is_told_and_ends_in_a_429_that_wakes_nothing_and_is_not_tried_again() -> None:
    async def scene(world: World) -> tuple[list[Answered], int, str]:
        await world.ready()
        world.server.think_s = 10
        answers = [await world.ask(asking(), key="alice") for _ in range(3)]
        await world.changed("m1", routes=[], phase="off")
        answers.append(await world.ask(asking(), key="alice"))
        metrics = (await world.ask(b"", path="/metrics", method="GET")).body.decode()
        return answers, len(world.daemon.starts), metrics

    (one, two, refused, cold), starts, metrics = limited("0.015", scene)
    assert told(one) == (200, b"0.000000", b"0.015")
    assert told(two) == (200, b"0.010000", b"0.015")
    assert told(refused) == (429, b"0.020000", b"0.015")
    assert (refused.code, refused.headers[b"x-should-retry"]) == ("budget_exhausted", b"false")
    assert refused.error["resets_at"] == "2026-11-30T00:00:00Z"
    assert (cold.status, starts) == (429, 0)
    assert 'client_usd_today{client="alice"} 0.02' in metrics
    assert 'client_limited_total{client="alice",limit="usd_per_day"} 2.0' in metrics


@pytest.mark.parametrize(("usd", "status"), [("0.010001", 200), ("0.01", 429)])
def test_what_was_spent_to_the_micro_dollar_is_spent(usd: str, status: int) -> None:
    async def scene(world: World) -> int:
        await world.ready()
        world.server.think_s = 10.0000005
        await world.ask(asking(), key="alice")
        world.server.think_s = 0
        return (await world.ask(asking(), key="alice")).status

    assert limited(usd, scene) == status


def test_who_uses_a_machine_beside_others_pays_a_part() -> None:
    async def scene(world: World) -> list[tuple[int, bytes | None, bytes | None]]:
        await world.ready()
        world.server.think_s = 10
        await together(*[lambda: world.ask(asking(), key="alice"), *[lambda: world.ask(asking(), key="bob")] * 3])
        return [told(await world.ask(asking(), key=key)) for key in ("alice", "bob")]

    assert limited("1", scene) == [(200, b"0.002500", b"1"), (200, None, None)]


def test_who_waits_for_a_machine_pays_for_its_start() -> None:
    starting = {"phase": "requested", "eta_seconds": None, "usd_so_far": None, "usd_per_hour": "7.2"}

    async def scene(world: World) -> list[tuple[int, bytes | None, bytes | None]]:
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: world.ask(asking(), key="alice"))
            await anyio.sleep(50)  # nothing is under way, which costs nothing
            await world.changed("m1", phase="starting", starting=starting)
            await anyio.sleep(99.99)
            world.make_ready()
        return [told(await world.ask(asking(), key="alice"))]

    ((status, spent, _),) = limited("1", scene)
    assert status == 200
    assert float(spent or 0) == pytest.approx(0.2, abs=0.001)


def test_without_a_known_price_only_a_client_with_a_budget_is_refused_and_nothing_is_held() -> None:
    async def scene(world: World) -> tuple[list[Answered], int]:
        routes = [route("d1", ENDPOINT, usd_per_hour=None)]
        await world.changed("m1", phase="ready", routes=routes)
        answers = [await world.ask(asking(), key=key) for key in ("alice", "bob")]
        return answers, world.gateway.leases.open_requests

    (alice, bob), held = limited("1", scene)
    assert (alice.status, alice.code, bob.status, held) == (503, "refused", 200, 0)


def test_at_midnight_utc_a_new_day_begins() -> None:
    async def scene(world: World) -> list[int]:
        await world.ready()
        world.server.think_s = 10
        await world.ask(asking(), key="alice")
        statuses = []
        for instant in (DAY_S - 1, DAY_S + 1):
            await anyio.sleep_until(instant)
            world.server.think_s = 0
            statuses.append((await world.ask(asking(), key="alice")).status)
        return statuses

    assert limited("0.01", scene) == [429, 200]


def test_a_stream_that_is_open_when_the_budget_ends_is_let_finish_and_counts_meanwhile() -> None:
    async def scene(world: World) -> list[int]:
        await world.ready()
        world.server.gap_s = 20
        statuses: list[int] = []

        async def stream() -> None:
            answer = await world.ask(asking(stream=True), key="alice")
            statuses.append(answer.status if answer.whole else 0)

        async with anyio.create_task_group() as group:
            group.start_soon(stream)
            await anyio.sleep(30)
            statuses.append((await world.ask(asking(), key="alice")).status)
        return statuses

    assert limited("0.02", scene) == [429, 200]


def test_what_was_spent_outlives_the_gateway_and_is_known_to_others(tmp_path: Path) -> None:
    async def spend(world: World) -> int:
        await world.ready()
        world.server.think_s = 8
        answer = await world.ask(asking(), key="alice")
        await anyio.sleep(6)
        return answer.status

    def book() -> DayBook:
        return DayBook(tmp_path / "spent.json")

    assert [limited("0.015", spend, day_book=book()) for _ in range(3)] == [200, 200, 429]
    kept = json.loads((tmp_path / "spent.json").read_text())
    assert kept == {"schema": 1, "day": "2026-11-29", "usd_micros": {"alice": pytest.approx(16_000, abs=2)}}


def test_what_another_process_wrote_is_heard_within_seconds(tmp_path: Path) -> None:
    book = DayBook(tmp_path / "spent.json")

    async def scene(world: World) -> list[int]:
        await world.ready()
        before = await world.ask(asking(), key="alice")
        book.add("2026-11-29", {"alice": 20_000})
        await anyio.sleep(2)
        return [before.status, (await world.ask(asking(), key="alice")).status]

    assert limited("0.015", scene, day_book=DayBook(book.path)) == [200, 429]


def test_while_it_cannot_be_read_what_was_spent_no_budget_is_open(tmp_path: Path) -> None:
    book = DayBook(tmp_path / "spent.json")
    book.path.write_text("{")

    async def scene(world: World) -> list[int]:
        await world.ready()
        statuses = [(await world.ask(asking(), key=key)).status for key in ("alice", "bob")]
        book.path.unlink()
        await anyio.sleep(2)
        return [*statuses, (await world.ask(asking(), key="alice")).status]

    assert limited("1", scene, day_book=book) == [503, 200, 200]


class FullDisk(DayBook):
    def add(self, day: str, more: Micros) -> dict[str, int]:
        raise OSError(28, "No space left on device")


def test_a_book_that_cannot_be_written_loses_nothing_while_the_gateway_runs(tmp_path: Path) -> None:
    async def scene(world: World) -> list[int]:
        await world.ready()
        world.server.think_s = 10
        statuses = []
        for _ in range(3):
            statuses.append((await world.ask(asking(), key="alice")).status)
            await anyio.sleep(10)
        return statuses

    assert limited("0.015", scene, day_book=FullDisk(tmp_path / "spent.json")) == [200, 200, 429]


def test_nothing_is_left_behind_by_requests_that_ended() -> None:
    async def scene(world: World) -> tuple[int, int, bool]:
        await world.ready()
        world.server.think_s = 1
        await together(*[lambda: world.ask(asking(), key="alice")] * 20)
        await anyio.sleep(6)
        spending = world.gateway.spending
        return len(spending._shares), len(spending._live), spending._keeping

    assert limited("1", scene) == (0, 0, False)
