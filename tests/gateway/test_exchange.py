"""What one request owns from its first byte to its last: signs of life, and an end on every path."""

import asyncio
import json
from datetime import timedelta
from typing import Any

import anyio
import pytest

from tests.gateway.stub_server import DONE, event
from tests.gateway.world import Answered, World, asking, in_world


def comments(body: bytes) -> list[bytes]:
    return [part for part in body.split(b"\n\n") if part.startswith(b": ")]


def without_comments(body: bytes) -> bytes:
    return b"".join(part + b"\n\n" for part in body.split(b"\n\n")[:-1] if not part.startswith(b": "))


def streamed(pieces: list[bytes], *, gap_s: float = 0.0, first_word_s: float = 0.0, **config: Any) -> Answered:
    async def scene(world: World) -> Answered:
        await world.ready()
        world.server.pieces, world.server.gap_s, world.server.first_word_s = pieces, gap_s, first_word_s
        return await world.ask(asking(stream=True))

    return in_world(scene, **config)


PIECES = [event("one"), event("two", "stop"), DONE]


def test_a_long_wait_for_the_first_word_and_between_two_is_bridged_by_comments() -> None:
    answer = streamed(PIECES, first_word_s=35, gap_s=25)
    assert comments(answer.body) == [b": the model is at work"] * (3 + 2 + 2 + 2)
    assert (without_comments(answer.body), answer.whole) == (b"".join(PIECES), True)


def test_a_model_that_writes_is_not_talked_over() -> None:
    answer = streamed([event(str(number)) for number in range(8)] + [DONE], gap_s=9.9)
    assert comments(answer.body) == []


def test_a_comment_never_stands_within_an_event() -> None:
    one = event("one")
    answer = streamed([one[:10], one[10:], event("two", "stop") + b"data: [D", b"ONE]\n\n"], gap_s=25)
    assert (without_comments(answer.body), len(comments(answer.body))) == (b"".join(PIECES), 8)


def test_no_comment_stands_within_an_event_that_is_passed_on_in_parts() -> None:
    """One that is too long to be held back whole."""
    huge = event("x" * (3 << 20))
    parts = [huge[: 1 << 21], huge[1 << 21 :]]
    answer = streamed([*parts, DONE], gap_s=25)
    assert without_comments(answer.body) == huge + DONE
    assert len(comments(answer.body)) == 4  # two behind each whole event, and none between the parts


def test_what_is_no_event_stream_gets_no_comment() -> None:
    async def scene(world: World) -> Answered:
        await world.ready()
        world.server.streams_as = [(b"content-type", b"application/json")]
        world.server.pieces, world.server.gap_s = [b'{"a":\n\n', b"1}"], 25
        return await world.ask(asking(stream=True))

    assert json.loads(in_world(scene).body) == {"a": 1}


def test_comments_fit_into_a_stream_that_announced_its_length() -> None:
    async def scene(world: World) -> Answered:
        await world.ready()
        length = b"%d" % len(b"".join(PIECES))
        world.server.streams_as = [(b"content-type", b"text/event-stream"), (b"content-length", length)]
        world.server.gap_s = 15
        return await world.ask(asking(stream=True))

    answer = in_world(scene)
    assert (b"content-length" in answer.headers, len(comments(answer.body))) == (False, 3)


@pytest.mark.parametrize(("gap_s", "whole"), [(29.9, True), (30.1, False)])
def test_the_limit_between_two_bytes_is_the_config_s_and_a_whole_answer_has_none(gap_s: float, whole: bool) -> None:
    many = [event(str(number)) for number in range(50)] + [DONE]
    answer = streamed(many, gap_s=gap_s, silence_limit=timedelta(seconds=30))
    assert (answer.whole, b"upstream_timeout" in answer.body) == (whole, not whole)


@pytest.mark.parametrize(("first_word_s", "whole"), [(599.0, True), (601.0, False)])
def test_the_first_token_may_be_longer_in_coming_than_the_next(first_word_s: float, whole: bool) -> None:
    answer = streamed(PIECES, first_word_s=first_word_s)
    assert (answer.whole, b"upstream_timeout" in answer.body) == (whole, not whole)


def test_a_caller_is_told_how_far_a_start_is() -> None:
    async def scene(world: World) -> bytes:
        started = {"deployment": "d1", "phase": "requested", "since": "", "eta_seconds": 61.4, "usd_so_far": "0.0210"}
        await world.changed(phase="starting", starting=started)
        answer = await world.open(asking(stream=True))
        async for piece in answer.chunks():
            answer.close()
            return piece
        return b""

    assert in_world(scene) == b": the model is starting (requested, about 62 s left, $0.0210 so far)\n\n"


async def cold(world: World) -> None:
    pass


async def thinking(world: World) -> None:
    await world.ready()
    world.server.think_s = 60


async def writing(world: World) -> None:
    await world.ready()
    world.server.pieces, world.server.gap_s = [event("x")] * 1000, 1


async def leasing(world: World) -> None:
    await world.ready()
    world.daemon.lease_answer_s = 60


MOMENTS = [(writing, True), *((arrange, stream) for arrange in (cold, thinking, leasing) for stream in (True, False))]


@pytest.mark.parametrize(("arrange", "stream"), MOMENTS)
@pytest.mark.parametrize("turns", [0, 1])
def test_a_task_that_is_cancelled_twice_leaves_nothing_behind(arrange: Any, stream: bool, turns: int) -> None:
    """B49 (d): the second cancellation must not cut short what the first one set free."""

    async def scene(world: World) -> tuple[int, ...]:
        await arrange(world)
        asked = world.start(asking(stream=stream))
        await anyio.sleep(5)
        assert world.gateway.live == 1
        asked.task.cancel()
        for _ in range(turns):
            await asyncio.sleep(0)
        asked.task.cancel()
        await anyio.sleep(2)
        gateway = world.gateway
        return gateway.live, gateway.leases.open_requests, world.upstream.open, gateway.rooms.waiting("m1")

    assert in_world(scene) == (0, 0, 0, 0)


@pytest.mark.parametrize(("arrange", "stream"), MOMENTS)
def test_a_client_that_leaves_at_any_moment_leaves_nothing_behind(arrange: Any, stream: bool) -> None:
    async def scene(world: World) -> tuple[int, ...]:
        await arrange(world)
        asked = world.start(asking(stream=stream))
        await anyio.sleep(5)
        assert world.gateway.live == 1
        asked.close()
        await anyio.sleep(2)
        gateway = world.gateway
        return gateway.live, gateway.leases.open_requests, world.upstream.open, gateway.rooms.waiting("m1")

    assert in_world(scene) == (0, 0, 0, 0)
