"""When are a model's volumes filled, and what is told meanwhile?

A volume is filled when what was started beside it could have served, and that is stopped, with proof. What cannot be
begun or comes to nothing is told; the other places go on. Giving up the wait changes nothing: what is under way is
stopped by the daemon as soon as it is filled, or at its deadline.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
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
"""A daemon that restarts is back by then."""
_ENDED: Final = frozenset({"stopped", "cancelled", "disowned"})
_FILLED: Final = "prefetched"


@dataclass(slots=True)
class _Filling:
    """One place, as far as it has come."""

    place: str
    deployment: str | None = None
    shown: Body = field(default_factory=dict)
    """Its deployment as last told."""
    refusal: Body | None = None
    gone: bool = False

    @property
    def over(self) -> bool:
        return self.gone or self.shown.get("phase") in _ENDED or bool((self.refusal or {}).get("final"))

    @property
    def filled(self) -> bool:
        return self.shown.get("phase") == "stopped" and self.shown.get("reason") == _FILLED

    @property
    def code(self) -> Exit:
        if self.filled:
            return Exit.OK
        if self.refusal is not None:
            return exit_of(str(self.refusal.get("code")))
        return Exit.PROVIDER if self.shown.get("phase") == "cancelled" else Exit.FAILED

    @property
    def words(self) -> str:
        if self.filled:
            return "filled, and the stop of what filled it proven"
        if self.refusal is not None:
            told = (self.refusal.get("reason"), self.refusal.get("detail"))
            return f"not begun: {': '.join(str(part) for part in told if part) or self.refusal.get('code')}"
        if self.shown.get("phase") == "cancelled":
            return f"nothing to be had there: {self.shown.get('refused') or self.shown.get('reason') or 'cancelled'}"
        if self.deployment is None:
            return "asked for"
        return self._under_way()

    def _under_way(self) -> str:
        phase, reason = self.shown.get("phase"), self.shown.get("reason")
        if self.gone:
            return f"{self.deployment} is not known to the daemon any more"
        if phase in _ENDED:
            return f"not filled: {self.deployment} ended, {reason or phase}"
        if phase == "stop-required":
            what = "filled" if reason == _FILLED else f"not filled ({reason})"
            return f"{what}; the proof of its stop is awaited"
        return f"being filled by {self.deployment} ({phase or 'declared'})"


async def prefetch(
    daemon: Daemon, *, alias: str, places: Sequence[str], wait: bool, limit: timedelta | None, as_json: bool
) -> Exit:
    """`places` empty: every volume of the model."""
    path = f"/v1/models/{quote(alias, safe='')}/prefetch"
    known = {str(entry["id"]) for entry in (await daemon.get("/v1/deployments"))["deployments"]}
    fillings = []
    for body in [{"place": place} for place in dict.fromkeys(places)] or [{}]:
        fillings += [_heard(told) for told in (await daemon.post(path, body))["places"]]
    for filling in fillings:
        if filling.deployment is not None:
            say(f"{alias}, {filling.place}: {filling.deployment} fills it already; nothing more was asked for")
    if wait:
        with anyio.move_on_after(None if limit is None else limit.total_seconds()):
            await _until_over(daemon, path, fillings, known)
    return _told(alias, fillings, waited=wait, as_json=as_json)


def _told(alias: str, fillings: Sequence[_Filling], *, waited: bool, as_json: bool) -> Exit:
    if as_json:
        show_json({"prefetch": {filling.place: _as_json(filling) for filling in fillings}})
    else:
        for filling in fillings:
            say(f"{alias}, {filling.place}: {filling.words}")
    if not waited:
        return next((found.code for found in fillings if found.over and not found.filled), Exit.OK)
    if any(not filling.over for filling in fillings):
        raise Failure(Exit.FAILED, f"{alias} is not filled within the limit; what is under way goes on")
    return next((found.code for found in fillings if not found.filled), Exit.OK)


def _as_json(filling: _Filling) -> Body:
    return {
        "deployment": filling.deployment,
        "filled": filling.filled if filling.over else None,
        "phase": filling.shown.get("phase"),
        "reason": filling.shown.get("reason"),
        "refusal": filling.refusal,
        "told": filling.words,
    }


def _heard(told: Body) -> _Filling:
    return _Filling(place=str(told["place"]), deployment=told.get("deployment"), refusal=told.get("refusal"))


async def _until_over(daemon: Daemon, path: str, fillings: Sequence[_Filling], known: set[str]) -> None:
    """The wish is repeated where nothing came of it yet: it fades at the daemon when nobody does."""
    progress, away_since = Progress(), None
    try:
        while True:
            try:
                await _look(daemon, path, fillings, known)
                away_since = None
            except Failure as failure:
                away_since = _patience(failure, away_since)
                progress.tell("the daemon is away; it will go on when it is back")
            else:
                left = [filling for filling in fillings if not filling.over]
                if not left:
                    return
                progress.tell("; ".join(f"{filling.place}: {filling.words}" for filling in left))
            await anyio.sleep(_LOOK_AGAIN_SECONDS)
    finally:
        progress.end()


async def _look(daemon: Daemon, path: str, fillings: Sequence[_Filling], known: set[str]) -> None:
    """Look before asking again: what was begun since is what was asked for."""
    found = {str(entry["id"]): entry for entry in (await daemon.get("/v1/deployments"))["deployments"]}
    for filling in fillings:
        if filling.deployment is None:
            begun = (name for name, entry in found.items() if entry["fills"] == filling.place and name not in known)
            filling.deployment = next(begun, None)
        if filling.deployment is not None:
            filling.refusal = None
            filling.gone = filling.deployment not in found
            filling.shown = found.get(filling.deployment, {})
        elif not filling.over:
            heard = _heard((await daemon.post(path, {"place": filling.place}))["places"][0])
            filling.deployment, filling.refusal = heard.deployment, heard.refusal


def _patience(failure: Failure, away_since: float | None) -> float:
    now = anyio.current_time()
    if failure.code is not Exit.UNREACHABLE or (away_since is not None and now - away_since > _AWAY_LIMIT_SECONDS):
        raise failure
    return now if away_since is None else away_since
