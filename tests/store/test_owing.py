"""Is a rule asked where nobody comes in between, and once more where nothing can be written?"""

from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from controller.core.book import Book
from controller.core.evidence import StopReason
from controller.core.identity import DeploymentId
from controller.core.lifecycle import Phase
from controller.store import deployments, owing
from controller.store.errors import Stale, StoreUnwritable
from controller.store.store import Store
from controller.store.transaction import Tx
from tests.store.samples import accept, opened
from tests.support.clocks import HandClock
from tests.support.stores import unwritable

NAME = DeploymentId("qwen-1")


class Rule:
    """Says of the one there is that it is due, `most` times, and remembers what it was asked of."""

    def __init__(self, *, most: int = 2) -> None:
        self.most = most
        self.asked: list[tuple[Book, datetime]] = []

    def __call__(self, book: Book, now: datetime) -> Iterator[owing.Due]:
        self.asked.append((book, now))
        if len(self.asked) <= self.most:
            yield owing.Due(record=book.records[NAME], reason=StopReason.IDLE, drain_until=now)


def jumped(tx: Tx) -> None:
    tx.line("clock.jumped")


def standing(store: Store) -> tuple[Phase, datetime | None]:
    record = store.book.records[NAME]
    return record.phase, record.drain_until


async def test_it_is_asked_in_the_writer_s_turn_of_what_the_one_before_left(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        await store.write(accept)
        rule, along = Rule(), list[int]()
        await owing.oblige_by(store, rule, along=lambda tx: along.append(len(rule.asked)))
        assert standing(store) == (Phase.STOP_REQUIRED, store.now)
        assert along == [1]
        ((asked, _),) = rule.asked
        assert asked.records[NAME].phase is Phase.REQUESTED
        await store.write(jumped)
        with pytest.raises(Stale, match="changed"):
            await owing.oblige_by(
                store, lambda book, now: [owing.Due(record=asked.records[NAME], reason=StopReason.HUNG)]
            )


async def test_it_is_asked_of_what_was_written_between_the_call_and_its_turn(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        await store.write(accept)
        write, rule = store.write, Rule()

        async def late(work: Callable[[Tx], Any]) -> Any:
            await write(lambda tx: deployments.record_ready(tx, tx.book.records[NAME]))
            return await write(work)

        store.write = late  # type: ignore[method-assign, assignment]
        await owing.oblige_by(store, rule)
        assert [book.records[NAME].phase for book, _ in rule.asked] == [Phase.ACTIVE]
        assert standing(store)[0] is Phase.STOP_REQUIRED


async def test_where_nothing_can_be_written_it_is_asked_of_the_book_with_all_that_is_owed_there(tmp_path: Path) -> None:
    other = DeploymentId("qwen-2")
    async with opened(tmp_path, HandClock()) as store:
        await store.write(accept)
        await store.write(lambda tx: accept(tx, other, "p2", slot=1))
        rule = Rule()
        with unwritable(tmp_path):
            await owing.oblige(store, store.book.records[other], StopReason.HUNG)
            await owing.oblige_by(store, rule)
        assert rule.asked[-1][0].records[other].phase is Phase.STOP_REQUIRED


async def test_where_nothing_can_be_written_it_is_asked_again_of_what_everybody_reads_by_then(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        await store.write(accept)
        before, rule = store.book, Rule()
        with unwritable(tmp_path):
            await owing.oblige_by(store, rule, along=jumped)
            assert standing(store) == (Phase.STOP_REQUIRED, store.now)
            assert rule.asked[-1] == (before, store.now)
        await store.write(jumped)
        assert standing(store)[0] is Phase.STOP_REQUIRED


async def test_what_is_due_no_more_when_nothing_could_be_written_is_not_owed(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as store:
        await store.write(accept)
        before = store.book
        with unwritable(tmp_path):
            await owing.oblige_by(store, Rule(most=1))
            with pytest.raises(StoreUnwritable):
                await owing.oblige_by(store, Rule(most=1), along=jumped)
        assert store.book == before


async def test_a_rule_that_rests_on_what_is_no_more_says_so_where_nothing_can_be_written_too(tmp_path: Path) -> None:
    def stale(book: Book, now: datetime) -> list[owing.Due]:
        raise Stale("its successor changed")

    async with opened(tmp_path, HandClock()) as store:
        await store.write(accept)
        before = store.book
        with pytest.raises(Stale, match="successor"):
            await owing.oblige_by(store, stale)
        with unwritable(tmp_path), pytest.raises(Stale, match="successor"):
            await owing.oblige_by(store, stale)
        assert store.book == before
