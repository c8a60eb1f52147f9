"""What does the fixed address answer?

What a model server answers goes through admission to an exchange; the list of models, health and metrics are answered
here and wake nothing; all else is not served. `build` puts the parts together from plain values, `run` keeps the table
and the leases, `drain` ends what is open when the gateway stops.
"""

import json
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from typing import Final

import anyio
from anyio.abc import TaskGroup

from controller import __version__
from controller.api.client import DaemonClient
from controller.clock import Clock
from controller.core.errors import Code
from controller.gateway.access_log import AccessLog
from controller.gateway.admission import ClientGone, Receive, Scope, admit
from controller.gateway.allowances import Allowances
from controller.gateway.clients import Clients
from controller.gateway.closing import GONE, STOPPED, Closing
from controller.gateway.config import GatewayConfig, Job
from controller.gateway.contact import Contact
from controller.gateway.doubts import Doubts
from controller.gateway.exchange import Desk, Exchange
from controller.gateway.exposition import Moment, exposition
from controller.gateway.listing import listed, one
from controller.gateway.openapi import document
from controller.gateway.passage import Passage, loop_time
from controller.gateway.placement import Placement
from controller.gateway.proof import Callers, Proofs
from controller.gateway.proxy import Proxy
from controller.gateway.refusals import Refused, Voice, bad_request, not_served, unknown_model
from controller.gateway.reply import CutOff, Reply, Send
from controller.gateway.reports import Reports
from controller.gateway.routes import Key, RouteTable, follow
from controller.gateway.spending import Spending
from controller.gateway.starts import Starts
from controller.gateway.stream_leases import StreamLeases
from controller.gateway.tally import Tally
from controller.gateway.trust import Trust
from controller.gateway.upstream import Upstream
from controller.gateway.waiting import WaitingRooms
from controller.gateway.wires import BY_PATH, Shape, voice_for
from controller.http1 import Wire
from controller.ids import Randomness

SWEEP_S: Final = 10.0
AFTER_END_S: Final = 2.0
AFTER_STOP: Final = timedelta(seconds=5)
JSON_TYPE: Final = [(b"content-type", b"application/json")]
TEXT_TYPE: Final = [(b"content-type", b"text/plain; version=0.0.4; charset=utf-8")]
LEAVE_US: Final = (b"connection", b"close")
MODELS: Final = "/v1/models"
TOO_DEEP: Final = bad_request("the body is nested too deeply")
LOOPBACK: Final = frozenset({"127.0.0.1", "::1"})

App = Callable[[Scope, Receive, Send], Awaitable[None]]


class Gateway:
    """`name` is this gateway among others, as the daemon sees it: new with each process."""

    def __init__(self, config: GatewayConfig, *, name: str, daemon: DaemonClient, upstream: Wire, clock: Clock) -> None:
        self.name = name
        self._config = config
        self._daemon = daemon
        self._group: TaskGroup | None = None
        self._early: list[Job] = []
        self._live: set[Exchange] = set()
        self._reading: set[Reply] = set()
        self._none_live = anyio.Event()
        self._some_live = anyio.Event()
        self.tally = Tally()
        self._access_log = None if config.access_log is None else AccessLog(config.access_log, clock)
        self._closing = Closing(self.tally, self._access_log)
        self._requests = 0
        self._allowances = Allowances(self.tally)
        self.clients = Clients(fixed=config.client_keys, read=config.read_clients, now=loop_time)
        self.contact = Contact(self._contact_changed)
        self.table = RouteTable(self._table_changed)
        self.spending = Spending(
            table=self.table, clock=clock, book=config.day_book, start=self._start, tally=self.tally
        )
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
        self._asked: set[str] = set()
        """Models that somebody asked this gateway for: what comes up for them is proven before they ask again."""
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
        self._desk = Desk(placement, self.rooms, self.proxy, self.table, self.spending)

    @property
    def app(self) -> App:
        return self._serve

    @property
    def live(self) -> int:
        """Requests that were admitted and have not ended."""
        return len(self._live)

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
                await self._sweep()
            finally:
                self.spending.settle(anyio.current_time())
                if self._access_log is not None:
                    self._access_log.end()
                self._group = None

    async def drain(self) -> None:
        """Answers who waits, lets open requests end within the limit, then ends them with an error. Who is answered is
        told that the connection ends: its next request finds another gateway, or the next run of this one."""
        self.rooms.draining = True
        for exchange in self._live:
            if not exchange.reply.begun:
                exchange.reply.passage.headers.append(LEAVE_US)
        self.rooms.ring_all()
        await self._until_none_live(self._config.drain_limit.total_seconds())
        for exchange in list(self._live):
            exchange.reply.passage.outcome = STOPPED
            exchange.end(Refused(Code.UPSTREAM_DISCONNECTED, "the gateway is stopping"))
        await self._until_none_live(AFTER_END_S)
        with anyio.move_on_after(AFTER_END_S):
            await self.leases.tell()

    async def _until_none_live(self, limit_s: float) -> None:
        with anyio.move_on_after(limit_s):
            while self._live:
                self._none_live = anyio.Event()
                await self._none_live.wait()

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
        for alias in aliases & self._asked:
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

    async def _sweep(self) -> None:
        """Ends what hangs on a client that stopped reading, or sending, without leaving.

        One look at all of them every few seconds costs nothing; a timer for each request and piece would.
        """
        pause_s = min(SWEEP_S, self._config.client_limit.total_seconds() / 4)
        while True:
            if not self._live and not self._reading:
                self._some_live = anyio.Event()
                await self._some_live.wait()
            await anyio.sleep(pause_s)
            now = anyio.current_time()
            for exchange in list(self._live):
                since = exchange.reply.sending_since
                if since is not None and now - since > self._config.client_limit.total_seconds():
                    exchange.abandon()
            for reply in list(self._reading):
                if now - reply.begun_at > self._config.body_wait.total_seconds():
                    with suppress(CutOff):
                        reply.cut()

    # What clients ask.

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"not served: {scope['type']}")
        self._requests += 1
        shape = BY_PATH.get(scope["path"]) if scope["method"] == "POST" else None
        passage = Passage(f"{self.name}-{self._requests:x}", loop_time())
        if self.rooms.draining:
            passage.headers.append(LEAVE_US)
        reply = Reply(send, scope, passage, voice_for(shape, scope["headers"]))
        try:
            if shape is None:
                await self._small(scope, reply)
            else:
                await self._infer(scope, receive, reply, shape)
        except Refused as refused:
            reply.passage.outcome = refused.code.value
            await reply.refuse(refused)
        except ClientGone:
            reply.passage.outcome = GONE
            reply.cut()
        except RecursionError:  # it could just be read, and not be written anew
            reply.passage.outcome = TOO_DEEP.code.value
            await reply.refuse(TOO_DEEP)
        finally:
            if shape is not None or reply.passage.outcome:
                self._closing.end(reply, loop_time())

    async def _infer(self, scope: Scope, receive: Receive, reply: Reply, shape: Shape) -> None:
        passage = reply.passage
        passage.wire = shape.name
        if shape.voice is Voice.ANTHROPIC:
            passage.headers.append((b"request-id", passage.request_id.encode()))  # where its clients look for it
        if self.rooms.draining:
            raise Refused(Code.MODEL_STARTING, "this gateway is stopping", retry_after=AFTER_STOP)
        headers = dict(scope["headers"])
        client = passage.client = self.clients.of(headers)
        if shape.inference:
            self.spending.require(client, passage, passage.arrived_at)
        standing = self._allowances.take(client, passage, passage.arrived_at)
        try:
            await self._exchange(headers, receive, reply, shape)
        finally:
            self.spending.ended(passage, loop_time())
            self._allowances.give_back(standing)

    async def _exchange(self, headers: dict[bytes, bytes], receive: Receive, reply: Reply, shape: Shape) -> None:
        passage = reply.passage
        self._reading.add(reply)
        self._some_live.set()
        try:
            demand = await admit(headers, receive, shape, client=passage.client, config=self._config, table=self.table)
        finally:
            self._reading.discard(reply)
        passage.admitted(demand.alias, self.tally.models[demand.alias], stream=demand.stream, size=demand.size)
        if shape.inference:
            self._asked.add(demand.alias)
        exchange = Exchange(demand, receive, reply, desk=self._desk, sign_of_life=self._config.sign_of_life)
        self._live.add(exchange)
        try:
            refused = await exchange.run()
            if refused is not None:
                passage.outcome = passage.outcome or refused.code.value
        finally:
            if exchange.gone:
                passage.outcome = GONE
            self._live.discard(exchange)
            if not self._live:
                self._none_live.set()

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
        await Reply(send, scope, passage, voice_for(None, scope["headers"])).whole(200, TEXT_TYPE, self._metrics())

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
        at_work = Counter(exchange.demand.alias for exchange in self._live if exchange.reply.passage.placed_at)
        moment = Moment(
            open_requests={alias: at_work[alias] for alias in self._config.models},
            waiting={alias: self.rooms.waiting(alias) for alias in self._config.models},
            upstream_answers=self.proxy.open,
            daemon_reachable=not self.contact.down,
            usd_today=self.spending.known(),
        )
        return exposition(self.tally, moment)


def build(
    config: GatewayConfig, *, daemon: DaemonClient, upstream: Wire, clock: Clock, randomness: Randomness
) -> Gateway:
    """`upstream` reaches model servers, `daemon` the daemon; both are seams, as are time and chance."""
    name = f"g-{randomness.token_hex(5)}"
    return Gateway(config, name=name, daemon=daemon, upstream=upstream, clock=clock)
