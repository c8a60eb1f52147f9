"""Which deployments may take requests now, and what does the daemon say of each model?

One long poll keeps the table. While the daemon is away the last known table stands: what was ready goes on being
served. A view that came with the answer to a start is laid over the table only if no newer one arrived meanwhile; the
next poll settles it.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final

import anyio

from controller.api.client import DaemonClient, Problem, Unreachable
from controller.gateway.contact import Contact

RETRY: Final = timedelta(seconds=1)
DEFAULT_WAIT: Final = timedelta(seconds=570)
DEFAULT_QUEUE: Final = 64
DEFAULT_WIRES: Final = ("chat", "completions", "embeddings")

Key = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    deployment: str
    epoch: int
    endpoint: str
    proven: bool
    current: bool = True
    """It was made for the config of now, so that its adapters are those that the view names."""
    usd_per_hour: float | None = None
    doubted: bool = False
    """The daemon wants to know whether it still writes."""

    key: Key = field(init=False)
    """Deployment and epoch."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", (self.deployment, self.epoch))


@dataclass(frozen=True, slots=True, kw_only=True)
class Starting:
    phase: str
    eta: timedelta | None
    usd_so_far: str | None
    usd_per_hour: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    code: str
    reason: str
    final: bool
    retry_after: timedelta | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    version: int
    code: str
    reason: str
    retry_after: timedelta | None


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What the daemon says of one model."""

    alias: str
    phase: str = "off"
    served_name: str | None = None
    server: str = "vllm"
    wires: tuple[str, ...] = DEFAULT_WIRES
    tools: bool = True
    adapters: tuple[str, ...] = ()
    merge_system: bool = False
    stream_plain: bool = False
    wait: timedelta = DEFAULT_WAIT
    queue: int = DEFAULT_QUEUE
    cold_start: timedelta | None = None
    """What a start took, by the daemon's own history."""
    usd_per_hour: str | None = None
    """What all that lives of it costs, where that is known."""
    routes: tuple[Route, ...] = ()
    starting: Starting | None = None
    refusal: Refusal | None = None
    failure: Failure | None = None


def parse_view(alias: str, raw: Mapping[str, Any]) -> View:
    """Raises `KeyError`, `TypeError` or `ValueError` for what is no view."""
    wires = raw.get("wires")
    return View(
        alias=alias,
        phase=str(raw["phase"]),
        served_name=raw.get("served_name"),
        server=str(raw.get("server", "vllm")),
        wires=DEFAULT_WIRES if wires is None else tuple(wires),
        tools=bool(raw.get("tools", True)),
        adapters=tuple(raw.get("adapters") or ()),
        merge_system=bool(raw.get("merge_system", False)),
        stream_plain=bool(raw.get("stream_plain", False)),
        wait=DEFAULT_WAIT if (wait := _span(raw.get("wait_seconds"))) is None else wait,
        queue=int(raw.get("queue", DEFAULT_QUEUE)),
        cold_start=_span(raw.get("cold_start_seconds")),
        usd_per_hour=raw.get("usd_per_hour"),
        routes=tuple(_route(route) for route in raw.get("routes", ())),
        starting=_starting(raw.get("starting")),
        refusal=_refusal(raw.get("refusal")),
        failure=_failure(raw.get("failure")),
    )


class RouteTable:
    """`on_change` is told the aliases whose view changed."""

    def __init__(self, on_change: Callable[[set[str]], None]) -> None:
        self._on_change = on_change
        self.views: dict[str, View] = {}
        self.version: int | None = None
        self.controller: str | None = None
        self.first_version = 0
        """With which the controller of now was first heard."""

    def take(self, answer: Mapping[str, Any]) -> None:
        """One answer of the long poll. Raises `KeyError`, `TypeError` or `ValueError`, and then changes nothing."""
        views = {alias: parse_view(alias, raw) for alias, raw in answer["models"].items()}
        version, controller = int(answer["version"]), str(answer["controller"])
        changed = {alias for alias in views.keys() | self.views.keys() if views.get(alias) != self.views.get(alias)}
        if controller != self.controller:
            self.first_version = version
        self.views, self.version, self.controller = views, version, controller
        if changed:
            self._on_change(changed)

    def overlay(self, alias: str, raw: Mapping[str, Any], *, asked_at: int | None) -> None:
        """A view that came by itself. The table was at version `asked_at` when it was asked for."""
        if asked_at != self.version:
            return
        view = parse_view(alias, raw)
        if view != self.views.get(alias):
            self.views[alias] = view
            self._on_change({alias})

    def without(self, key: Key) -> None:
        """The daemon refused new requests for this deployment: its route is gone until a view names it again."""
        for alias, view in self.views.items():
            kept = tuple(route for route in view.routes if route.key != key)
            if len(kept) != len(view.routes):
                self.views[alias] = replace(view, routes=kept)
                self._on_change({alias})
                return


async def follow(table: RouteTable, daemon: DaemonClient, contact: Contact, wait: timedelta) -> None:
    """Keeps the table for as long as the gateway runs."""
    while True:
        after = None if contact.down else table.version
        asked_at = anyio.current_time()
        try:
            answer = await daemon.routes(after=after, wait=wait)
            table.take(answer)
        except (Unreachable, Problem, KeyError, TypeError, ValueError, AttributeError) as error:
            contact.missed(f"{type(error).__name__}: {error}")
            await anyio.sleep(RETRY.total_seconds())
        else:
            contact.reached()
            if answer["version"] == after and anyio.current_time() - asked_at < RETRY.total_seconds():
                await anyio.sleep(RETRY.total_seconds())  # a daemon that does not wait is not asked in a rush


def _span(value: object) -> timedelta | None:
    return timedelta(seconds=value) if isinstance(value, int | float) else None


def _usd(value: object) -> float | None:
    """Raises `ValueError` for what is no amount."""
    if value is None:
        return None
    found = float(str(value))
    if not 0 <= found < math.inf:
        raise ValueError("no price")
    return found


def _route(raw: Mapping[str, Any]) -> Route:
    endpoint = str(raw["endpoint"])
    return Route(
        deployment=str(raw["deployment"]),
        epoch=int(raw["epoch"]),
        endpoint=endpoint if endpoint.endswith("/") else f"{endpoint}/",
        proven=bool(raw.get("proven", False)),
        current=bool(raw.get("current", True)),
        doubted=bool(raw.get("doubted", False)),
        usd_per_hour=_usd(raw.get("usd_per_hour")),
    )


def _starting(raw: Mapping[str, Any] | None) -> Starting | None:
    if raw is None:
        return None
    return Starting(
        phase=str(raw["phase"]),
        eta=_span(raw.get("eta_seconds")),
        usd_so_far=raw.get("usd_so_far"),
        usd_per_hour=_usd(raw.get("usd_per_hour")),
    )


def _refusal(raw: Mapping[str, Any] | None) -> Refusal | None:
    if raw is None:
        return None
    return Refusal(
        code=str(raw["code"]),
        reason=str(raw.get("reason", "")),
        final=bool(raw.get("final", False)),
        retry_after=_span(raw.get("retry_after_seconds")),
    )


def _failure(raw: Mapping[str, Any] | None) -> Failure | None:
    if raw is None:
        return None
    return Failure(
        version=int(raw["version"]),
        code=str(raw.get("code", "start_failed")),
        reason=str(raw.get("reason", "")),
        retry_after=_span(raw.get("retry_after_seconds")),
    )
