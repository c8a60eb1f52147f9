"""What does the fixed address answer?

What a model server answers goes through admission to an exchange; the list of models, health and metrics are answered
here and wake nothing; all else is not served. `build` puts the parts together from plain values, `run` keeps the table
and the leases, `drain` ends what is open when the gateway stops.
"""

import json
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final

import anyio
from anyio.abc import TaskGroup

from controller import __version__
from controller.api.client import DaemonClient
from controller.clock import Clock
from controller.gateway.access_log import AccessLog
from controller.gateway.admission import Receive, Scope
from controller.gateway.allowances import Allowances
from controller.gateway.clients import Clients
from controller.gateway.closing import Closing
from controller.gateway.config import GatewayConfig, Job
from controller.gateway.contact import Contact
from controller.gateway.doubts import Doubts
from controller.gateway.exchange import Desk
from controller.gateway.exposition import Moment, exposition
from controller.gateway.inference import AFTER_END_S, Inference, Office
from controller.gateway.listing import listed, one
from controller.gateway.openapi import document
from controller.gateway.passage import Passage, loop_time
from controller.gateway.placement import Placement
from controller.gateway.proof import Callers, Proofs
from controller.gateway.proxy import Proxy
from controller.gateway.refusals import not_served, unknown_model
from controller.gateway.reply import OverAsgi, Reply, Send
from controller.gateway.reports import Reports
from controller.gateway.routes import Key, RouteTable, follow
from controller.gateway.spending import Spending
from controller.gateway.starts import Starts
from controller.gateway.stream_leases import StreamLeases
from controller.gateway.tally import Tally
from controller.gateway.trust import Trust
from controller.gateway.upstream import Upstream
from controller.gateway.waiting import WaitingRooms
from controller.gateway.wires import BY_PATH, voice_for
from controller.http1 import Keeping
from controller.http1.asked import Direct
from controller.ids import Randomness

JSON_TYPE: Final = [(b"content-type", b"application/json")]
TEXT_TYPE: Final = [(b"content-type", b"text/plain; version=0.0.4; charset=utf-8")]
MODELS: Final = "/v1/models"
LOOPBACK: Final = frozenset({"127.0.0.1", "::1"})

App = Callable[[Scope, Receive, Send], Awaitable[None]]


class Gateway:
    """`name` is this gateway among others, as the daemon sees it: new with each process."""

    def __init__(
        self, config: GatewayConfig, *, name: str, daemon: DaemonClient, upstream: Keeping, clock: Clock
    ) -> None:
        self.name = name
        self._config = config
        self._daemon = daemon
        self._group: TaskGroup | None = None
        self._early: list[Job] = []
        self.tally = Tally()
        self._access_log = None if config.access_log is None else AccessLog(config.access_log, clock)
        self.clients = Clients(fixed=config.client_keys, read=config.read_clients, now=loop_time)
        self.contact = Contact(self._contact_changed)
        self.table = RouteTable(self._table_changed)
        self.spending = self._spending(clock)
        reports = self._reports = Reports(name=name, daemon=daemon, start=self._start)
        self.leases = StreamLeases(
            name=name, daemon=daemon, contact=self.contact, clock=clock, on_refusal=self._lease_refused
        )
        seen = Upstream(upstream, config)
        self.proofs = Proofs(
            upstream=seen,
            leases=self.leases,
            table=self.table,
            report=reports.tell,
            callers=Callers(waiting=self._waited_for, ring=self._proven),
            start=self._start,
        )
        self._doubts = Doubts(proofs=self.proofs, table=self.table, report=reports.tell, start=self._start)
        self._trust = Trust(proofs=self.proofs, table=self.table, start=self._start)
        placement = self._placement = Placement(self.table, self.leases, self.proofs, self._trust)
        self.rooms = WaitingRooms(
            config=config,
            starts=Starts(name=name, daemon=daemon, contact=self.contact, table=self.table),
            contact=self.contact,
            table=self.table,
            placement=placement,
            start=self._start,
        )
        self.proxy = Proxy(seen, self._failed)
        office = Office(
            clients=self.clients,
            allowances=Allowances(self.tally),
            closing=Closing(self.tally, self._access_log),
            tally=self.tally,
        )
        desk = Desk(placement, self.rooms, self.proxy, self.table, self.spending)
        self._inference = Inference(config, name=name, office=office, desk=desk)

    def _spending(self, clock: Clock) -> Spending:
        return Spending(
            clients=self.clients,
            table=self.table,
            clock=clock,
            book=self._config.day_book,
            start=self._start,
            tally=self.tally,
        )

    @property
    def app(self) -> App:
        return self._serve

    @property
    def direct(self) -> Direct:
        """What our own server hands requests to whose bodies are here, before it makes a task for the app."""
        return self._inference.at_once

    @property
    def live(self) -> int:
        """Requests that were admitted and have not ended."""
        return len(self._inference.live)

    async def run(self) -> None:
        """Until cancelled: the table, the leases, and what requests begin in the background."""
        async with anyio.create_task_group() as group:
            self._group = group
            try:
                for job in self._early:
                    group.start_soon(job)
                self._early.clear()
                group.start_soon(follow, self.table, self._daemon, self.contact, self._config.routes_wait)
                group.start_soon(self.leases.renew, self._config.lease_interval)
                await self._inference.sweep()
            finally:
                self.spending.settle(anyio.current_time())
                if self._access_log is not None:
                    self._access_log.end()
                self._group = None

    async def drain(self) -> None:
        """Answers who waits, and lets open requests end, within limits."""
        self.rooms.draining = True
        await self._inference.drain()
        with anyio.move_on_after(AFTER_END_S):
            await self.leases.tell()

    # What the parts ask of each other.

    def _start(self, job: Job) -> None:
        if self._group is None:
            self._early.append(job)
        else:
            self._group.start_soon(job)

    def _contact_changed(self) -> None:
        self.rooms.ring_all()
        self.leases.ring()

    def _table_changed(self, aliases: set[str]) -> None:
        self.proofs.forget_gone()
        self.spending.reprice(aliases, anyio.current_time())
        for alias in aliases & self._inference.asked:  # what comes up for them is proven before they ask again
            if (view := self.table.views.get(alias)) is not None:
                self._placement.prove(view)
        self._doubts.look(aliases)
        self.rooms.ring(aliases)

    def _waited_for(self, alias: str) -> bool:
        return self.rooms.occupied(alias)

    def _proven(self, alias: str) -> None:
        self.rooms.ring({alias})

    def _failed(self, key: Key, kind: str, detail: str) -> None:
        """A model server failed a request."""
        views = self.table.views.values()
        alias = next((view.alias for view in views if any(route.key == key for route in view.routes)), "")
        self.tally.models[alias].failures[kind] += 1
        self._reports.tell(key, kind, detail)
        self._trust.lost(key)

    def _lease_refused(self, key: Key) -> None:
        self.table.without(key)

    # What clients ask.

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"not served: {scope['type']}")
        inference = self._inference
        shape = BY_PATH.get(scope["path"]) if scope["method"] == "POST" else None
        reply = inference.opened(OverAsgi(send, scope), voice_for(shape, scope["headers"]), loop_time())
        work = self._small(scope, reply) if shape is None else inference.serve(scope, receive, reply, shape)
        await inference.guarded(reply, work, counted=shape is not None)

    async def _small(self, scope: Scope, reply: Reply) -> None:
        asked = scope["path"] if scope["method"] in ("GET", "HEAD") else ""
        if asked == "/healthz":
            await reply.whole(200, JSON_TYPE, b'{"ok":true}')
        elif asked == "/openapi.json":
            await reply.whole(200, JSON_TYPE, json.dumps(document(__version__)).encode())
        elif asked == MODELS or asked.startswith(f"{MODELS}/"):
            await reply.whole(200, JSON_TYPE, self._models(scope))
        elif asked == "/metrics":
            if (scope.get("client") or ("",))[0] not in LOOPBACK:
                self.clients.of(dict(scope["headers"]))
            text, join = self._metrics(), self._config.join_metrics
            await reply.whole(200, TEXT_TYPE, text if join is None else await join(text))
        else:
            raise not_served()

    async def own_metrics(self, scope: Scope, receive: Receive, send: Send) -> None:
        """What another worker is told on the way between them."""
        passage = Passage(self.name, anyio.current_time())
        await Reply(OverAsgi(send, scope), passage).whole(200, TEXT_TYPE, self._metrics())

    def _models(self, scope: Scope) -> bytes:
        """The list, or the one that the path names."""
        client = self.clients.of(dict(scope["headers"]))
        voice = voice_for(None, scope["headers"])
        name = scope["path"].removeprefix(MODELS).removeprefix("/")
        if not name:
            return json.dumps(listed(self._config, self.table.views, client, voice)).encode()
        found = one(name, self._config, self.table.views, client, voice)
        if found is None:
            raise unknown_model(name)
        return json.dumps(found).encode()

    def _metrics(self) -> bytes:
        at_work = Counter(
            exchange.demand.alias for exchange in self._inference.live if exchange.reply.passage.placed_at
        )
        moment = Moment(
            open_requests={alias: at_work[alias] for alias in self._config.models},
            waiting={alias: self.rooms.waiting(alias) for alias in self._config.models},
            upstream_answers=self.proxy.open,
            daemon_reachable=not self.contact.down,
            usd_today=self.spending.known(),
        )
        return exposition(self.tally, moment)


def build(
    config: GatewayConfig, *, daemon: DaemonClient, upstream: Keeping, clock: Clock, randomness: Randomness
) -> Gateway:
    """`upstream` reaches model servers, `daemon` the daemon; both are seams, as are time and chance."""
    name = f"g-{randomness.token_hex(5)}"
    return Gateway(config, name=name, daemon=daemon, upstream=upstream, clock=clock)
