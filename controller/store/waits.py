"""Who says that callers wait for a model, and until when may somebody come back for it?

Gateways say how many wait, again and again for as long as anybody does, and once more when the last one left without
an answer: then also for how long those who were told to come back may be on their way. In memory, and lost at a
restart, after which gateways that still have waiters ask again; the time until which somebody may come back is kept in
the model's memory as well, since who was told asks nobody meanwhile.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from controller.store.transaction import Tx

LASTS: Final = timedelta(seconds=60)
"""A gateway's word; it asks every ten seconds."""
MOVED_BY: Final = timedelta(seconds=30)
"""Later by so much, it is stored anew."""


@dataclass(slots=True)
class Waits:
    """All that is said at present."""

    _said: dict[tuple[str, str], tuple[int, datetime]] = field(default_factory=dict)
    """Of each gateway and model, how many wait, and since when that is known."""
    _awaited: dict[str, datetime] = field(default_factory=dict)
    _expected: dict[str, datetime] = field(default_factory=dict)

    def tell(self, gateway: str, alias: str, *, waiting: int, returning: timedelta, now: datetime) -> None:
        """`returning`: for so long may somebody come back who was told to."""
        self._said = {key: said for key, said in self._said.items() if now - said[1] <= LASTS}
        self._said[gateway, alias] = (waiting, now)
        self._awaited[alias] = now
        if returning:
            self.expect(alias, until=now + returning)

    def expect(self, alias: str, *, until: datetime) -> None:
        self._expected[alias] = max(until, self._expected.get(alias, until))

    def awaited(self, alias: str, *, now: datetime) -> bool:
        """Does a gateway say now that somebody waits?"""
        return any(waiting and now - at <= LASTS for (_, model), (waiting, at) in self._said.items() if model == alias)

    def awaited_at(self, alias: str) -> datetime | None:
        """When somebody was last known to wait, or to have left."""
        return self._awaited.get(alias)

    def expected_until(self, alias: str) -> datetime | None:
        return self._expected.get(alias)

    def lapses_at(self, alias: str) -> datetime | None:
        """When the last word that somebody waits runs out, if no gateway says it again."""
        said = [at for (_, model), (waiting, at) in self._said.items() if model == alias and waiting]
        return max(said) + LASTS if said else None


def note_expected(tx: Tx, model: str, *, until: datetime) -> None:
    """Keep it across a restart; never earlier than it was."""
    memory = tx.book.memory(model)
    if memory.expected_until is None or until > memory.expected_until:
        tx.put_memory(replace(memory, expected_until=until))
