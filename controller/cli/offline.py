"""What does the store say while the daemon is down?

Read-only, through sqlite3 itself: nothing is locked, migrated or repaired, and a store of another version is told as
such. What comes back is shaped like the API's answers, as far as a store can know: it says what is recorded, and
nothing of what exists.
"""

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from controller.cli.exits import Exit, Failure
from controller.clock import from_ms
from controller.core.obligation import Ending
from controller.store.read_only import read_only

Body = dict[str, Any]
T = TypeVar("T")

_LIVE: Final = "('declared', 'requested', 'active', 'uncertain', 'stop-required')"
_WORDS: Final = {
    "declared": "starting",
    "requested": "starting",
    "active": "ready",
    "uncertain": "checking: create answer lost",
    "stop-required": "stopping",
}


def status(store: Path) -> Body:
    return _read(store, _status)


def obligations(store: Path, *, ended: bool) -> Body:
    return _read(store, lambda rows: {"obligations": list(_obligations(rows, ended=ended))})


def evidence(store: Path, *, after: int, limit: int) -> Body:
    """Lines in the order of the chain; the newest may not be in the file yet."""
    query = "SELECT line FROM evidence WHERE seq > ? ORDER BY seq LIMIT ?"
    return _read(store, lambda rows: {"lines": [json.loads(line) for (line,) in rows.execute(query, (after, limit))]})


def _read(store: Path, query: Callable[[sqlite3.Connection], T]) -> T:
    try:
        with _opened(store) as rows:
            return query(rows)
    except (sqlite3.Error, ValueError) as error:
        raise Failure(
            Exit.UNREACHABLE, f"the daemon is down, and its store cannot be read: {store}: {error}"
        ) from error


@contextmanager
def _opened(store: Path) -> Iterator[sqlite3.Connection]:
    if not store.exists():
        raise Failure(Exit.UNREACHABLE, f"the daemon is down, and there is no store at {store}")
    with closing(read_only(store, wait=2)) as rows:
        rows.execute("PRAGMA query_only = ON")
        yield rows


def _status(rows: sqlite3.Connection) -> Body:
    owner, installation = rows.execute("SELECT owner, installation FROM meta").fetchone() or (None, None)
    models: dict[str, list[tuple[str, str]]] = {}
    for model, deployment, phase in rows.execute(
        f"SELECT model, id, phase FROM deployments WHERE phase IN {_LIVE} ORDER BY model, slot"  # noqa: S608 - constants
    ):
        models.setdefault(model, []).append((deployment, phase))
    (due,) = rows.execute(
        "SELECT count(*) FROM obligations WHERE ended_at_ms IS NULL AND due_at_ms IS NOT NULL"
    ).fetchone()
    (still_open,) = rows.execute("SELECT count(*) FROM obligations WHERE ended_at_ms IS NULL").fetchone()
    ended = dict(rows.execute("SELECT ending, count(*) FROM obligations WHERE ending IS NOT NULL GROUP BY ending"))
    return {
        "owner": owner,
        "installation": installation,
        "ready": False,
        "mode": "down",
        "models": [
            {"alias": alias, "phase": _WORDS[found[0][1]], "deployments": [deployment for deployment, _ in found]}
            for alias, found in models.items()
        ],
        "owed": due,
        "obligations_open": still_open,
        "obligations_ended": {ending.value: ended.get(ending.value, 0) for ending in Ending},
    }


def _obligations(rows: sqlite3.Connection, *, ended: bool) -> Iterator[Body]:
    found = rows.execute(
        "SELECT id, deployment, model, resource, request, opened_at_ms, due_at_ms, reason, stop_attempts,"
        " stop_submitted_at_ms, stop_answer, seen_at_ms, ended_at_ms, ending FROM obligations"
        " WHERE ended_at_ms IS NULL OR ? ORDER BY opened_at_ms, id",
        (ended,),
    )
    for row in found:
        yield {
            "id": row[0],
            "deployment": row[1],
            "model": row[2],
            "resource": _resource(row[3]),
            "request": row[4],
            "opened_at": _instant(row[5]),
            "due": row[6] is not None and row[12] is None,
            "due_at": _instant(row[6]),
            "reason": row[7],
            "attempts": row[8],
            "last_stop_at": _instant(row[9]),
            "last_answer": row[10],
            "last_seen_at": _instant(row[11]),
            "waiting_for": None if row[12] is not None else "the daemon, which is down",
            "ended_at": _instant(row[12]),
            "ending": row[13],
        }


def _resource(text: str | None) -> Body | None:
    if text is None:
        return None
    provider, account, name, incarnation = json.loads(text)
    return {"provider": provider, "account": account, "name": name, "incarnation": incarnation}


def _instant(ms: int | None) -> str | None:
    return None if ms is None else from_ms(ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")
