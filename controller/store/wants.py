"""Which models does somebody want to be up?

Asked by gateways while callers wait, by operators, and by a schedule that keeps a model warm; forgotten when nobody
asks any more. Kept in memory only: after a restart those who still wait ask again.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from controller.core.book import Book
from controller.core.policy import ModelPolicy
from controller.core.schedule import Warm, dismissed

LASTS: Final = timedelta(seconds=60)


@dataclass(slots=True)
class Wants:
    """When each model was last asked for."""

    _asked: dict[str, datetime] = field(default_factory=dict)
    _fills: dict[tuple[str, str], datetime] = field(default_factory=dict)
    """When the volume of a model in a place was last asked to be filled."""

    def ask(self, alias: str, *, now: datetime) -> None:
        self._asked[alias] = now

    def wanted(self, alias: str, *, now: datetime) -> bool:
        """Was it asked for lately?"""
        at = self._asked.get(alias)
        return at is not None and now - at <= LASTS

    def ask_fill(self, alias: str, place: str, *, now: datetime) -> None:
        self._fills[alias, place] = now

    def fills(self, alias: str, *, now: datetime) -> list[str]:
        """The places whose volumes were asked to be filled lately."""
        return [place for (model, place), at in self._fills.items() if model == alias and now - at <= LASTS]

    def lapse_fills(self, *, now: datetime) -> None:
        """Forget what nobody asks for any more."""
        self._fills = {wish: at for wish, at in self._fills.items() if now - at <= LASTS}

    @property
    def filling(self) -> bool:
        """Was anything asked to be filled, and is neither begun nor forgotten?"""
        return bool(self._fills)

    def fill_begun(self, alias: str, place: str) -> None:
        """One wish is one attempt."""
        self._fills.pop((alias, place), None)

    def forget_fills(self, alias: str) -> None:
        self._fills = {wish: at for wish, at in self._fills.items() if wish[0] != alias}

    def all(self, *, now: datetime) -> frozenset[str]:
        """Everything that is wanted, to serve or to be filled."""
        serving = (alias for alias in self._asked if self.wanted(alias, now=now))
        return frozenset(serving) | {alias for alias, _ in self._fills if self.fills(alias, now=now)}

    def satisfied(self, alias: str, *, before: datetime | None = None) -> None:
        """Forget what was asked; with `before`, only what was asked until then."""
        at = self._asked.get(alias)
        if at is not None and (before is None or at <= before):
            del self._asked[alias]


def obey_schedule(wants: Wants, model: ModelPolicy, book: Book, *, now: datetime) -> datetime | None:
    """Ask for what is to be kept warm, as a caller would: money, holds and limits of starts count. Returns when to ask
    again, or when a window begins."""
    took = book.memory(model.alias).cold_start
    stance, kept = model.stance(took, now=now), model.stance_kept(took, now=now)
    if not isinstance(stance, Warm) or not isinstance(kept, Warm):
        return stance.until
    records = [record for record in book.records.values() if record.model == model.alias]
    if dismissed(records, since=kept.since):
        return stance.until
    wants.ask(model.alias, now=now)
    return min(stance.until, now + LASTS)
