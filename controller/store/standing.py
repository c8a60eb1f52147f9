"""What does a store that no daemon has opened say of what runs, and on which config?

Read-only, through sqlite3 itself, so that a start and an operator's command can ask before anything is locked, migrated
or taken over. A store of another version, or one that cannot be read, says nothing: what follows from that is decided
by whoever opens it.
"""

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Final

from controller.clock import from_ms
from controller.core.removal import RUNNING, Confirmed, Machine
from controller.core.spend import to_usd
from controller.store.read_only import read_only

_RUNNING: Final = ", ".join(f"'{phase.value}'" for phase in sorted(RUNNING))
_MACHINES: Final = f"SELECT model, usd_micros_per_hour FROM deployments WHERE phase IN ({_RUNNING})"  # noqa: S608 - constants


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What runs, and on whose word."""

    machines: tuple[Machine, ...]
    accepted: str | None
    """The config that was taken last, for `settings.load_accepted`."""
    confirmed: Confirmed | None


def standing(store: Path) -> Standing | None:
    """`None`: there is no store, or none that can be read."""
    if not store.exists():
        return None
    try:
        with closing(read_only(store, wait=2)) as rows:
            found = rows.execute(_MACHINES).fetchall()
            accepted = rows.execute("SELECT accepted_config FROM meta").fetchone()
            return Standing(
                machines=tuple(Machine(model=model, usd_per_hour=_usd(rate)) for model, rate in found),
                accepted=None if accepted is None else accepted[0],
                confirmed=_confirmed(rows),
            )
    except sqlite3.Error:
        return None


def _usd(micros: int | None) -> Decimal | None:
    return None if micros is None else to_usd(micros)


def _confirmed(rows: sqlite3.Connection) -> Confirmed | None:
    try:
        found = rows.execute("SELECT confirmed_config, confirmed_at_ms FROM meta").fetchone()
    except sqlite3.OperationalError:
        return None  # a store from before this could be confirmed
    return None if found is None or found[0] is None else Confirmed(digest=found[0], at=from_ms(found[1]))
