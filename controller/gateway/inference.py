"""How is one request to a model served, from its head to the last trace of it?

Who asks, and may; what is asked for; then an exchange, in the turn that read it where that can be (`shortcut`), else
in its task. Whatever a request took is given back here, and it is counted, exactly once, however it ends. It also ends
what hangs on a client that stopped reading, or sending, without leaving.
"""

from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import anyio

from controller.core.errors import Code
from controller.gateway.admission import ClientGone, Receive, Scope, Wish, demanded, read
from controller.gateway.allowances import Allowances, Standing
from controller.gateway.clients import Client, Clients, Sender
from controller.gateway.closing import GONE, STOPPED, Closing
from controller.gateway.config import GatewayConfig
from controller.gateway.exchange import Desk, Exchange
from controller.gateway.passage import Passage, loop_time
from controller.gateway.refusals import Refused, Voice, bad_request
from controller.gateway.reply import CutOff, Reply, Way
from controller.gateway.shortcut import Shortcut, Work, raised
from controller.gateway.tally import Tally
from controller.gateway.wires import BY_PATH, Shape
from controller.http1.asked import Asked
from controller.http1.heads import Head

SWEEP_S: Final = 10.0
AFTER_END_S: Final = 2.0
AFTER_STOP: Final = timedelta(seconds=5)
LEAVE_US: Final = (b"connection", b"close")
TOO_DEEP: Final = bad_request("the body is nested too deeply")


@dataclass(frozen=True, slots=True, kw_only=True)
class Office:
    """Whom a request passes, beside the desk."""

    clients: Clients
    allowances: Allowances
    closing: Closing
    tally: Tally


class Manner:
    """How whoever sends a certain head asks, found once for all requests that have it."""

    __slots__ = ("sender", "shape", "wish")

    def __init__(self, head: Head) -> None:
        headers = dict(head.headers)
        self.shape = BY_PATH.get(head.path) if head.method == "POST" else None
        self.sender = Sender(headers)
        self.wish = Wish.of(headers)


class Inference:
    """`name` is the gateway's among others: requests are called after it."""

    def __init__(self, config: GatewayConfig, *, name: str, office: Office, desk: Desk) -> None:
        self._name = name
        self._config = config
        self._office = office
        self._desk = desk
        self._requests = 0
        self._none_live: anyio.Event | None = None
        """Wanted by the drain."""
        self._some_live: anyio.Event | None = None
        """Wanted by the sweep."""
        self.live: set[Exchange] = set()
        """Requests that were admitted and have not ended."""
        self.reading: set[Reply] = set()
        """Those whose bodies are still to come."""
        self.asked: set[str] = set()
        """Models that somebody asked this gateway for."""

    # The two ways in.

    def opened(self, way: Way, voice: Voice, now: float) -> Reply:
        self._requests += 1
        passage = Passage(f"{self._name}-{self._requests:x}", now)
        if self._desk.rooms.draining:
            passage.headers.append(LEAVE_US)
        return Reply(way, passage, voice)

    async def serve(self, scope: Scope, receive: Receive, reply: Reply, shape: Shape) -> None:
        """Raises what `guarded` tells."""
        headers = dict(scope["headers"])
        passage = reply.passage
        self._greet(reply, shape)
        if self._desk.rooms.draining:
            raise Refused(Code.MODEL_STARTING, "this gateway is stopping", retry_after=AFTER_STOP)
        standing = self._let_in(passage, self._office.clients.of(headers), shape)
        try:
            self.reading.add(reply)
            if self._some_live is not None:
                self._some_live.set()
            try:
                body = await read(headers, receive, self._config)
            finally:
                self.reading.discard(reply)
            exchange = self._admitted(body, Wish.of(headers), shape, reply, receive)
            await self._carried(exchange, exchange.run())
        finally:
            self._give_back(passage, standing, loop_time())

    def at_once(self, asked: Asked) -> bool:
        """The same for a request whose body is here, without a task as long as none is needed. False, with nothing
        done, if it has to come the other way."""
        known = asked.head.known
        if known is None:
            known = asked.head.known = Manner(asked.head)
        shape = known.shape
        if shape is None or self._desk.rooms.draining:
            return False
        now = loop_time()
        reply = self.opened(asked, shape.voice, now)
        standing: Standing | None = None
        try:
            self._greet(reply, shape)
            standing = self._let_in(reply.passage, self._office.clients.again(known.sender, now), shape)
            exchange = self._admitted(asked.body(), known.wish, shape, reply, asked.receive)
        except Exception as error:  # nobody is above a callback of the loop: the request's task raises it
            self._give_back(reply.passage, standing, now)
            asked.go_on(self.guarded(reply, raised(error), counted=True))
            return True
        shortcut = Shortcut(self, asked, exchange, standing)
        if not shortcut.begin(self._desk, now):
            self.go_on(shortcut, exchange.run())
        return True

    def over(self, shortcut: Shortcut) -> None:
        """All is answered."""
        exchange, now = shortcut.exchange, loop_time()
        self._left(exchange)
        self._give_back(exchange.reply.passage, shortcut.standing, now)
        self._office.closing.end(exchange.reply, now)
        shortcut.asked.done()

    def go_on(self, shortcut: Shortcut, work: Work) -> None:
        """What is left is done in a task."""
        exchange = shortcut.exchange
        rest = self._rest(exchange, work, shortcut.standing)
        shortcut.asked.go_on(self.guarded(exchange.reply, rest, counted=True))

    # What both have in common, in order.

    def _greet(self, reply: Reply, shape: Shape) -> None:
        passage = reply.passage
        passage.wire = shape.name
        if shape.voice is Voice.ANTHROPIC:
            passage.headers.append((b"request-id", passage.request_id.encode()))  # where its clients look for it

    def _let_in(self, passage: Passage, client: Client, shape: Shape) -> Standing | None:
        """Raises `Refused`. A standing is to be given back."""
        passage.client = client
        if not client.limited:
            return None
        if shape.inference:
            self._desk.spending.require(client, passage, passage.arrived_at)
        return self._office.allowances.take(client, passage, passage.arrived_at)

    def _admitted(self, body: bytes, wish: Wish, shape: Shape, reply: Reply, receive: Receive) -> Exchange:
        passage = reply.passage
        demand = demanded(body, wish, shape, client=passage.client, config=self._config, table=self._desk.table)
        passage.admitted(demand.alias, self._office.tally.models[demand.alias], stream=demand.stream, size=demand.size)
        if shape.inference:
            self.asked.add(demand.alias)
        exchange = Exchange(demand, receive, reply, desk=self._desk, sign_of_life=self._config.sign_of_life)
        self.live.add(exchange)
        if self._some_live is not None:
            self._some_live.set()
        return exchange

    async def _carried(self, exchange: Exchange, work: Awaitable[Refused | None]) -> None:
        try:
            refused = await work
            if refused is not None:
                exchange.reply.passage.outcome = exchange.reply.passage.outcome or refused.code.value
        finally:
            self._left(exchange)

    async def _rest(self, exchange: Exchange, work: Awaitable[Refused | None], standing: Standing | None) -> None:
        try:
            await self._carried(exchange, work)
        finally:
            self._give_back(exchange.reply.passage, standing, loop_time())

    def _left(self, exchange: Exchange) -> None:
        if exchange.gone:
            exchange.reply.passage.outcome = GONE
        self.live.discard(exchange)
        if not self.live and self._none_live is not None:
            self._none_live.set()

    def _give_back(self, passage: Passage, standing: Standing | None, now: float) -> None:
        if passage.uses is not None:
            self._desk.spending.ended(passage, now)
        if standing is not None:
            self._office.allowances.give_back(standing)

    async def guarded(self, reply: Reply, work: Awaitable[None], *, counted: bool) -> None:
        """Tells the client how it ended if it did not end well. What is not counted leaves no trace if it did."""
        passage = reply.passage
        try:
            await work
        except Refused as refused:
            passage.outcome = refused.code.value
            await reply.refuse(refused)
        except ClientGone:
            passage.outcome = GONE
            reply.cut()
        except RecursionError:  # it could just be read, and not be written anew
            passage.outcome = TOO_DEEP.code.value
            await reply.refuse(TOO_DEEP)
        finally:
            if counted or passage.outcome:
                self._office.closing.end(reply, loop_time())

    # When the gateway stops, and those who hang.

    async def drain(self) -> None:
        """Lets open requests end within the limit, then ends them with an error. Who is answered is told that the
        connection ends: its next request finds another gateway, or the next run of this one."""
        for exchange in self.live:
            if not exchange.reply.begun:
                exchange.reply.passage.headers.append(LEAVE_US)
        self._desk.rooms.ring_all()
        await self._until_none_live(self._config.drain_limit.total_seconds())
        for exchange in list(self.live):
            exchange.reply.passage.outcome = STOPPED
            exchange.end(Refused(Code.UPSTREAM_DISCONNECTED, "the gateway is stopping"))
        await self._until_none_live(AFTER_END_S)

    async def _until_none_live(self, limit_s: float) -> None:
        with anyio.move_on_after(limit_s):
            while self.live:
                self._none_live = anyio.Event()
                await self._none_live.wait()

    async def sweep(self) -> None:
        """One look at all of them every few seconds costs nothing; a timer for each request and piece would."""
        pause_s = min(SWEEP_S, self._config.client_limit.total_seconds() / 4)
        while True:
            if not self.live and not self.reading:
                self._some_live = anyio.Event()
                await self._some_live.wait()
                self._some_live = None
            await anyio.sleep(pause_s)
            now = anyio.current_time()
            for exchange in list(self.live):
                since = exchange.reply.sending_since
                if since is not None and now - since > self._config.client_limit.total_seconds():
                    exchange.abandon()
            for reply in list(self.reading):
                if now - reply.begun_at > self._config.body_wait.total_seconds():
                    with suppress(CutOff):
                        reply.cut()
