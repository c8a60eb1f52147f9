"""Who owns one request from its first byte to its last, and how does it end exactly once?

An exchange. It watches its client the whole time, gives signs of life to one that waits for a stream, and ends by the
whole answer, by one refusal, or by the client's leaving. Everything it took (a place in the queue, a stream lease,
the model server's answer) hangs on this object and is given back as it ends, however it ends (B12, B49).
"""

from contextlib import suppress
from datetime import timedelta
from typing import Final, Protocol

import anyio

from controller.core.errors import Code
from controller.gateway.admission import Demand, Receive
from controller.gateway.cutting import Cut
from controller.gateway.life import Life
from controller.gateway.passage import loop_time
from controller.gateway.patience import not_running, progress
from controller.gateway.placement import Place, Placement
from controller.gateway.proxy import Headed, Proxy, broken
from controller.gateway.refusals import NO_RETRY, Refused
from controller.gateway.reply import CutOff, Reply
from controller.gateway.routes import Key, RouteTable
from controller.gateway.spending import Spending
from controller.gateway.waiting import WaitingRooms
from controller.http1 import Exchanging, NotConnected

Carried = tuple[Place, Exchanging]
"""A machine, and what was begun with it."""

LAST_WORDS_LIMIT: Final = timedelta(seconds=5)
TRIES: Final = 3
AT_WORK: Final = "the model is at work"


class Cancels(Protocol):
    """Whatever carries an exchange at the moment."""

    def cancel(self) -> None: ...


class Desk:
    """What all exchanges share."""

    def __init__(
        self, placement: Placement, rooms: WaitingRooms, proxy: Proxy, table: RouteTable, spending: Spending
    ) -> None:
        self.placement = placement
        self.rooms = rooms
        self.proxy = proxy
        self.table = table
        self.spending = spending


class Exchange:
    def __init__(self, demand: Demand, receive: Receive, reply: Reply, *, desk: Desk, sign_of_life: timedelta) -> None:
        self.demand = demand
        self.reply = reply
        self._receive = receive
        self._desk = desk
        self._sign_of_life = sign_of_life
        self._scope: Cancels | None = None
        self._carried: Carried | None = None
        self._verdict: Refused | None = None
        self._placed = False
        self.gone = False

    def carried_by(self, scope: Cancels | None) -> None:
        """By a task, a shortcut, or nobody any more: they know each other, and would be garbage to be sought."""
        self._scope = scope
        if scope is not None and self.reply.on_leave is not None:
            self.reply.on_leave(self._client_left)

    async def run(self, carried: Carried | None = None) -> Refused | None:
        """The refusal it ended with, if it did. What is carried already goes on."""
        self._carried = carried
        on_leave = self.reply.on_leave
        if on_leave is not None:
            on_leave(self._client_left)
        if self.gone or self._verdict is not None:  # before its task began
            self._put_down(carried)
            return await self.last_words()
        try:
            if on_leave is None:
                await self._run_beside_watch()
            else:
                # A task beside each request would cost more than all else that is done for a short one.
                with Cut() as self._scope:
                    await self._serve()
        finally:
            if on_leave is not None:
                on_leave(None)
        return await self.last_words()

    async def last_words(self) -> Refused | None:
        """Tells the refusal that it ends with, if it does and somebody hears it."""
        if self._verdict is not None and not self.gone and not self.reply.done:
            with anyio.move_on_after(LAST_WORDS_LIMIT.total_seconds()):
                await self.reply.refuse(self._verdict)
        return self._verdict

    async def told(self, status: int, headers: Headed, body: bytes) -> Refused | None:
        """Its whole answer, to a client that takes it in its own time. Then as `run`."""
        if not self.gone and self._verdict is None:  # else before its task began
            with Cut() as self._scope:
                await self.reply.start(status, headers)
                await self.reply.last_piece(body)
        return await self.last_words()

    def end(self, refused: Refused) -> None:
        """From outside: the gateway stops."""
        self._verdict = self._verdict or refused
        self._cancel()

    def abandon(self) -> None:
        """From outside: the client takes no bytes any more."""
        self.gone = True
        self._cancel()
        with suppress(CutOff):  # the server then cuts what is left unfinished
            self.reply.cut()

    def _cancel(self) -> None:
        if self._scope is not None:
            self._scope.cancel()

    def _client_left(self) -> None:
        if not self.reply.done:
            self.gone = True
            self._cancel()

    async def _serve(self) -> None:
        life = Life(self.reply, self._sign_of_life, self._progress, failed=self._cancel) if self.demand.stream else None
        try:
            await self._serve_somewhere()
        except Refused as refused:
            self._verdict = refused
        finally:
            if life is not None:
                await life.end()

    async def _serve_somewhere(self) -> None:
        avoid: frozenset[Key] = frozenset()
        while True:
            place, begun = self._carried or (await self._place(avoid), None)
            self._carried = None
            try:
                if begun is None:
                    self.charge(place, loop_time())
                self._placed = True
                return await self._desk.proxy.relay(self.demand, place, self.reply, begun)
            except NotConnected as error:
                avoid |= {place.route.key}
                if len(avoid) == TRIES:
                    raise broken(error) from error
            finally:
                self._placed = False
                place.use.release()

    def _put_down(self, carried: Carried | None) -> None:
        if carried is not None:
            place, begun = carried
            self._desk.proxy.give_back(begun)
            place.use.release()

    async def _place(self, avoid: frozenset[Key]) -> Place:
        alias, inference = self.demand.alias, self.demand.shape.inference
        if inference:
            place = await self._desk.placement.find(self.demand, avoid=avoid)
        else:
            place = self._desk.placement.aside(alias, avoid=avoid)
        if place is not None:
            return place
        if avoid:
            raise Refused(Code.UPSTREAM_DISCONNECTED, "the model server cannot be reached")
        if not inference:
            raise self._not_running()
        passage = self.reply.passage
        passage.asked_at = anyio.current_time()
        self._desk.spending.waits(passage, alias, passage.asked_at)
        return await self._desk.rooms.place(self.demand)

    def _not_running(self) -> Refused:
        refused = not_running(self.demand.alias, self._desk.table.views.get(self.demand.alias))
        if refused.retry_after is None:
            self.reply.passage.headers.append(NO_RETRY)
        return refused

    def charge(self, place: Place, now: float) -> None:
        """Raises `Refused` if this client may not be charged for it."""
        if self.demand.shape.inference:
            self._desk.spending.placed(self.reply.passage, place.route, now)
        self.reply.passage.placed(place.route.deployment, now)

    async def _run_beside_watch(self) -> None:
        async with anyio.create_task_group() as group:
            self._scope = group.cancel_scope
            group.start_soon(self._watch_client)
            await self._serve()
            group.cancel_scope.cancel()

    async def _watch_client(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._client_left()

    def _progress(self) -> str:
        return AT_WORK if self._placed else progress(self._desk.table.views.get(self.demand.alias))
