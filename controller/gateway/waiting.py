"""Who waits for a cold model, and how often is the daemon asked?

One room per model, from the first caller to the last. One question to the daemon serves all in it, and is asked again
for as long as anybody waits; when the last one left without a machine the daemon is told, and for how long those may be
on their way who were told to come back. The room is bounded by the model's queue; callers who want to be told at once
ask like the others, but take no place. When a wait ends is ruled by `patience`.
"""

from datetime import timedelta
from typing import Final, assert_never

import anyio

from controller.gateway.admission import Demand
from controller.gateway.config import GatewayConfig, Start
from controller.gateway.contact import Contact
from controller.gateway.patience import Scene, Waiter, WaitOn, back_within, decide, queue_full
from controller.gateway.placement import Place, Placement
from controller.gateway.refusals import Refused
from controller.gateway.routes import RouteTable, View
from controller.gateway.starts import Starts, Word

RETRY_ASKING: Final = timedelta(seconds=1)


class Room:
    """All who wait for one model, from the first to the last."""

    def __init__(self) -> None:
        self.waiters: set[int] = set()
        self.queued = 0
        self.answered = False
        self.unknown = False
        self.bell = anyio.Event()
        self.empty = anyio.Event()
        self.unserved = False
        """Somebody left without a place."""
        self.returning_until = 0.0
        """Those who were told to come back may until then, on the loop's clock."""

    @property
    def returning(self) -> timedelta:
        return timedelta(seconds=max(self.returning_until - anyio.current_time(), 0.0))

    def tell(self, refused: Refused) -> None:
        """This is what somebody who asked for the model is told."""
        self.returning_until = max(self.returning_until, anyio.current_time() + back_within(refused).total_seconds())

    def ring(self) -> None:
        self.bell.set()
        self.bell = anyio.Event()


class WaitingRooms:
    def __init__(
        self,
        *,
        config: GatewayConfig,
        starts: Starts,
        contact: Contact,
        table: RouteTable,
        placement: Placement,
        start: Start,
    ) -> None:
        self._config = config
        self._starts = starts
        self._contact = contact
        self._table = table
        self._placement = placement
        self._start = start
        self._rooms: dict[str, Room] = {}
        self._next = 0
        self.draining = False

    def waiting(self, alias: str) -> int:
        room = self._rooms.get(alias)
        return 0 if room is None else room.queued

    def occupied(self, alias: str) -> bool:
        """Does anybody wait for it, with a place in the queue or to be told?"""
        return alias in self._rooms

    def ring(self, aliases: set[str]) -> None:
        for alias in aliases & self._rooms.keys():
            self._rooms[alias].ring()

    def ring_all(self) -> None:
        for room in self._rooms.values():
            room.ring()

    async def place(self, demand: Demand) -> Place:
        """Raises `Refused`. A patience of None means the model's own; of zero: tell me at once."""
        alias, patience = demand.alias, demand.wish.patience
        view = self._table.views.get(alias) or View(alias=alias)
        patience = view.wait if patience is None else patience
        told = not patience
        room = self._rooms.get(alias)
        if not told and room is not None and room.queued >= view.queue:
            full = queue_full(view)
            room.tell(full)
            raise full
        now = anyio.current_time()
        waiter = Waiter(
            alias=alias,
            joined_at=now,
            until=now + (self._config.down_grace if told else patience).total_seconds(),
            controller=self._table.controller,
            version=self._table.version or 0,
            told=told,
        )
        return await self._in_room(waiter, demand)

    async def _in_room(self, waiter: Waiter, demand: Demand) -> Place:
        room = self._rooms.get(waiter.alias)
        if room is None:
            room = self._rooms[waiter.alias] = Room()
            self._ask_for(waiter.alias, room)
        self._next += 1
        number = self._next
        room.waiters.add(number)
        room.queued += not waiter.told
        place: Place | None = None
        try:
            place = await self._wait(waiter, room, demand)
            return place
        except Refused as refused:
            room.tell(refused)
            raise
        finally:
            room.unserved |= place is None
            room.queued -= not waiter.told
            room.waiters.discard(number)
            if not room.waiters:
                del self._rooms[waiter.alias]
                room.empty.set()

    async def _wait(self, waiter: Waiter, room: Room, demand: Demand) -> Place:
        while True:
            bell = room.bell
            place = await self._placement.find(demand)
            if place is not None:
                return place
            now = anyio.current_time()
            match decide(waiter, self._scene(waiter.alias, room), now):
                case WaitOn(until=until):
                    with anyio.move_on_after(max(until - now, 0.0)):
                        await bell.wait()
                case Refused() as refused:
                    raise refused
                case never:
                    assert_never(never)

    def _scene(self, alias: str, room: Room) -> Scene:
        return Scene(
            view=self._table.views.get(alias),
            controller=self._table.controller,
            first_version=self._table.first_version,
            answered=room.answered,
            unknown=room.unknown,
            down=self._contact.down,
            daemon_seen_at=self._contact.seen_at,
            draining=self.draining,
            down_grace=self._config.down_grace,
        )

    def _ask_for(self, alias: str, room: Room) -> None:
        async def ask() -> None:
            while not room.empty.is_set():
                word = await self._starts.ask(alias, waiting=len(room.waiters), returning=room.returning)
                room.answered |= word is Word.HEARD
                room.unknown = word is Word.UNKNOWN_MODEL
                room.ring()
                pause = RETRY_ASKING if word is Word.SILENCE else self._config.ask_interval
                with anyio.move_on_after(pause.total_seconds()):
                    await room.empty.wait()
            if room.unserved and room.answered and not room.unknown:
                others = self._rooms.get(alias)
                waiting = 0 if others is None else len(others.waiters)
                await self._starts.leave(alias, waiting=waiting, returning=room.returning)

        self._start(ask)
