"""May the daemon start normally, only to stop what it owes, or not at all?

A config that cannot be taken refuses the start, exit 78, before any call to a provider; but while an obligation is open
there is still something to stop: then the daemon starts stop-only, on the config that it accepted last, and creates
nothing. And a good one that would stop everything that runs is not taken unless an operator confirmed it (RP-40): the
daemon goes on with the former.
"""

import sqlite3
import tomllib
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from controller.core.removal import Removal, removal
from controller.daemon.build import build
from controller.daemon.built import NORMAL, Daemon, Mode, Seams
from controller.settings import ConfigProblems, Settings, load, load_accepted
from controller.settings.places import places
from controller.store.errors import StoreDamaged, StoreNewer
from controller.store.read_only import read_only
from controller.store.salvage import UNREAD, salvage
from controller.store.standing import standing


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """On which config the daemon runs, and how."""

    settings: Settings
    mode: Mode


def decide(config: Path, environment: Mapping[str, str]) -> Decided:
    """Raises ConfigProblems where nothing is owed, or where there is nothing to go on."""
    try:
        settings = load(config, environment)
        _require_keys(settings)
    except ConfigProblems as problems:
        return _stop_only(config, environment, problems)
    return _unless_it_stops_everything(settings, environment)


def _unless_it_stops_everything(settings: Settings, environment: Mapping[str, str]) -> Decided:
    """The config at hand, or the former one where the one at hand would stop all that runs and nobody confirmed that;
    where the former one is of no use any more, stop-only, and what runs is left alone."""
    taken, found = Decided(settings=settings, mode=NORMAL), standing(settings.places.store)
    if found is None or (found.confirmed is not None and found.confirmed.digest == settings.digest()):
        return taken
    if (gone := removal(found.machines, settings.models)) is None:
        return taken
    try:
        former = _former(found.accepted, settings, environment)
    except ConfigProblems as problems:
        said = (_refusal(settings, gone), *(str(problem) for problem in problems.problems))
        return Decided(settings=settings, mode=Mode(stop_only=True, config_readable=False, problems=said))
    # What the former one does not know either was removed before, and not stopped in time: that keeps nothing out.
    gone = removal([machine for machine in found.machines if machine.model in former.models], settings.models)
    return taken if gone is None else Decided(settings=former, mode=Mode(refused=_refusal(settings, gone)))


def _refusal(settings: Settings, gone: Removal) -> str:
    return (
        f"{settings.file} is not taken: it would stop all that runs ({gone.text}). The former config stays in force,"
        " and nothing new is started on it. Put the models back, or run `gpuwarden config check --confirm`;"
        " then restart the daemon"
    )


def _former(accepted: str | None, settings: Settings, environment: Mapping[str, str]) -> Settings:
    """The config that was taken last, on the store and sockets of the one at hand. Raises ConfigProblems where it, or a
    key that it names, cannot be read back."""
    former = replace(load_accepted(accepted or "", environment), places=settings.places)
    _require_keys(former)
    return former


def _require_keys(settings: Settings) -> None:
    settings.runpod_key()
    for alias in settings.models:
        settings.probe_key(alias)


async def start(decided: Decided, seams: Seams) -> Daemon:
    """Build the daemon; beside a store that may not be used, one that only stops. Raises ConfigProblems, StoreError."""
    try:
        return await build(decided.settings, seams, mode=decided.mode)
    except (StoreNewer, StoreDamaged) as unusable:
        settings, mode = _beside(decided, unusable, seams)
    return await build(settings, seams, mode=mode)


def _beside(decided: Decided, unusable: StoreNewer | StoreDamaged, seams: Seams) -> tuple[Settings, Mode]:
    """Where and how to stop what is owed. Raises `unusable` if nothing is: what a damaged file lacks may be owed."""
    settings, policy = decided.settings, decided.settings.hosting_policy()
    suffix = salvage(
        settings.places.store,
        identity=(policy.owner, policy.provider, policy.account),
        now=seams.clock.now(),
        randomness=seams.randomness,
    )
    if suffix is None and isinstance(unusable, StoreDamaged):
        suffix = UNREAD
    if suffix is None:
        raise unusable
    problems = (*decided.mode.problems, str(unusable))
    mode = replace(decided.mode, stop_only=True, problems=problems)
    return replace(settings, places=replace(settings.places, beside=suffix)), mode


def _stop_only(config: Path, environment: Mapping[str, str], problems: ConfigProblems) -> Decided:
    settings = last_accepted(config, environment)
    if settings is None:
        raise problems
    settings.runpod_key()
    words = tuple(str(problem) for problem in problems.problems)
    return Decided(settings=settings, mode=Mode(stop_only=True, config_readable=False, problems=words))


def last_accepted(config: Path, environment: Mapping[str, str]) -> Settings | None:
    """What the store beside a bad config keeps of a good one, while something is owed. Raises ConfigProblems where
    that cannot be read back."""
    accepted = _accepted_while_owing(_store_beside(config, environment))
    return None if accepted is None else load_accepted(accepted, environment)


def _store_beside(config: Path, environment: Mapping[str, str]) -> Path:
    """Where the store would be, as far as the config can still tell."""
    named = environment.get("GPUWARDEN_STATE_DIR", _named_in(config))
    return places(named if isinstance(named, str) else None, config, environment).store


def _named_in(config: Path) -> object:
    """The folder that the file names; from that line alone where the whole is no TOML."""
    try:
        text = config.read_text()
    except (OSError, ValueError):
        return None
    for part in (text, *(line for line in text.splitlines() if line.lstrip().startswith("state_dir"))):
        try:
            return tomllib.loads(part).get("state_dir")
        except ValueError:
            continue
    return None


def _accepted_while_owing(store: Path) -> str | None:
    """The last accepted config, if the store holds an open obligation."""
    if not store.exists():
        return None
    try:
        with closing(read_only(store)) as connection:
            owed = connection.execute("SELECT count(*) FROM obligations WHERE ended_at_ms IS NULL").fetchone()[0]
            accepted = connection.execute("SELECT accepted_config FROM meta").fetchone()
    except sqlite3.Error:
        return None
    return accepted[0] if owed and accepted is not None else None
