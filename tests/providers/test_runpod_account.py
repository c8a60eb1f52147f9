"""When a call may leave again after the provider asked us to wait."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from controller.providers.errors import HeldBack
from controller.providers.runpod.account import Account, Kind, Pace, wait_asked
from controller.transport import Answer, AsyncTransport, Http
from tests.support.loop_clock import BEGIN, HandClock

S = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"retry-after": "12"}, 12 * S),
        ({"retry-after": " 12 "}, 12 * S),
        ({"retry-after": "0"}, 1 * S),
        ({"retry-after": "Sun, 29 Nov 2026 12:01:00 GMT"}, 60 * S),
        ({"retry-after": "Sun, 29 Nov 2026 12:01:00 GMT", "date": "Sun, 29 Nov 2026 12:00:50 GMT"}, 10 * S),
        ({"retry-after": "Sun, 29 Nov 2020 12:01:00 GMT"}, 1 * S),
        ({"retry-after": "9" * 500}, timedelta(days=1)),
        ({"retry-after": "Sun, 29 Nov 9999 12:01:00 GMT"}, timedelta(days=1)),
        ({"retry-after": "-5"}, 15 * S),
        ({"retry-after": "soon"}, 15 * S),
        ({"retry-after": "²"}, 15 * S),
        ({}, 15 * S),
        ({"ratelimit": '"minute";r=0;t=12, "hour";r=2800;t=1812'}, 12 * S),
        ({"ratelimit": '"minute";r=0;t=12, "hour";r=0;t=1812'}, 1812 * S),
        ({"ratelimit": '"minute";r=5;t=12'}, 15 * S),
    ],
)
def test_how_long_we_are_asked_to_wait(headers: dict[str, str], wait: timedelta) -> None:
    assert wait_asked(headers, now=BEGIN) == wait


class Recording(Http):
    """Keeps which calls asked for a new connection, and answers all alike."""

    def __init__(self, reply: Answer) -> None:
        super().__init__("http://x", user_agent="test", transport=AsyncTransport())
        self.fresh: list[bool] = []
        self._reply = reply

    async def call(self, *_: Any, fresh: bool = False, **__: Any) -> Answer:
        self.fresh.append(fresh)
        return self._reply


@pytest.mark.parametrize(
    ("date", "said"),
    [
        ("Sun, 29 Nov 2026 12:00:07 GMT", BEGIN + 7 * S),
        ("Sun, 29 Nov 2026 12:00:07 +0000", None),
        ("Sunday, 29-Nov-26 12:00:07 GMT", None),
        ("Sun, 31 Feb 2026 12:00:07 GMT", None),
        ("Fri, 31 Dec 9999 23:59:59 GMT", None),
        ("soon", None),
        ("", None),
    ],
)
async def test_what_the_provider_says_of_the_time_is_handed_on_with_the_call_s_length(
    date: str, said: datetime | None
) -> None:
    clock = HandClock()

    class Slow(Recording):
        async def call(self, *_: Any, **__: Any) -> Answer:
            clock.advance(3 * S)
            return self._reply

    heard: list[tuple[datetime | None, timedelta]] = []

    def hear(said: datetime | None, *, round_trip: timedelta) -> None:
        heard.append((said, round_trip))

    account = Account(Slow(Answer(code=503, headers={"date": date}, body=b"")), clock=clock, hear=hear)
    await account.call(Kind.READ, "GET", "/")
    assert heard == [(said, 3 * S)]


async def test_a_create_alone_asks_for_a_new_connection() -> None:
    http = Recording(Answer(code=200, headers={}, body=b""))
    account = Account(http, clock=HandClock())
    for kind in (Kind.READ, Kind.CREATE, Kind.STOP):
        await account.call(kind, "GET", "/")
    assert http.fresh == [False, True, False]


@pytest.mark.parametrize(
    ("code", "headers", "holds"),
    [(429, {}, True), (503, {"retry-after": "9"}, True), (503, {}, False), (200, {"retry-after": "9"}, False)],
)
async def test_what_asks_us_to_wait(code: int, headers: dict[str, str], holds: bool) -> None:
    account = Account(Recording(Answer(code=code, headers=headers, body=b"")), clock=HandClock())
    await account.call(Kind.READ, "GET", "/")
    if holds:
        with pytest.raises(HeldBack):
            await account.call(Kind.CREATE, "POST", "/")
    else:
        await account.call(Kind.CREATE, "POST", "/")


def held(pace: Pace, kind: Kind) -> timedelta | None:
    try:
        pace.enter(kind)
    except HeldBack as error:
        return error.retry_after
    return None


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def pace(clock: HandClock) -> Pace:
    return Pace(clock)


@pytest.mark.parametrize("kind", list(Kind))
def test_nothing_waits_unasked(pace: Pace, kind: Kind) -> None:
    assert held(pace, kind) is None


@pytest.mark.parametrize("kind", list(Kind))
def test_every_kind_of_call_waits_to_the_last_moment(pace: Pace, clock: HandClock, kind: Kind) -> None:
    pace.slow_down(10 * S)
    clock.advance(9.5 * S)
    assert held(pace, kind) == 0.5 * S
    clock.advance(0.5 * S)
    assert held(pace, kind) is None


def test_a_stop_waits_300_seconds_at_most_and_the_rest_waits_on(pace: Pace, clock: HandClock) -> None:
    pace.slow_down(3600 * S)
    clock.advance(299 * S)
    assert held(pace, Kind.STOP) == 1 * S
    clock.advance(1 * S)
    assert held(pace, Kind.STOP) is None
    assert held(pace, Kind.CREATE) == 3300 * S
    assert held(pace, Kind.READ) == 3300 * S


def test_a_stop_that_is_told_to_wait_again_waits_300_seconds_again(pace: Pace, clock: HandClock) -> None:
    pace.slow_down(3600 * S)
    clock.advance(300 * S)
    pace.slow_down(3600 * S)
    assert held(pace, Kind.STOP) == 300 * S


def test_a_stop_that_was_turned_away_goes_before_all_else(pace: Pace, clock: HandClock) -> None:
    pace.slow_down(10 * S)
    held(pace, Kind.STOP)
    clock.advance(10 * S)
    assert held(pace, Kind.READ) == 5 * S
    assert held(pace, Kind.STOP) is None
    assert held(pace, Kind.READ) is None


def test_a_stop_that_the_provider_itself_turned_away_goes_before_all_else(pace: Pace, clock: HandClock) -> None:
    """It does not come back before the time is over, so that nothing else marks it as waiting."""
    assert held(pace, Kind.STOP) is None
    pace.slow_down(10 * S, kind=Kind.STOP)
    clock.advance(10 * S)
    assert held(pace, Kind.READ) == 5 * S
    assert held(pace, Kind.STOP) is None
    assert held(pace, Kind.READ) is None


def test_a_stop_that_never_comes_back_holds_nobody_for_long(pace: Pace, clock: HandClock) -> None:
    pace.slow_down(10 * S)
    held(pace, Kind.STOP)
    clock.advance(15 * S)
    assert held(pace, Kind.READ) is None


def test_a_shorter_wait_does_not_shorten_a_longer_one(pace: Pace, clock: HandClock) -> None:
    pace.slow_down(100 * S)
    pace.slow_down(1 * S)
    assert held(pace, Kind.READ) == 100 * S
