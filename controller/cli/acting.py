"""What do `start`, `stop`, `confirm-stopped` and `claim` do, and when are they done?

A start is done when the model serves, a stop when every obligation it made has ended with its proof: an accepted call
is not a stop. Giving up the wait changes nothing about what is owed, and the words say so.
"""

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any, Final
from urllib.parse import quote

import anyio

from controller.cli.exits import Exit, Failure, exit_of
from controller.cli.link import Daemon
from controller.cli.output import Progress, say, show_json, span_words

Body = dict[str, Any]

_LOOK_AGAIN_SECONDS: Final = 1.0
_AWAY_LIMIT_SECONDS: Final = 60.0
"""A daemon that restarts is back by then."""


async def start(daemon: Daemon, *, alias: str, wait: bool, limit: timedelta | None, as_json: bool) -> Exit:
    """The wish is repeated while waiting: it fades at the daemon when nobody does."""
    path = f"/v1/models/{quote(alias, safe='')}/start"
    view = (await daemon.post(path)).get("model") or {}
    if wait:
        with anyio.move_on_after(_seconds(limit)):
            view = await _until_ready(daemon, path, view, alias)
        if view.get("phase") != "ready":
            raise Failure(Exit.FAILED, f"{alias} is not ready within the limit; it goes on starting")
    if as_json:
        show_json({"model": view})
    else:
        say(f"{alias} is ready" if wait else f"{alias}: the start was accepted, and nothing more")
    return Exit.OK


async def _until_ready(daemon: Daemon, path: str, view: Body, alias: str) -> Body:
    seen = _failure_version(view)
    progress = Progress()
    try:
        while view.get("phase") != "ready":
            _require_hope(alias, view, seen)
            progress.tell(_starting_words(alias, view), subject=f"{alias}: {view.get('phase')}")
            await anyio.sleep(_LOOK_AGAIN_SECONDS)
            view = (await daemon.post(path)).get("model") or {}
    finally:
        progress.end()
    return view


def _seconds(limit: timedelta | None) -> float | None:
    return None if limit is None else limit.total_seconds()


def _failure_version(view: Body) -> int:
    return int((view.get("failure") or {}).get("version") or 0)


def _require_hope(alias: str, view: Body, seen: int) -> None:
    refusal = view.get("refusal") or {}
    if refusal.get("final"):
        code = str(refusal.get("code"))
        raise Failure(exit_of(code), f"{alias}: {refusal.get('reason') or code}")
    if _failure_version(view) > seen:
        failure = view["failure"]
        code = str(failure.get("code"))
        raise Failure(exit_of(code), f"{alias}: {code} ({failure.get('reason')})")


def _starting_words(alias: str, view: Body) -> str:
    starting = view.get("starting") or {}
    parts = [f"{alias}: {view.get('phase')}"]
    if (eta := starting.get("eta_seconds")) is not None:
        parts.append(f"about {span_words(eta)} left")
    if (spent := starting.get("usd_so_far")) is not None:
        parts.append(f"${spent} so far")
    if (refusal := view.get("refusal")) is not None:
        parts.append(str(refusal.get("reason") or refusal.get("code")))
    return ", ".join(parts)


async def stop(
    daemon: Daemon, *, target: str | None, immediately: bool, wait: bool, limit: timedelta | None, as_json: bool
) -> Exit:
    """`target` is an alias or a deployment's id; None is everything."""
    answer = await _submit_stop(daemon, target, {"now": immediately})
    unrecorded = answer.get("unrecorded")
    if unrecorded is not None:
        say(_unrecorded_words(str(unrecorded)))
    wanted = [str(found) for found in answer.get("obligations", [])]
    if not wanted:
        say("nothing was running: no stop is owed")
    left = await _proofs(daemon, wanted, limit=limit) if wait and wanted else wanted
    if as_json:
        told = {} if unrecorded is None else {"unrecorded": unrecorded}
        show_json({"obligations": wanted, "unproven": left, **told})
    elif wanted:
        say(_stop_words(wanted, left, waited=wait))
    return Exit.FAILED if wait and left else Exit.OK


async def _submit_stop(daemon: Daemon, target: str | None, body: Body) -> Body:
    if target is None:
        return await daemon.post("/v1/stop", body)
    quoted = quote(target, safe="")
    try:
        return await daemon.post(f"/v1/models/{quoted}/stop", body)
    except Failure as failure:
        if failure.code is not Exit.NOT_FOUND:
            raise
    try:
        return await daemon.post(f"/v1/deployments/{quoted}/stop", body)
    except Failure as failure:
        if failure.code is not Exit.NOT_FOUND:
            raise
        raise Failure(Exit.NOT_FOUND, f"neither a model nor a deployment: {target}") from failure


def _unrecorded_words(why: str) -> str:
    return (
        f"the store takes no writes ({why}): what runs is stopped all the same, but until there is room only the daemon"
        " knows that it is to be, and its proof waits; should the daemon end before, ask again"
    )


def _stop_words(wanted: list[str], left: list[str], *, waited: bool) -> str:
    if not waited:
        return f"accepted, not proven: {_counted(wanted)}; `gpuwarden owed` shows what is left"
    if left:
        return f"still owed, and the daemon goes on trying: {', '.join(left)}; see `gpuwarden owed`"
    return f"stopped, with proof: {_counted(wanted)}"


def _counted(obligations: list[str]) -> str:
    return f"{len(obligations)} pod{'s' if len(obligations) != 1 else ''}"


async def _proofs(daemon: Daemon, wanted: list[str], *, limit: timedelta | None) -> list[str]:
    """Wait until each obligation has ended; what is left when the limit is over."""
    left = list(wanted)
    progress = Progress()
    try:
        with anyio.move_on_after(_seconds(limit)):
            await _until_ended(daemon, left, progress)
    except anyio.get_cancelled_exc_class():
        progress.end()
        say(f"no proof yet: {', '.join(left)} stay owed, and the daemon goes on trying")
        raise
    finally:
        progress.end()
    return left


async def _until_ended(daemon: Daemon, left: list[str], progress: Progress) -> None:
    """Takes out of `left` what has ended, until nothing is in it."""
    away_since: float | None = None
    while left:
        try:
            found = {str(entry["id"]): entry for entry in (await daemon.get("/v1/obligations?all=1"))["obligations"]}
            away_since = None
        except Failure as failure:
            away_since = _patience(failure, away_since)
            progress.tell("the daemon is away; it will go on when it is back")
        else:
            left[:] = [wanted for wanted in left if not (found.get(wanted) or {}).get("ended_at")]
            if left:
                progress.tell(_waiting_words(left, found.get))
        if left:
            await anyio.sleep(_LOOK_AGAIN_SECONDS)


def _patience(failure: Failure, away_since: float | None) -> float:
    now = anyio.current_time()
    if failure.code is not Exit.UNREACHABLE or (away_since is not None and now - away_since > _AWAY_LIMIT_SECONDS):
        raise failure
    return now if away_since is None else away_since


def _waiting_words(left: Iterable[str], of: Callable[[str], Body | None]) -> str:
    reasons = sorted({str((of(wanted) or {}).get("waiting_for") or "the daemon") for wanted in left})
    return f"waiting for proof: {'; '.join(reasons)}"


async def confirm(daemon: Daemon, *, obligation: str, reference: str, force: bool, as_json: bool) -> Exit:
    path = f"/v1/obligations/{quote(obligation, safe='')}/confirm"
    answer = await daemon.post(path, {"reference": reference, "force": force})
    if as_json:
        show_json(answer)
    else:
        say(f"{obligation}: ended by your word, which is on record: {reference}")
    return Exit.OK


async def claim(daemon: Daemon, *, installation: str | None, as_json: bool) -> Exit:
    """`installation` None: the account."""
    if installation is None:
        answer = await daemon.post("/v1/account/claim")
        words = "the account is confirmed: absence proves again, and models may start"
    else:
        answer = await daemon.post(f"/v1/installations/{quote(installation, safe='')}/claim")
        claimed = [str(entry) for entry in answer.get("claimed", [])]
        words = f"claimed: {', '.join(claimed) or 'nothing was there'}"
    if as_json:
        show_json(answer)
    else:
        say(words)
    return Exit.OK


async def unblock(daemon: Daemon, *, alias: str | None, as_json: bool) -> Exit:
    """`alias` None: every model."""
    path = "/v1/unblock" if alias is None else f"/v1/models/{quote(alias, safe='')}/unblock"
    answer = await daemon.post(path)
    unblocked = [str(entry) for entry in answer.get("unblocked", [])]
    if as_json:
        show_json(answer)
    else:
        say(f"may start again: {', '.join(unblocked)}" if unblocked else "nothing was held")
    return Exit.OK
