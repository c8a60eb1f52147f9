"""When is a restart done, and what is told meanwhile?

Done is when every machine that served has made way: its successor serves, and its own end is proven. What keeps a
successor from being started, or ends it, is told; the old one serves on then, and the daemon goes on trying.
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Final
from urllib.parse import quote

import anyio

from controller.cli.exits import Exit, Failure, exit_of
from controller.cli.link import Daemon
from controller.cli.output import Progress, say, show_json

Body = dict[str, Any]

_LOOK_AGAIN_SECONDS: Final = 1.0
_AWAY_LIMIT_SECONDS: Final = 60.0
_ENDED: Final = frozenset({"stopped", "cancelled", "disowned"})


async def restart(daemon: Daemon, *, alias: str, wait: bool, limit: timedelta | None, as_json: bool) -> Exit:
    answer = await daemon.post(f"/v1/models/{quote(alias, safe='')}/restart")
    wanted = [str(found) for found in answer.get("replaced", [])]
    found: dict[str, Body] = {}
    if wait and wanted:
        with anyio.move_on_after(None if limit is None else limit.total_seconds()):
            found = await _until_replaced(daemon, wanted)
    if as_json:
        show_json({"replaced": {name: _successor(name, found.values()) for name in wanted}})
    if wanted and wait and not found:
        raise Failure(Exit.FAILED, f"{alias} is not replaced within the limit; it serves on, and the daemon goes on")
    if not as_json:
        say(_words(alias, wanted, found))
    return Exit.OK


def _words(alias: str, wanted: list[str], found: dict[str, Body]) -> str:
    if not wanted:
        return f"{alias}: nothing of it serves, so there is nothing to replace"
    if not found:
        return f"accepted, not done: {len(wanted)} to be replaced; `gpuwarden explain {alias}` tells how it goes"
    pairs = (f"{name} by {_successor(name, found.values())}" for name in wanted)
    return f"replaced, and the end of the old proven: {', '.join(pairs)}"


async def _until_replaced(daemon: Daemon, wanted: list[str]) -> dict[str, Body]:
    """The deployments as they are then. Raises Failure where it cannot be, for now or at all."""
    progress, away_since = Progress(), None
    failed: set[str] | None = None
    try:
        while True:
            try:
                found = {str(entry["id"]): entry for entry in (await daemon.get("/v1/deployments"))["deployments"]}
            except Failure as failure:
                away_since = _patience(failure, away_since)
                progress.tell("the daemon is away; it will go on when it is back")
            else:
                away_since = None
                failed = _failed(wanted, found) if failed is None else failed  # what failed before is no news
                left = [name for name in wanted if not _made_way(name, found, failed)]
                if not left:
                    return found
                progress.tell(_waiting_words(left[0], found))
            await anyio.sleep(_LOOK_AGAIN_SECONDS)
    finally:
        progress.end()


def _patience(failure: Failure, away_since: float | None) -> float:
    now = anyio.current_time()
    if failure.code is not Exit.UNREACHABLE or (away_since is not None and now - away_since > _AWAY_LIMIT_SECONDS):
        raise failure
    return now if away_since is None else away_since


def _failed(wanted: list[str], found: dict[str, Body]) -> set[str]:
    """Successors that were stopped."""
    return {name for name, entry in found.items() if entry.get("replaces") in wanted and entry.get("reason")}


def _made_way(name: str, found: dict[str, Body], failed_before: set[str]) -> bool:
    old = found.get(name)
    if old is None:
        return True  # the daemon has forgotten it: it ended a day ago
    if old["phase"] in _ENDED | {"stop-required"} and old["reason"] != "replaced":
        raise Failure(Exit.FAILED, f"{name} was stopped before it was replaced: {old['reason'] or old['phase']}")
    if old["phase"] == "active":
        _require_hope(name, old, [entry for entry in found.values() if entry["id"] not in failed_before])
    return old["phase"] in _ENDED


def _require_hope(name: str, old: Body, known: Iterable[Body]) -> None:
    """It serves still. Nobody waits for what time alone does not mend, or for the next attempt after a failed one."""
    refusal = old.get("successor_refused") or {}
    if refusal.get("final"):
        code = exit_of(str(refusal.get("code")))
        raise Failure(code, f"{name} serves on, for no successor may be started: {refusal.get('reason')}")
    for entry in known:
        if entry.get("replaces") == name and entry.get("reason"):
            raise Failure(Exit.FAILED, f"{name} serves on, for its successor failed: {entry['reason']}")


def _waiting_words(name: str, found: dict[str, Body]) -> str:
    old = found[name]
    if old["phase"] != "active":
        return f"{name}: its successor serves; open requests end, then the proof of its stop is awaited"
    if (refusal := old.get("successor_refused")) is not None:
        return f"{name} serves, and waits for its successor: {refusal.get('reason')}"
    successor = found.get(_successor(name, found.values()) or "")
    return f"{name} serves; its successor is {'asked for' if successor is None else successor['phase']}"


def _successor(name: str, known: Iterable[Body]) -> str | None:
    """The latest that was made to replace it."""
    made = [str(entry["id"]) for entry in known if entry.get("replaces") == name]
    return made[-1] if made else None
