"""May client requests reach this deployment?

Only after one request of ours was answered with a token, under the model's own key and name, within the limit (B43).
One proof serves all who wait for it, and the daemon is told. A server that refuses, is not up or does not speak JSON
yet is asked again; a refused key and a wrong name are told to the daemon, which decides, and asked again slowly in
case the operator mends them. While somebody waits for the model an attempt holds a stream lease like any request. Else
it is no use of the machine: one that never proves itself would be kept for ever by our asking.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import anyio
import structlog

from controller.gateway import pages
from controller.gateway.config import Start
from controller.gateway.routes import Key, Route, RouteTable, View
from controller.gateway.stream_leases import StreamLeases
from controller.gateway.upstream import Upstream
from controller.gateway.wires import Shape, proof_shape
from controller.http1 import Overdue, WireError

log = structlog.get_logger(__name__)

ANSWER_BYTES: Final = 1024 * 1024
PAUSE_LEAST: Final = timedelta(milliseconds=500)
PAUSE_MOST: Final = timedelta(seconds=5)
PAUSE_AFTER_VERDICT: Final = timedelta(seconds=30)

Report = Callable[[Key, str, str], None]


@dataclass(frozen=True, slots=True)
class Verdict:
    """`kind` as reported to the daemon; None while nothing definite is known."""

    kind: str | None
    detail: str
    silent: bool = False
    """It took the request, and nothing came of it in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Callers:
    """Those who wait for a model, by its alias."""

    waiting: Callable[[str], bool]
    ring: Callable[[str], None]


def judge(status: int, headers: tuple[tuple[bytes, bytes], ...], body: bytes, shape: Shape) -> Verdict:
    """What one answer to the proof's request means."""
    if pages.from_proxy(status, headers) or pages.robot_refused(status, body):
        return Verdict(None, f"the provider's proxy answered {status}", silent=status == pages.NO_BYTE)
    if status in (401, 403):
        return Verdict("key-refused", f"the model server answered {status}")
    try:
        answer = json.loads(body)
    except ValueError:
        return Verdict(None, f"no JSON in an answer with {status}")
    if status == 404:
        lacks = isinstance(answer, dict) and answer.get("detail") == "Not Found"
        what = f"has no {shape.path}" if lacks else "does not know the name"
        return Verdict("served-model-mismatch", f"the model server {what}")
    if status == 200 and isinstance(answer, dict) and answer.get(shape.answer_field):
        return Verdict("proved", "one answer")
    return Verdict(None, f"the model server answered {status}")


class Proofs:
    def __init__(
        self,
        *,
        upstream: Upstream,
        leases: StreamLeases,
        table: RouteTable,
        report: Report,
        callers: Callers,
        start: Start,
    ) -> None:
        self._upstream = upstream
        self._leases = leases
        self._table = table
        self._report = report
        self._callers = callers
        self._start = start
        self._proven: set[tuple[Key, str]] = set()
        """With the endpoint: what was moved is another machine."""
        self._running: set[Key] = set()
        self.questions: list[Key] = []
        """Who was asked beside any use, and has not answered."""

    def stands(self, route: Route) -> bool:
        return route.proven or (route.key, route.endpoint) in self._proven

    def begin(self, view: View, route: Route) -> None:
        """Joined by all: a proof that runs already is not begun again."""
        if route.key in self._running:
            return
        self._running.add(route.key)

        async def prove() -> None:
            try:
                await self._prove(view.alias, route.key)
            finally:
                self._running.discard(route.key)

        self._start(prove)

    def forget_gone(self) -> None:
        """Drops what no view names any more."""
        self._proven &= {(route.key, route.endpoint) for view in self._table.views.values() for route in view.routes}

    async def _prove(self, alias: str, key: Key) -> None:
        """The deployment may be moved meanwhile: each attempt goes to where it is now."""
        pause = PAUSE_LEAST
        while (found := self._listed(alias, key)) is not None:
            route, verdict = found[1], await self._try(*found)
            if verdict is None:
                return
            if verdict.kind is not None:
                self._report(route.key, verdict.kind, verdict.detail)
            if verdict.kind == "key-refused":
                self._upstream.forget_key(alias)
            if verdict.kind == "proved":
                self._proven.add((route.key, route.endpoint))
                self._callers.ring(alias)
                return
            log.info("proof_failed", deployment=route.deployment, detail=verdict.detail)
            await anyio.sleep((pause if verdict.kind is None else PAUSE_AFTER_VERDICT).total_seconds())
            pause = min(pause * 2, PAUSE_MOST)

    def _listed(self, alias: str, key: Key) -> tuple[View, Route] | None:
        view = self._table.views.get(alias)
        route = None if view is None else next((route for route in view.routes if route.key == key), None)
        return None if view is None or route is None else (view, route)

    async def _try(self, view: View, route: Route) -> Verdict | None:
        """None if the daemon wants no use of it any more."""
        if not self._callers.waiting(view.alias):
            return await self.question(view, route)
        use = await self._leases.hold(route.key)
        if use is None:
            return None
        try:
            return await self.attempt(view, route)
        finally:
            use.release()

    async def question(self, view: View, route: Route) -> Verdict:
        """One attempt that is no use of the machine, and holds no stream lease."""
        self.questions.append(route.key)
        try:
            return await self.attempt(view, route)
        finally:
            self.questions.remove(route.key)

    async def attempt(self, view: View, route: Route) -> Verdict:
        """Ask for one token, once."""
        shape = proof_shape(view.wires)
        body = json.dumps({"model": view.served_name or view.alias, **shape.proof}).encode()
        try:
            with anyio.fail_after(self._upstream.proof_limit.total_seconds()):
                incoming = await self._upstream.send(
                    self._upstream.request(view.alias, route, shape, now=anyio.current_time()).carrying(body)
                )
                try:
                    answer = await incoming.read(ANSWER_BYTES)
                finally:
                    incoming.close()
        except (Overdue, TimeoutError) as error:
            return Verdict(None, f"{type(error).__name__}: {error}", silent=True)
        except WireError as error:
            return Verdict(None, f"{type(error).__name__}: {error}")
        return judge(incoming.status, incoming.headers, answer, shape)
