"""How many requests may a client begin, in a minute and at once?"""

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.gateway.allowances import MINUTE_S, Allowances, written
from controller.gateway.clients import Client
from controller.gateway.passage import Passage
from controller.gateway.refusals import Refused
from controller.gateway.tally import Tally
from tests.gateway.test_clients import Kept, client
from tests.gateway.world import Answered, World, asking, in_world, together

N = 5


def let_in(allowances: Allowances, who: Client, now: float) -> bool:
    try:
        allowances.give_back(allowances.take(who, Passage("r", now), now))
    except Refused:
        return False
    return True


@given(st.lists(st.floats(0, 30), min_size=1, max_size=60), st.integers(1, 6))
def test_no_minute_ever_sees_more_than_was_agreed_and_nobody_is_refused_without_cause(
    gaps: list[float], per_minute: int
) -> None:
    allowances, who = Allowances(Tally()), client("a", requests_per_minute=per_minute)
    begun: list[float] = []
    now = 1000.0
    for gap in gaps:
        now += gap
        within = sum(instant > now - MINUTE_S for instant in begun)
        assert let_in(allowances, who, now) == (within < per_minute)
        if within < per_minute:
            begun.append(now)


@given(st.lists(st.booleans(), max_size=60), st.integers(1, 4))
def test_never_more_than_agreed_are_open_at_once_and_what_is_given_back_is_free(
    moves: list[bool], at_once: int
) -> None:
    allowances, who = Allowances(Tally()), client("a", concurrent=at_once)
    taken: list[Any] = []
    for begins in moves:
        if not begins:
            allowances.give_back(taken.pop() if taken else None)
            continue
        try:
            taken.append(allowances.take(who, Passage("r", 0.0), 0.0))
        except Refused:
            assert len(taken) == at_once
        assert len(taken) <= at_once


def test_the_next_is_let_in_when_the_first_is_a_minute_old_and_not_a_moment_before() -> None:
    for at, allowed in ((MINUTE_S - 0.001, False), (MINUTE_S, True)):
        allowances, who = Allowances(Tally()), client("a", requests_per_minute=N)
        assert [let_in(allowances, who, float(second)) for second in range(N)] == [True] * N
        assert let_in(allowances, who, at) is allowed


def test_trying_too_early_delays_nobody() -> None:
    allowances, who = Allowances(Tally()), client("a", requests_per_minute=1)
    assert let_in(allowances, who, 0.0)
    assert not any(let_in(allowances, who, second) for second in (10.0, 30.0, 59.0))
    assert let_in(allowances, who, 60.0)


def test_a_limit_that_was_lowered_holds_at_once() -> None:
    allowances = Allowances(Tally())
    for second in range(4):
        assert let_in(allowances, client("a", requests_per_minute=4), float(second))
    lowered = client("a", requests_per_minute=2)
    assert not let_in(allowances, lowered, 61.9)
    assert let_in(allowances, lowered, 62.0)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.02, b"20ms"), (0.9999, b"1000ms"), (1, b"1s"), (59.2, b"1m0s"), (60, b"1m0s"), (359.5, b"6m0s")],
)
def test_a_span_is_written_as_openai_writes_it(seconds: float, text: bytes) -> None:
    assert written(seconds) == text


LEFT = (b"x-ratelimit-limit-requests", b"x-ratelimit-remaining-requests", b"x-ratelimit-reset-requests")


def test_answers_tell_what_is_left_and_one_too_many_is_a_429_that_says_when() -> None:
    async def scene(world: World) -> list[Answered]:
        await world.ready()
        answers = []
        for _ in range(3):
            answers.append(await world.ask(asking(), key="alice"))
            await anyio.sleep(10)
        await anyio.sleep(31)
        answers.append(await world.ask(asking(), key="alice"))
        return answers

    one, two, refused, later = in_world(scene, read_clients=Kept(client("alice", requests_per_minute=2)).read)
    assert [answer.status for answer in (one, two, refused, later)] == [200, 200, 429, 200]
    assert [tuple(answer.headers[name] for name in LEFT) for answer in (one, two, refused)] == [
        (b"2", b"1", b"1m0s"),
        (b"2", b"0", b"1m0s"),
        (b"2", b"0", b"50s"),
    ]
    assert (refused.code, refused.error["limit"]) == ("rate_limit_exceeded", "requests_per_minute")
    assert refused.headers[b"retry-after"] == b"40"


def in_parallel(world: World, count: int) -> "list[Callable[[], Any]]":
    return [lambda: world.ask(asking(stream=True), key="alice")] * count


def test_one_too_many_at_once_is_a_429_wakes_nothing_and_the_end_of_another_makes_room() -> None:
    async def scene(world: World) -> tuple[list[int], list[int], int, float]:
        await world.ready()
        world.server.gap_s = 1.0
        first = await together(*in_parallel(world, N + 1))
        second = await together(*in_parallel(world, N))
        text = (await world.ask(b"", path="/metrics", method="GET")).body.decode()
        limited = float(text.split('client_limited_total{client="alice",limit="concurrent"} ')[1].split()[0])
        refused = next(answer for answer in first if answer.status == 429)
        return (
            sorted(answer.status for answer in first),
            [answer.status for answer in second],
            int(refused.headers[b"retry-after"]),
            limited,
        )

    first, second, retry_after, limited = in_world(scene, read_clients=Kept(client("alice", concurrent=N)).read)
    assert (first, second) == ([200] * N + [429], [200] * N)
    assert (retry_after, limited) == (1, 1.0)


@pytest.mark.parametrize("ending", ["refused", "gone", "body-at-fault"])
def test_a_request_that_ends_otherwise_gives_its_place_back_too(ending: str) -> None:
    async def scene(world: World) -> int:
        await world.ready()
        if ending == "gone":
            world.server.gap_s = 60
            with anyio.move_on_after(1):
                await world.ask(asking(stream=True), key="alice")
            world.client.answers[-1].close()
            await anyio.sleep(0.1)
        else:
            await world.ask(asking("nope") if ending == "refused" else b"{", key="alice")
        world.server.gap_s = 0
        return (await world.ask(asking(), key="alice")).status

    assert in_world(scene, read_clients=Kept(client("alice", concurrent=1)).read) == 200


def test_reading_counts_for_nothing() -> None:
    async def scene(world: World) -> list[int]:
        await world.ready()
        paths = ["/v1/models"] * 3
        answers = [await world.ask(b"", path=path, method="GET", key="alice") for path in paths]
        return [*(answer.status for answer in answers), (await world.ask(asking(), key="alice")).status]

    assert in_world(scene, read_clients=Kept(client("alice", requests_per_minute=1)).read) == [200] * 4


def test_one_clients_use_is_not_anothers() -> None:
    async def scene(world: World) -> list[int]:
        await world.ready()
        return [(await world.ask(asking(), key=key)).status for key in ("alice", "bob", "alice")]

    kept = Kept(client("alice", requests_per_minute=1), client("bob", requests_per_minute=1))
    assert in_world(scene, read_clients=kept.read) == [200, 200, 429]
