"""What does a copy of the store hold, and is it the one to put back?

`backup` works beside a daemon that runs; `restore` only without one. Both say what the copy holds: an old one forgets
what was started since, and the daemon finds that again by what exists (deploy/README.md).
"""

import os
import sqlite3
import sys
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import typer

from controller.cli.exits import Exit, Failure
from controller.cli.output import cell, say, show_facts, show_json, span_words
from controller.settings import Settings
from controller.store import backups
from controller.store.backups import Contents
from controller.store.errors import StoreError, StoreForeign, StoreInUse, StoreNewer

T = TypeVar("T")


def backup(settings: Settings, *, to: Path, as_json: bool, now: datetime) -> Exit:
    store = settings.places.store
    if not store.exists():
        raise Failure(Exit.NOT_FOUND, f"there is no store at {store}")
    try:
        held = _done(lambda: backups.back_up(store, to))
    except FileExistsError as problem:
        raise Failure(Exit.REFUSED, f"{to} exists, and is not overwritten: name another file") from problem
    _show(to, held, as_json=as_json, now=now)
    return Exit.OK


def restore(settings: Settings, *, copy: Path, sure: bool, as_json: bool, now: datetime) -> Exit:
    store, policy = settings.places.store, settings.hosting_policy()
    identity = (policy.owner, policy.provider, policy.account)
    if not copy.exists():
        raise Failure(Exit.NOT_FOUND, f"there is no file {copy}")
    if store.exists() and os.path.samefile(copy, store):
        raise Failure(Exit.USAGE, f"{copy} is the store itself")
    held = _done(lambda: backups.contents(copy))
    _done(lambda: backups.require_ours(copy, held, identity=identity))
    if not sure:
        if as_json or not sys.stdin.isatty():
            raise Failure(Exit.USAGE, "nobody is there to be asked: say --yes")
        _show(copy, held, as_json=False, now=now)
        typer.confirm(f"Put it in the place of {store}?", abort=True)
    aside = _done(lambda: backups.put_back(copy, store, identity=identity, now=now))
    _show(copy, held, as_json=as_json, now=now, store=str(store), former=None if aside is None else str(aside))
    say("restored: start the daemon. It creates nothing before it has matched everything that exists")
    return Exit.OK


def _done(work: Callable[[], T]) -> T:
    """Raises Failure with the code of what went wrong."""
    try:
        return work()
    except StoreInUse as refused:
        raise Failure(Exit.REFUSED, f"{refused.path} is in use: end the daemon first") from refused
    except (StoreNewer, StoreForeign) as refused:
        raise Failure(Exit.REFUSED, str(refused)) from refused
    except FileExistsError:
        raise
    except (StoreError, OSError, sqlite3.Error) as problem:
        raise Failure(Exit.FAILED, str(problem)) from problem


def _show(path: Path, held: Contents, *, as_json: bool, now: datetime, **more: str | None) -> None:
    if as_json:
        show_json({"file": str(path), "bytes": path.stat().st_size, **more, "holds": _holds(held)})
        return
    facts: list[tuple[str, object]] = [
        ("file", path),
        ("of", f"{held.owner} at {held.provider}/{held.account}, installation {held.installation}"),
        ("as of", _as_of(held, now)),
        ("evidence up to", f"seq {held.seq}"),
        ("models on record", list(held.live)),
        ("open obligations", len(held.duties)),
        *((name, value) for name, value in more.items() if value is not None),
    ]
    show_facts(facts)
    for duty in held.duties:
        owed = "stop owed" if duty.due else "to be stopped one day"
        print(f"  {cell(duty.id)}  {cell(duty.model)}  {cell(duty.resource)}  {owed}")


def _as_of(held: Contents, now: datetime) -> str | None:
    if held.latest is None:
        return None
    seconds = (now - held.latest).total_seconds()
    if seconds < 0:
        words = f"{span_words(-seconds)} in the future: nothing is created until then"
    else:
        words = f"{span_words(seconds)} old"
    return f"{held.latest:%Y-%m-%d %H:%M:%S} UTC, {words}"


def _holds(held: Contents) -> dict[str, Any]:
    latest = None if held.latest is None else held.latest.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {**asdict(held), "latest": latest}
