"""Which tasks does it concern that something was committed or seen?

Each part of book and view is a value that is replaced and never changed. A task says on which parts its passes decide,
or on which facets of them (`core.facets`), and what decides nothing while its latest pass left nothing open. What
concerns it wakes it, and the pass reads everything anew: what it slept through is not lost on it.

Too little told is a lost wake-up, mended by the task's next period. Every whole-daemon scenario holds what is told
against what passes really read (`tests/support/reading.py`).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from controller.core.facets import FACETS


class Restful(Protocol):
    """A moment of what is on record."""

    @property
    def at_rest(self) -> bool:
        """Is there nothing in it that could bill? A change of this is news to every task."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Which parts of what is on record, and of what was seen, were replaced between two moments."""

    book: frozenset[str]
    view: frozenset[str]
    at_rest: bool
    rest_changed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Looks:
    """All that a task's pass decides on, of what is on record and of what was seen, by the names of the parts and
    facets. What is rung for by itself (wishes, stream leases) is not told."""

    book: frozenset[str] = frozenset()
    view: frozenset[str] = frozenset()
    view_held: frozenset[str] = frozenset()
    """Of the view, what decides nothing while nothing on record could bill."""
    book_open: frozenset[str] = frozenset()
    view_open: frozenset[str] = frozenset()
    """What decides nothing while the task's latest pass left nothing open (`left_open`): such a pass reads none of
    it, and the next one will not before something else changes or falls due."""

    @classmethod
    def of(
        cls,
        *,
        book: Iterable[str] = (),
        view: Iterable[str] = (),
        view_held: Iterable[str] = (),
        book_open: Iterable[str] = (),
        view_open: Iterable[str] = (),
    ) -> "Looks":
        return cls(
            book=frozenset(book),
            view=frozenset(view),
            view_held=frozenset(view_held),
            book_open=frozenset(book_open),
            view_open=frozenset(view_open),
        )

    @property
    def names(self) -> frozenset[str]:
        """All that it tells of, whenever that decides."""
        return self.book | self.view | self.view_held | self.book_open | self.view_open

    def concern(self, change: Change, *, settled: bool = False) -> bool:
        """Is anything of it another than it was? `settled`: the latest pass came to its end and left nothing open."""
        if change.rest_changed or not self.book.isdisjoint(change.book) or not self.view.isdisjoint(change.view):
            return True
        if not change.at_rest and not self.view_held.isdisjoint(change.view):
            return True
        return not settled and not (self.book_open.isdisjoint(change.book) and self.view_open.isdisjoint(change.view))


class Changes:
    """What was replaced since it was last asked? For all tasks together: each looks at some of the same parts."""

    def __init__(self, looks: Iterable[Looks]) -> None:
        looks = tuple(looks)
        self._book = sorted({name for look in looks for name in look.book | look.book_open})
        self._view = sorted({name for look in looks for name in look.view | look.view_held | look.view_open})
        self._told: Moment | None = None

    def since(self, book: Restful, view: object) -> Change:
        """All of it, the first time."""
        former, self._told = self._told, (book, view)
        if former is None:
            return Change(
                book=frozenset(self._book), view=frozenset(self._view), at_rest=book.at_rest, rest_changed=True
            )
        return Change(
            book=_replaced(self._book, former[0], book),
            view=_replaced(self._view, former[1], view),
            at_rest=book.at_rest,
            rest_changed=book.at_rest is not former[0].at_rest,
        )


Moment = tuple[Restful, object]
"""What is on record, and what was seen."""
NOTHING: Final[frozenset[str]] = frozenset()


def _replaced(names: Iterable[str], former: object, latter: object) -> frozenset[str]:
    if former is latter:
        return NOTHING
    return frozenset(name for name in names if not _same(name, former, latter))


def _same(name: str, former: object, latter: object) -> bool:
    facet = FACETS.get(name)
    if facet is None:
        return getattr(former, name) is getattr(latter, name)
    before, after = getattr(former, facet.part), getattr(latter, facet.part)
    return before is after or facet.same(before, after)
