"""What does the store say, beside a daemon or without one?

Read-only, through sqlite3 itself, and bounded in time: nothing is locked, migrated or repaired. What may be asked of it
is who it belongs to, what is owed, and what the provider answered when something was last rented or stopped: no read
shows whether a key may do either.
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from controller.clock import Clock
from controller.store.read_only import read_only
from controller.store.schema import HEAD

LIMIT: Final = timedelta(seconds=10)
_STEPS_BETWEEN_LOOKS: Final = 20_000
_ANSWERS_LOOKED_AT: Final = 100
_CALLS: Final = {"create.answered": "create", "stop.answered": "stop"}


class Unfit(Exception):
    """The store cannot be used. The text says why; `mend` what helps."""

    def __init__(self, why: str, *, mend: str) -> None:
        super().__init__(why)
        self.mend = mend


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    call: str
    """`create` or `stop`."""
    code: str | None
    """The refusal's number as in `HTTP 403`; None: accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    owner: str
    account: str
    installation: str
    claimed: frozenset[str]
    open_duties: int
    answered: Answered | None
    """The last call that rents or stops whose answer tells about the key."""


def recorded(store: Path, clock: Clock) -> Recorded | None:
    """None where no daemon has used a store yet. Raises Unfit."""
    if not store.exists() or store.stat().st_size == 0:
        return None
    deadline = clock.boot() + LIMIT
    try:
        with closing(read_only(store, wait=2)) as rows:
            rows.execute("PRAGMA query_only = ON")
            rows.set_progress_handler(lambda: clock.boot() > deadline, _STEPS_BETWEEN_LOOKS)
            return _read(rows)
    except sqlite3.OperationalError as problem:
        if str(problem).startswith("no such "):
            raise _damaged(str(problem)) from problem
        raise Unfit(f"cannot be read: {problem}", mend="see who may read it, and whether its disk works") from problem
    except (sqlite3.Error, ValueError, TypeError, KeyError) as problem:
        raise _damaged(str(problem)) from problem


def _read(rows: sqlite3.Connection) -> Recorded | None:
    if (problem := rows.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
        raise _damaged(problem)
    (version,) = rows.execute("SELECT version_num FROM alembic_version").fetchone()
    if version > HEAD:
        raise Unfit(f"of a newer version ({version}, this is {HEAD})", mend="install the newer gpuwarden again")
    identity = rows.execute("SELECT owner, account, installation FROM meta").fetchone()
    if identity is None:
        return None  # made, and never taken up
    owner, account, installation = identity
    (still_open,) = rows.execute("SELECT count(*) FROM obligations WHERE ended_at_ms IS NULL").fetchone()
    return Recorded(
        owner=owner,
        account=account,
        installation=installation,
        claimed=frozenset(found for (found,) in rows.execute("SELECT installation FROM claims")),
        open_duties=still_open,
        answered=next(_telling(rows), None),
    )


def _telling(rows: sqlite3.Connection) -> Iterator[Answered]:
    """The newest answers first, of those that say what the key may do."""
    lines = rows.execute(
        "SELECT line FROM evidence WHERE event IN ('create.answered', 'stop.answered') ORDER BY seq DESC LIMIT ?",
        (_ANSWERS_LOOKED_AT,),
    )
    for (line,) in lines:
        event = json.loads(line)
        answer, text = event["detail"].get("answer"), str(event["detail"].get("text"))
        if answer == "accepted":
            yield Answered(call=_CALLS[event["event"]], code=None)
        elif (code := text[:8]) in {"HTTP 401", "HTTP 403"}:
            yield Answered(call=_CALLS[event["event"]], code=code)


def _damaged(why: str) -> Unfit:
    return Unfit(f"damaged: {why}", mend="end the daemon, and `gpuwarden restore` a backup (deploy/README.md)")
