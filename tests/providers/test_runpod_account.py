"""What a call to the account brings besides its answer."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from controller.providers.errors import HeldBack
from controller.providers.runpod.account import Account
from controller.providers.runpod.pace import Kind
from controller.transport import Answer, AsyncTransport, Http, Sip
from tests.support.loop_clock import BEGIN, HandClock

S = timedelta(seconds=1)


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


async def test_a_stream_tells_no_time_since_its_round_trip_is_not_known() -> None:
    class Streaming(Recording):
        async def sip(self, *_: Any, **__: Any) -> tuple[Answer, bool]:
            return self._reply, True

    heard: list[object] = []

    def hear(said: datetime | None, *, round_trip: timedelta) -> None:
        heard.append((said, round_trip))

    reply = Answer(code=200, headers={"date": "Sun, 29 Nov 2026 12:00:07 GMT"}, body=b"")
    account = Account(Streaming(reply), clock=HandClock(), hear=hear)
    assert await account.sip("/", Sip(whole=S, quiet=S, body_bytes=1)) == (reply, True)
    assert heard == []


@pytest.mark.parametrize(("later_s", "wait"), [(8.9, 0.1 * S), (9, None)])
async def test_a_stop_is_held_back_to_the_last_moment_and_not_in_it(later_s: float, wait: timedelta | None) -> None:
    clock = HandClock()
    account = Account(Recording(Answer(code=429, headers={"retry-after": "9"}, body=b"")), clock=clock)
    await account.call(Kind.READ, "GET", "/")
    clock.advance(later_s * S)
    assert account.wait(Kind.STOP) == wait
