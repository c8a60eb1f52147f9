"""What goes wrong with this call, because a test ordered it?

Rules are tried in the order they were given; the first that matches, and has neither calls left to skip nor used up
its times, decides. A rule without `times` holds until it is cleared.
"""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from controller.emulators.exchange import Headers, Request
from controller.emulators.runpod.reading import BadControl, flag, not_negative, positive, table, text, whole, word_of

MALFORMED: Final = ("truncated", "html", "null", "empty", "wrong-type", "huge")


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """What to do; all that is unset does not happen. `effect`: whether the thing asked for is done all the same."""

    answer: int | None = None
    body: bytes | None = None
    headers: Headers = field(default_factory=list)
    effect: bool = False
    drop: str | None = None
    hang: float | None = None
    drip: float | None = None
    malformed: str | None = None
    omit: tuple[str, ...] = ()
    twice: bool = False
    ignore: bool = False
    delay: float = 0.0
    queued: float | None = None
    """What is to be made waits in the queue, and is made after so many seconds."""


@dataclass(slots=True, kw_only=True)
class Rule:
    method: str = "*"
    path: str = "*"
    pod: str | None = None
    skip: int = 0
    times: int | None = None
    deed: Deed

    def fits(self, request: Request, pod_name: Callable[[str], str | None]) -> bool:
        if self.method not in ("*", request.method) or not fnmatch.fnmatchcase(request.path, self.path):
            return False
        if self.pod is None:
            return True
        parts = request.path.split("/")
        return self.pod in parts or self.pod in [pod_name(part) for part in parts]


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """Rules that were given together: what takes them back."""

    rules: tuple[Rule, ...]

    @property
    def spent(self) -> bool:
        """Each was given so many times, and has had them."""
        return all(rule.times == 0 for rule in self.rules)


class Faults:
    """The rules in force."""

    def __init__(self) -> None:
        self._rules: list[Rule] = []

    @property
    def given(self) -> bool:
        """Whether there is any rule, spent or not."""
        return bool(self._rules)

    def add(self, rules: list[dict[str, Any]]) -> Order:
        """Add rules, all or none. Raises BadControl."""
        order = Order(tuple(_rule(f"[{at}]", rule) for at, rule in enumerate(rules)))
        self._rules += order.rules
        return order

    def remove(self, order: Order) -> None:
        """Take back what was added; the others go on."""
        gone = {id(rule) for rule in order.rules}
        self._rules = [rule for rule in self._rules if id(rule) not in gone]

    def clear(self) -> None:
        self._rules = []

    def take(self, request: Request, pod_name: Callable[[str], str | None]) -> Deed | None:
        for rule in self._rules:
            if rule.times == 0 or not rule.fits(request, pod_name):
                continue
            if rule.skip > 0:
                rule.skip -= 1
                continue
            if rule.times is not None:
                rule.times -= 1
            return rule.deed
        return None


def _rule(at: str, given: object) -> Rule:
    read = table(at, given)
    _only(at, read, ("match", "skip", "times", "do"))
    match = table(f"{at}.match", read.get("match", {}))
    _only(f"{at}.match", match, ("method", "path", "pod"))
    words = {name: text(f"{at}.match.{name}", value) for name, value in match.items() if value is not None}
    times = read.get("times")
    return Rule(
        method=words.get("method", "*").upper(),
        path=words.get("path", "*"),
        pod=words.get("pod"),
        skip=whole(f"{at}.skip", read.get("skip", 0)),
        times=None if times is None else whole(f"{at}.times", times),
        deed=_deed(f"{at}.do", table(f"{at}.do", read.get("do"))),
    )


def _deed(at: str, given: dict[str, Any]) -> Deed:
    _only(at, given, tuple(_READ))
    kinds = [name for name in given if name not in ("body", "headers", "effect", "delay", "queued")]
    if len(kinds) > 1 or not (kinds or given.keys() & {"delay", "queued"}):
        raise BadControl(key=at, why="must hold exactly one thing to do")
    read: dict[str, Any] = {name: _READ[name](f"{at}.{name}", value) for name, value in given.items()}
    # A spoilt answer is an answer to something that was done, unless said otherwise.
    read.setdefault("effect", "malformed" in given)
    return Deed(**read)


def _only(at: str, given: dict[str, Any], known: tuple[str, ...]) -> None:
    for name in given:
        if name not in known:
            raise BadControl(key=f"{at}.{name}", why="there is no such key")


def _status(key: str, value: object) -> int:
    if not 100 <= (read := whole(key, value)) <= 599:
        raise BadControl(key=key, why="must be an HTTP status")
    return read


def _body(key: str, value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else json.dumps(value).encode()


def _headers(key: str, value: object) -> Headers:
    return [(name.lower(), str(entry)) for name, entry in table(key, value).items()]  # an empty one is one too


def _ids(key: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(entry, str) for entry in value):
        raise BadControl(key=key, why="must be a list of pod ids")
    return tuple(value)


_READ: Final[dict[str, Callable[[str, object], object]]] = {
    "answer": _status,
    "body": _body,
    "headers": _headers,
    "effect": flag,
    "drop": word_of(("before", "after")),
    "hang": not_negative,
    "drip": positive,
    "malformed": word_of(MALFORMED),
    "omit": _ids,
    "twice": flag,
    "ignore": flag,
    "delay": not_negative,
    "queued": not_negative,
}
