"""What does each pass of a daemon's tasks read of book and view?

A task tells what it looks at, and news of anything else leaves it asleep: telling too little is a lost wake-up. Here
the daemon's book and view write down which of their parts a pass reads, so that every scenario can be asked whether a
task read what it had not told. Reads inside a transaction do not count, they decide again on what is on record at that
moment; nor those of calls that a pass leaves running, or of whoever is rung meanwhile; nor copies.

A part of which facets are told is read facet by facet: by the fields of what it holds, or by the properties that view
gives. A pass that reads what decides nothing while the task left nothing open must have left something open.
"""

import sys
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import fields
from datetime import datetime
from typing import Any, Final

from controller.core.book import Book
from controller.core.deployment import Record
from controller.core.facets import FACETS
from controller.core.view import Probed, View
from controller.daemon.built import Daemon
from controller.news import Looks
from controller.supervision import Informed, Task

NO_NEWS: Final = frozenset({"mark", "scope"})
"""Time goes on by itself, and what account a store is for never changes."""
OWN: Final = frozenset(
    ("account_guard" if field.name == "judged" else "observer", field.name) for field in fields(View)
) | frozenset(("observer", name) for name in FACETS)
"""Published by this task alone: nobody can have news of it for the one who does."""
LATER: Final = frozenset({("idle_reaper", "records"), ("reconciler", "records")})
"""Who reads when a byte last passed: a later one only puts off what falls due; that any passed is in the facet."""

_KEPT: Final = {"_live": "standing", "unrecorded": "sightings"}
"""What a book works out once, and of which part."""
_GIVEN: Final = {"resource": "resources", "carrying": "resources"}
"""What view tells of a listing, and by which facet."""
_FACETS_GIVEN: Final = frozenset({"resources", "complete_resources", "date_apart"})
_WITHIN: Final = {"records": "standing", "leases": "held_leases", "probes": "answers"}
"""What reading a part as a whole comes to, where its fields tell the rest."""
_FIELDS: Final[Mapping[tuple[type, str], str]] = {
    (Record, "last_byte_at"): "records",
    (Probed, "verdict"): "answers",
    (Probed, "served"): "answers",
    (Probed, "runtime"): "runtimes",
    **{(Probed, name): "probes" for name in ("detail", "at", "awaited_at", "version", "proven_at")},
}

_reader: ContextVar[tuple[str, set[str]] | None] = ContextVar("reader", default=None)
_BOOK: Final = frozenset(field.name for field in fields(Book)) - NO_NEWS
_VIEW: Final = frozenset(field.name for field in fields(View))


def _field(kind: Any, name: str, part: str) -> None:
    """Let reads of this field be noted, wherever its value came from."""
    plain: Any = kind.__dict__[name]
    if isinstance(plain, property):
        return  # by an earlier scenario

    def get(self: Any) -> Any:
        reader = _reader.get()
        if reader is not None and sys._getframe(1).f_globals["__name__"] not in _BY_THE_WAY:
            reader[1].add(part)
        return plain.__get__(self, kind)

    setattr(kind, name, property(get, plain.__set__))


_BY_THE_WAY: Final = frozenset({"dataclasses", "controller.core.facets"})


def _given(kind: Any, name: str) -> Any:
    """What view works out of a part, noted as that facet."""
    plain, part = kind.__dict__[name], _GIVEN.get(name, name)
    ask: Any = plain.fget if isinstance(plain, property) else plain

    def noted(self: Any, *given: Any) -> Any:
        reader = _reader.get()
        if reader is not None:
            reader[1].add(part)
        token = _reader.set(None)
        try:
            return ask(self, *given)
        finally:
            _reader.reset(token)

    return property(noted) if isinstance(plain, property) else noted


def _noting(kind: Any, parts: frozenset[str]) -> Any:
    """The same kind, that tells what is read of it; what replaces it does, too. Only the parts are slower to read: what
    asked after every name took a tenth of a scenario's time."""
    return type(f"Read{kind.__name__}", (kind,), {"__slots__": ()} | {name: _part(kind, name) for name in parts})


def _part(kind: Any, name: str) -> property:
    plain, part = kind.__dict__.get(name), _KEPT.get(name, _WITHIN.get(name, name))
    kept = not hasattr(plain, "__set__")  # in the instance's own dictionary

    def get(self: Any) -> Any:
        reader = _reader.get()
        if reader is not None and not _copying():
            reader[1].add(part)
        return self.__dict__[name] if kept and name in self.__dict__ else plain.__get__(self, kind)

    def put(self: Any, value: Any) -> None:
        if kept:
            self.__dict__[name] = value
        else:
            plain.__set__(self, value)

    return property(get, put)


def _copying() -> bool:
    """`dataclasses.replace` reads every part and looks at none; whether we are at rest is told to all; and what a book
    keeps of a part was noted when it was asked for."""
    caller = sys._getframe(2)
    return caller.f_globals["__name__"] in _BY_THE_WAY or caller.f_code.co_name in {"at_rest", *_KEPT}


ReadBook: Final = _noting(Book, _BOOK | {*_KEPT})
ReadBook.once = lambda self, work: work(self)  # each who asks reads
ReadView: Final = _noting(View, _VIEW)
for _name in _FACETS_GIVEN | _GIVEN.keys():
    setattr(ReadView, _name, _given(View, _name))


class Reads:
    """Of each task, the parts that its passes read so far."""

    def __init__(self) -> None:
        self.of: dict[str, set[str]] = defaultdict(set)
        self.at_rest: dict[str, set[str]] = defaultdict(set)
        """In passes at rest alone: then what a task looks at only while something is held is not told either."""
        self.settled: dict[str, set[str]] = defaultdict(set)
        """In passes that left nothing open."""
        self._looks: dict[str, Looks] = {}

    def watch(self, daemon: Daemon) -> None:
        """Before it runs."""
        for (kind, name), part in _FIELDS.items():
            _field(kind, name, part)
        store, view = daemon.store, daemon.view
        store.book = ReadBook(**{field.name: getattr(store.book, field.name) for field in fields(Book)})
        view.publish(ReadView(**{field.name: getattr(view.value, field.name) for field in fields(View)}))
        store.write = _unread(store.write)  # type: ignore[method-assign]
        store.read = _unread(store.read)  # type: ignore[method-assign]
        store.owe_unwritten = _unread_call(store.owe_unwritten)  # type: ignore[method-assign]
        view.publish = _unread_call(view.publish)  # type: ignore[method-assign]
        for runner in daemon.runners:
            task: Any = runner.task
            self._watch_task(task, lambda: store.book.at_rest)
        for name in ("start", "stop"):
            setattr(daemon.executor, name, _unread_call(getattr(daemon.executor, name)))

    def _watch_task(self, task: Informed, at_rest: Callable[[], bool]) -> None:
        self._looks[task.name] = task.looks_at
        task.run_pass = self._noted(task, task.run_pass, at_rest)  # type: ignore[method-assign]

    def _noted(
        self, task: Task, run_pass: Callable[[], Awaitable[datetime | None]], at_rest: Callable[[], bool]
    ) -> Callable[[], Any]:
        async def noted() -> datetime | None:
            read: set[str] = set()
            rested = at_rest()
            token = _reader.set((task.name, read))
            try:
                return await run_pass()
            finally:
                _reader.reset(token)
                self.of[task.name] |= read
                if rested and at_rest():
                    self.at_rest[task.name] |= read
                if not getattr(task, "left_open", True):
                    self.settled[task.name] |= read

        return noted

    def untold(self) -> set[tuple[str, str]]:
        """Task and part: read by a pass, and not what the task says it looks at."""
        found: set[tuple[str, str]] = set()
        for name, looks in self._looks.items():
            plain, held = looks.book | looks.view, looks.view_held
            while_open = looks.book_open | looks.view_open
            found |= {(name, part) for part in self.of[name] - _covered(plain | held | while_open)}
            found |= {(name, part) for part in self.at_rest[name] - _covered(plain | while_open)}
            found |= {(name, part) for part in self.settled[name] - _covered(plain | held)}
        return found - OWN - LATER


def _covered(told: frozenset[str]) -> frozenset[str]:
    """Who tells a part tells its facets; and of what is there at all, every facet of a part tells."""
    whole = {name for name, facet in FACETS.items() if facet.part in told}
    some = {_WITHIN[FACETS[name].part] for name in told & FACETS.keys() if FACETS[name].part in _WITHIN}
    return told | whole | some


def _unread(call: Callable[..., Awaitable[Any]]) -> Any:
    async def unread(*given: Any, **named: Any) -> Any:
        token = _reader.set(None)
        try:
            return await call(*given, **named)
        finally:
            _reader.reset(token)

    return unread


def _unread_call(call: Callable[..., Any]) -> Callable[..., Any]:
    def unread(*given: Any, **named: Any) -> Any:
        token = _reader.set(None)
        try:
            return call(*given, **named)
        finally:
            _reader.reset(token)

    return unread
