"""How does an operator hand out a key, look at those there are, and take one back?

In the gateway's own file, without the daemon: a running gateway takes it anew within seconds. A key is shown once, when
it is made, alone on stdout so that it can be piped away; afterwards nobody can tell it any more.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Final

from pydantic import ValidationError

from controller.cli.exits import Exit, Failure
from controller.cli.output import age, say, show_json, show_table, usd
from controller.clock import SystemClock
from controller.core.spend import to_usd
from controller.gateway.day_book import DayBook, Micros, Unreadable
from controller.ids import SystemRandomness
from controller.settings import HandedKey, Settings
from controller.settings.client_keys import KEYS_MOST, change_keys, digest_of, made_key, read_keys, shown

Keys = tuple[HandedKey, ...]

HEADER: Final = ("name", "models", "requests a minute", "at once", "a day", "today", "made")
_OPTIONS: Final = {
    "name": "NAME",
    "models": "--models",
    "requests_per_minute": "--requests-per-minute",
    "concurrent": "--concurrent",
    "usd_per_day": "--usd-per-day",
}


@dataclass(frozen=True, slots=True)
class Limits:
    """As written on the command line."""

    models: str | None
    requests_per_minute: int | None
    concurrent: int | None
    usd_per_day: str | None


def add(settings: Settings, name: str, limits: Limits) -> Exit:
    key = made_key(SystemRandomness())
    made = _made(settings, name, limits, digest=digest_of(key))

    def change(keys: Keys) -> Keys:
        if any(known.name == name for known in keys):
            raise Failure(Exit.REFUSED, f"there is a key of {name} already; revoke it first, or choose another name")
        if len(keys) >= KEYS_MOST:
            raise Failure(Exit.REFUSED, f"there are {KEYS_MOST} keys already; revoke one first")
        return (*keys, made)

    _change(settings, change)
    print(key)
    say(f"{name} may use this key; nobody can show it again. Running gateways take it within seconds.")
    return Exit.OK


def _made(settings: Settings, name: str, limits: Limits, *, digest: str) -> HandedKey:
    try:
        return HandedKey(
            name=name,
            digest=digest,
            models=None if limits.models is None else _known_models(settings, limits.models),
            requests_per_minute=limits.requests_per_minute,
            concurrent=limits.concurrent,
            usd_per_day=None if limits.usd_per_day is None else Decimal(limits.usd_per_day),
            created_at=SystemClock().now().replace(microsecond=0),
        )
    except ArithmeticError as error:
        raise Failure(Exit.USAGE, "--usd-per-day: not an amount of money; write it as in 5 or 0.50") from error
    except ValidationError as error:
        raise Failure(Exit.USAGE, _said(error)) from error


def _known_models(settings: Settings, written: str) -> tuple[str, ...]:
    asked = tuple(entry.strip() for entry in written.split(","))
    for entry in asked:
        alias, colon, adapter = entry.partition(":")
        model = settings.models.get(alias)
        if model is None or (colon and adapter not in model.adapters):
            raise Failure(Exit.NOT_FOUND, f"the config has no model {entry!r}")
    return asked


def _said(error: ValidationError) -> str:
    found = error.errors(include_input=False, include_url=False)[0]
    option = _OPTIONS.get(str(found["loc"][0]), str(found["loc"][0]))
    context = found.get("ctx", {})
    return f"{option}: {context.get('why', found['msg'])}; {context.get('mend', 'see --help')}"


def show(settings: Settings, *, as_json: bool) -> Exit:
    found, now = read_keys(settings.places.clients) or (), SystemClock().now()
    spent = _spent(settings, now)
    if as_json:
        show_json({"keys": [shown(key) | {"usd_today": _usd_today(key, spent)} for key in found]})
    elif found:
        show_table(HEADER, _rows(found, spent, now))
    else:
        say("no key was handed out")
    return Exit.OK


def _spent(settings: Settings, now: datetime) -> Micros | None:
    """What gateways wrote down of today; None where that cannot be read."""
    try:
        return DayBook(settings.places.spent).read(now.date().isoformat())
    except Unreadable as problem:
        say(f"what was spent today cannot be read, and keys with a budget are refused: {problem}")
        return None


def _usd_today(key: HandedKey, spent: Micros | None) -> str | None:
    """Of keys with a budget; of others nothing is kept."""
    return None if spent is None or key.usd_per_day is None else f"{to_usd(spent.get(key.name, 0)):.6f}"


def _rows(keys: Sequence[HandedKey], spent: Micros | None, now: datetime) -> list[tuple[object, ...]]:
    return [
        (
            key.name,
            "all" if key.models is None else key.models,
            key.requests_per_minute,
            key.concurrent,
            usd(key.usd_per_day),
            usd(_usd_today(key, spent)),
            None if key.created_at is None else age(key.created_at.isoformat(), now),
        )
        for key in keys
    ]


def revoke(settings: Settings, name: str) -> Exit:
    def change(keys: Keys) -> Keys:
        left = tuple(key for key in keys if key.name != name)
        if len(left) == len(keys):
            raise Failure(Exit.NOT_FOUND, f"no key of {name} was handed out")
        return left

    _change(settings, change)
    say(f"the key of {name} is refused within seconds")
    return Exit.OK


def _change(settings: Settings, change: Callable[[Keys], Keys]) -> None:
    place = settings.places.clients
    try:
        change_keys(place, change)
    except OSError as error:
        raise Failure(Exit.FAILED, f"cannot write {place}: {error.strerror or error}; run it as root?") from error
