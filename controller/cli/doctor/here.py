"""Is this machine's side in order: config, keys, files, store, daemon?

Looks at what the user who asks can see. A systemd credential is there only inside its service, so that outside it
nothing can be said against one.
"""

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import SecretStr

from controller.cli.doctor.finding import Finding, fail, ok, warn
from controller.cli.doctor.recorded import Recorded, Unfit, recorded
from controller.cli.exits import Exit, Failure
from controller.cli.link import Link
from controller.clock import Clock
from controller.settings import ConfigProblems, Places, Problem, Settings

T = TypeVar("T")

DAEMON_LIMIT: Final = timedelta(seconds=5)
DISK_LOW: Final = 1 << 30
DISK_TOO_LOW: Final = 100 << 20
_START: Final = "start it: `systemctl start gpuwarden.service`, or `gpuwarden up`"


def config(path: Path | None, settings: Settings | None, problems: tuple[Problem, ...]) -> Iterator[Finding]:
    for problem in problems:
        yield fail("config", str(problem).removesuffix(f"; {problem.mend}"), mend=problem.mend)
    if problems or settings is None:
        return
    aliases = list(settings.models)
    if aliases:
        yield ok("config", f"{path}: taken; models: {', '.join(aliases)}")
    else:
        mend = "add a [models.ALIAS] as in config.example.toml"
        yield warn("config", f"{path}: taken; no model is configured, and nothing can start", mend=mend)


def account_key(settings: Settings) -> tuple[SecretStr | None, list[Finding]]:
    """The account's key, if this user may have it."""
    key, problems = _had(settings.runpod_key)
    if key is not None:
        return key, [ok("account-key", "there, and private")]
    if _elsewhere(settings, settings.written.runpod.key_credential):
        mend = "to ask the provider too, run it as root with CREDENTIALS_DIRECTORY set to the folder of the keys"
        return None, [warn("account-key", "a systemd credential: not there outside its service", mend=mend)]
    return None, [_key_at_fault("account-key", problem) for problem in problems]


def model_keys(settings: Settings) -> Iterator[Finding]:
    """The gateway's keys: of model servers, and of clients."""
    problems: list[Problem] = []
    unseen: list[str] = []
    for alias, section in settings.models.items():
        found = _had(partial(settings.server_key, alias))[1]
        if found and _elsewhere(settings, section.key_credential):
            unseen.append(alias)
        else:
            problems += found
    if not settings.handed_keys_hidden:
        problems += _had(settings.client_keys)[1]
    yield from (_key_at_fault("model-keys", problem) for problem in problems)
    if not problems:
        more = f"; systemd credentials, not there outside their service: {', '.join(unseen)}" if unseen else ""
        yield ok("model-keys", f"those to be seen are private{more}" if unseen else "there, and private")


def _elsewhere(settings: Settings, credential: str | None) -> bool:
    """A systemd credential that this process was not given: another service has it."""
    folder = settings.environment.get("CREDENTIALS_DIRECTORY")
    return credential is not None and (folder is None or not os.path.lexists(os.path.join(folder, credential)))


def known_secrets(settings: Settings) -> frozenset[str]:
    """Every secret that this user could read: none of them may be in what is printed."""
    reads: list[Callable[[], SecretStr | None]] = [settings.runpod_key, settings.webhook]
    for alias in settings.models:
        reads += [partial(settings.server_key, alias), partial(settings.probe_key, alias)]
    found = (_had(read)[0] for read in reads)
    return frozenset(secret.get_secret_value() for secret in found if secret is not None)


def modes(places: Places) -> Iterator[Finding]:
    """Who else may change, or read, what the daemon keeps?"""
    store = places.store
    rules = (
        *((folder, 0o022) for folder in sorted({places.state, places.logs, places.runtime})),
        *((store.with_name(store.name + more), 0o077) for more in ("", "-wal", "-shm", ".lock")),
        (places.evidence, 0o027),
        (places.api_socket, 0o007),
        (places.gateway_socket, 0o007),
    )
    findings = [found for path, forbidden in rules if (found := _mode(path, forbidden)) is not None]
    yield from findings or [ok("modes", "nobody else may change what the daemon keeps")]


def _mode(path: Path, forbidden: int) -> Finding | None:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return None
    except OSError as error:
        return warn("modes", f"{path}: {(error.strerror or 'cannot be seen').lower()}", mend="ask as the daemon's user")
    if not mode & forbidden:
        return None
    return fail("modes", f"{path}: its mode {mode:04o} lets others in", mend=f"chmod {mode & ~forbidden:04o} {path}")


def disk(places: Places) -> Finding:
    folder = next(found for found in (places.state, *places.state.parents) if os.path.isdir(found))
    free = shutil.disk_usage(folder).free
    text = f"{free // (1 << 20)} MiB free at {places.state}"
    mend = "free some: while the store cannot be written nothing starts, and stops are sent without a record"
    if free < DISK_TOO_LOW:
        return fail("disk", text, mend=mend)
    return ok("disk", text) if free >= DISK_LOW else warn("disk", text, mend=mend)


def store(settings: Settings, clock: Clock) -> tuple[Recorded | None, Finding]:
    path, policy = settings.places.store, settings.hosting_policy()
    try:
        found = recorded(path, clock)
    except Unfit as unfit:
        return None, fail("store", f"{path}: {unfit}", mend=unfit.mend)
    except OSError as error:
        text = f"{path}: {(error.strerror or 'cannot be seen').lower()}"
        return None, warn("store", text, mend="ask as the daemon's user")
    if found is None:
        return None, ok("store", f"{path}: not in use yet; the first start makes it so")
    if (found.owner, found.account) != (policy.owner, policy.account):
        mend = "set name and runpod.account back, or give this environment a state_dir of its own"
        return found, fail("store", f"{path}: of {found.owner} at {found.account}, not of this config", mend=mend)
    return found, ok("store", f"{path}: sound, installation {found.installation}")


async def daemon(settings: Settings, kept: Recorded | None, *, readable: bool) -> Finding:
    """`kept` is what the store holds; `readable` tells an absent one from one that nobody can read."""
    socket = settings.places.api_socket
    if _closed_to_us(socket):
        mend = "join the group gpuwarden, or ask as root"
        return warn("daemon", f"its socket {socket} is not for this user", mend=mend)
    try:
        with closing(Link(socket)) as link:
            return _running(await link.get("/v1/status", limit=DAEMON_LIMIT))
    except Failure as failure:
        if failure.code is not Exit.UNREACHABLE:
            return warn("daemon", f"answers strangely: {failure.words}", mend="see its log (`journalctl -u gpuwarden`)")
    if not readable:
        return warn("daemon", "does not run, and what is owed could not be read", mend="see `store`")
    if kept is not None and kept.open_duties:
        return fail("daemon", f"does not run, and {_obligations(kept.open_duties)} open; `gpuwarden owed`", mend=_START)
    return ok("daemon", "does not run, and nothing is owed")


def _closed_to_us(socket: Path) -> bool:
    return os.path.exists(socket) and not os.access(socket, os.W_OK)


def _running(view: dict[str, Any]) -> Finding:
    problems = [str(problem) for problem in view.get("problems") or ()]
    alarms = [f"alarm {alarm.get('name')}" for alarm in view.get("alarms") or ()]
    if view.get("ready") and not problems and not alarms:
        return ok("daemon", "runs, and is ready")
    words = [f"runs ({view.get('mode')}{'' if view.get('ready') else ', not ready'})", *problems, *alarms]
    return warn("daemon", "; ".join(words), mend="`gpuwarden status` says more; deploy/README.md, When paged")


def _obligations(number: int) -> str:
    return "1 obligation is" if number == 1 else f"{number} obligations are"


def _key_at_fault(check: str, problem: Problem) -> Finding:
    return fail(check, str(problem).removesuffix(f"; {problem.mend}"), mend=problem.mend)


def _had(read: Callable[[], T]) -> tuple[T | None, list[Problem]]:
    try:
        return read(), []
    except ConfigProblems as found:
        return None, list(found.problems)
