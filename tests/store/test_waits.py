"""Who is said to wait, for how long does that hold, and what of it survives a restart?"""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from controller.store.waits import LASTS, Waits, note_expected
from tests.store.samples import opened
from tests.support.clocks import HandClock

NOW = datetime(2026, 11, 30, tzinfo=UTC)
S = timedelta(seconds=1)
NONE = timedelta(0)


@pytest.mark.parametrize(("later", "awaited"), [(NONE, True), (LASTS, True), (LASTS + S, False)])
def test_a_gateway_s_word_holds_for_a_minute(later: timedelta, awaited: bool) -> None:
    waits = Waits()
    waits.tell("g-1", "qwen", waiting=2, returning=NONE, now=NOW)
    assert waits.awaited("qwen", now=NOW + later) is awaited
    assert (waits.awaited_at("qwen"), waits.lapses_at("qwen")) == (NOW, NOW + LASTS)
    assert not waits.awaited("other", now=NOW)


def test_the_last_who_left_one_gateway_does_not_speak_for_another() -> None:
    waits = Waits()
    for gateway in ("g-1", "g-2"):
        waits.tell(gateway, "qwen", waiting=1, returning=NONE, now=NOW)
    waits.tell("g-1", "qwen", waiting=0, returning=NONE, now=NOW + S)
    assert waits.awaited("qwen", now=NOW + S)
    waits.tell("g-2", "qwen", waiting=0, returning=NONE, now=NOW + 2 * S)
    assert not waits.awaited("qwen", now=NOW + 2 * S)
    assert (waits.awaited_at("qwen"), waits.lapses_at("qwen")) == (NOW + 2 * S, None)


def test_the_latest_who_may_come_back_counts() -> None:
    waits = Waits()
    assert waits.expected_until("qwen") is None
    waits.tell("g-1", "qwen", waiting=0, returning=60 * S, now=NOW)
    waits.tell("g-1", "qwen", waiting=0, returning=20 * S, now=NOW)
    waits.tell("g-1", "qwen", waiting=0, returning=NONE, now=NOW)
    assert waits.expected_until("qwen") == NOW + 60 * S


async def test_who_may_come_back_is_kept_across_a_restart_and_never_less_long(tmp_path: Path) -> None:
    clock = HandClock()
    async with opened(tmp_path, clock) as store:
        until = store.now + 60 * S
        await store.write(lambda tx: note_expected(tx, "qwen", until=until))
        await store.write(lambda tx: note_expected(tx, "qwen", until=until - S))
    async with opened(tmp_path, clock) as store:
        assert store.book.memory("qwen").expected_until == until
