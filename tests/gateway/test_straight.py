"""Which events pass as they came, and do they leave the same accounts as those that go the long way?"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.gateway.events import Events, StreamFailed
from controller.gateway.passage import Passage
from controller.gateway.reply import OverAsgi, Reply
from controller.gateway.signs import CHAT_SIGNS, MESSAGES_SIGNS, RESPONSES_SIGNS, Signs
from controller.gateway.straight import Straight
from controller.gateway.stream_leases import Lease, NoUse, Use
from controller.gateway.tally import Numbers
from controller.http1.asked import OUTLET, WRITE
from tests.gateway.stub_server import DONE, event
from tests.gateway.world import LoopClock
from tests.support.virtual_time import run_virtual
from tests.test_http1_chunks import framed

ONE, TWO = event("one"), event("two")


@dataclass
class Socket:
    written: list[bytes] = field(default_factory=list)
    unsent: int = 0

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def get_write_buffer_size(self) -> int:
        return self.unsent


@dataclass
class Client:
    """An `Outlet`, and what is written the long way too."""

    transport: Any = field(default_factory=Socket)
    flows: bool = True

    def write(self, piece: bytes) -> bool:
        self.transport.write(framed(piece))
        return True


class Scene:
    def __init__(self, signs: Signs = CHAT_SIGNS, *, use: bool = True, outlet: bool = True) -> None:
        self.client = Client()
        self.numbers = Numbers()
        self.passage = Passage("r", asyncio.get_running_loop().time())
        self.passage.admitted("m1", self.numbers, stream=True, size=0)
        self.lease = Lease(("d1", 1), LoopClock())
        extensions = {WRITE: self.client.write} | ({OUTLET: self.client} if outlet else {})
        self.reply = Reply(OverAsgi(_nowhere, {"extensions": extensions}), self.passage)
        self.reply.status, self.reply.events = 200, True
        self.events = Events(signs)
        self.way = Straight(self.events, self.reply, Use(self.lease) if use else NoUse(), _never)

    def came(self, data: bytes) -> bool:
        """Whether it passed as it came."""
        passed = self.way.passed(framed(data), len(data))
        if not passed:
            self.way.take(data)
        return passed

    @property
    def written(self) -> list[bytes]:
        return cast(list[bytes], self.client.transport.written)


async def _nowhere(message: MutableMapping[str, Any]) -> None: ...


async def _never(data: bytes) -> None:
    raise AssertionError("the answer has begun")


def in_scene(work: Callable[[Scene], Awaitable[Any]], **options: Any) -> Any:
    async def run() -> Any:
        return await work(Scene(**options))

    return run_virtual(run)


def ways_of(*pieces: bytes, arrange: Callable[[Scene], None] | None = None, **options: Any) -> list[bool]:
    async def work(scene: Scene) -> list[bool]:
        ways = [scene.came(ONE)]
        if arrange is not None:
            arrange(scene)
        return [*ways, *(scene.came(piece) for piece in pieces)]

    return cast(list[bool], in_scene(work, **options))


def test_after_the_first_whole_events_pass_as_they_came() -> None:
    async def work(scene: Scene) -> list[bytes]:
        for piece in (ONE, TWO, ONE + TWO, b": still here\r\n\r\n", DONE):
            scene.came(piece)
        return scene.written

    assert ways_of(TWO, ONE + TWO, b": still here\r\n\r\n", DONE, TWO) == [False, True, True, True, False, True]
    assert in_scene(work) == [framed(piece) for piece in (ONE, TWO, ONE + TWO, b": still here\r\n\r\n", DONE)]


@pytest.mark.parametrize(
    ("signs", "piece"),
    [
        (CHAT_SIGNS, b'data: {"error": {"message": "dead"}}\n\n'),
        (CHAT_SIGNS, event("", "abort")),
        (MESSAGES_SIGNS, b"event: error\ndata: {}\n\n"),
        (MESSAGES_SIGNS, b'data: {"type": "message_delta", "delta": {"stop_reason": null}}\n\n'),
        (RESPONSES_SIGNS, b"event: response.failed\ndata: {}\n\n"),
        (RESPONSES_SIGNS, b'event: response.completed\ndata: {"response": {"status": "cancelled"}}\n\n'),
    ],
)
def test_a_failure_is_read_and_not_passed(signs: Signs, piece: bytes) -> None:
    async def work(scene: Scene) -> list[bytes]:
        scene.came(ONE)
        scene.came(TWO)
        with pytest.raises(StreamFailed):
            scene.came(piece)
        return scene.written

    assert in_scene(work, signs=signs) == [framed(ONE), framed(TWO)]


@pytest.mark.parametrize(
    ("signs", "piece"),
    [
        (CHAT_SIGNS, DONE),
        (MESSAGES_SIGNS, b'data: {"type": "message_stop"}\n\n'),
        (RESPONSES_SIGNS, b"event: response.completed\ndata: {}\n\n"),
        (RESPONSES_SIGNS, b"event: response.incomplete\ndata: {}\n\n"),
    ],
)
def test_the_last_event_is_read(signs: Signs, piece: bytes) -> None:
    async def work(scene: Scene) -> bool:
        for each in (ONE, TWO, piece):
            scene.came(each)
        return scene.events.said_done

    assert in_scene(work, signs=signs)


def test_half_an_event_is_held_and_what_ends_it_goes_with_it() -> None:
    async def work(scene: Scene) -> list[bytes]:
        for piece in (ONE, TWO[:-5], TWO[-5:], ONE):
            scene.came(piece)
        return scene.written

    assert ways_of(TWO[:-5], TWO[-5:], ONE) == [False, False, False, True]
    assert ways_of(ONE + TWO[:-5], TWO[-5:], ONE) == [False, False, False, True]
    assert in_scene(work) == [framed(ONE), framed(TWO), framed(ONE)]


def test_what_ends_too_long_an_event_is_known_to_end_it() -> None:
    assert ways_of(b"data: " + b"x" * 1_100_000, b"xx\n\n", ONE) == [False, False, False, True]


def _busy(scene: Scene) -> None:
    scene.client.transport.unsent = 1


def _over(scene: Scene) -> None:
    scene.client.flows = False


@pytest.mark.parametrize("arrange", [_busy, _over])
def test_nothing_passes_to_a_client_that_takes_nothing(arrange: Callable[[Scene], None]) -> None:
    assert ways_of(TWO, arrange=arrange) == [False, False]


@pytest.mark.parametrize(("use", "outlet"), [(False, True), (True, False)])
def test_all_goes_the_long_way_where_something_is_missing(use: bool, outlet: bool) -> None:
    assert ways_of(TWO, TWO, use=use, outlet=outlet) == [False, False, False]


def test_both_ways_leave_the_same_accounts() -> None:
    async def work(scene: Scene) -> tuple[object, ...]:
        for piece in (ONE, TWO, TWO, ONE):
            await asyncio.sleep(0.25)
            scene.came(piece)
        numbers, passage = scene.numbers, scene.passage
        await asyncio.sleep(3)
        idle = scene.lease.report().idle
        return numbers.gaps.counts, passage.bytes_out, passage.first_at, passage.last_at, scene.reply.sent_at, idle

    short, long = in_scene(work), in_scene(work, outlet=False)
    assert short == long
    assert short[1] == len(ONE + TWO) * 2
    assert short[-1] == timedelta(seconds=3)


def test_a_comment_may_stand_between_events_that_pass_as_they_came() -> None:
    async def work(scene: Scene) -> tuple[bool, float]:
        scene.came(ONE)
        await asyncio.sleep(2)
        scene.came(TWO)
        return scene.reply.takes_comment, asyncio.get_running_loop().time() - scene.reply.sent_at

    assert in_scene(work) == (True, 0.0)


@given(
    st.lists(
        st.sampled_from(
            [ONE, TWO, TWO[:9], ONE + TWO[:9], TWO[9:], DONE, event("", "abort"), b"\n", b"\r\n", b"\r\n\r\n"]
        )
    )
)
def test_what_passes_is_what_would_pass_the_long_way(pieces: list[bytes]) -> None:
    async def work(scene: Scene) -> tuple[bytes, bool, bytes | None]:
        failed = None
        try:
            for piece in pieces:
                scene.came(piece)
        except StreamFailed as failure:
            failed = failure.before
        bodies = [chunk[chunk.index(b"\r\n") + 2 : -2] for chunk in scene.written]
        return b"".join(bodies), scene.events.said_done, failed

    assert in_scene(work) == in_scene(work, outlet=False)
