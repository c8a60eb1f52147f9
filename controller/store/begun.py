"""Has another run begun on this file, or was it our own beginning whose end nobody saw?

The first line that a run writes says that it begins. One that stands after all that this process knows of is another's,
unless it is of the transaction that this process tried last and took for lost: its commit may have come about.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sqlalchemy.engine import Connection

from controller.core.book import Book
from controller.store.outbox import hash_of
from controller.store.transaction import BEGUN, Tx

BEGUN_SINCE: Final = "SELECT 1 FROM evidence WHERE seq > ? AND event = ? LIMIT 1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """The last line of a transaction; the chain makes its hash one of a kind."""

    seq: int
    hash: str

    def last_in(self, book: Book) -> bool:
        return (self.seq, self.hash) == (book.seq_latest, book.hash_latest)

    def stands(self, connection: Connection) -> bool:
        return hash_of(connection, seq=self.seq) == self.hash


def tried(before: Book, after: Book, former: Tried | None) -> Tried | None:
    """What a transaction that is about to be committed leaves to be found; where it tells nothing, what one before it
    left."""
    return Tried(seq=after.seq_latest, hash=after.hash_latest) if after.seq_latest > before.seq_latest else former


def another_began(connection: Connection, *, since: int, ours: Tried | None) -> bool:
    """Did somebody else, after line number `since`?"""
    cursor = connection.connection.cursor()
    try:
        cursor.execute(BEGUN_SINCE, (since, BEGUN))
        if cursor.fetchone() is None:
            return False
        if ours is None or not ours.stands(connection):
            return True
        cursor.execute(BEGUN_SINCE, (ours.seq, BEGUN))
        return cursor.fetchone() is not None
    finally:
        cursor.close()


def begin(tx: Tx, first: Callable[[Tx], object], tried_before: Tried | None) -> None:
    """Write what a run begins with, unless it turned out to have come about when it was tried before."""
    if tried_before is None or not tried_before.last_in(tx.book):
        first(tx)
