"""What does each client cost, and may it still spend today?

A request is charged its share (`shares`) of the machine that it is open on, at the price that the daemon tells, and
of the machine that it waits for, while that starts: who wakes a machine pays for its start. Machines that nobody uses
are charged to nobody, so the clients' sums stay below the bill. Only requests through this process are seen: where
several gateways use one machine each counts it whole, and a budget ends early rather than late.

A budget is looked at when a request comes; those that are open when it ends are let finish. Where the machine's price
is not known, or what was spent cannot be read, a client with a budget is refused: uncounted it would have none.
"""

import math
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

import anyio
import structlog

from controller.clock import Clock
from controller.core.errors import Code
from controller.gateway.clients import Client, Clients
from controller.gateway.config import Start
from controller.gateway.day_book import Busy, DayBook, Unreadable
from controller.gateway.passage import Passage
from controller.gateway.refusals import NO_RETRY, Refused
from controller.gateway.routes import Key, Route, RouteTable
from controller.gateway.shares import Share
from controller.gateway.tally import Tally

log = structlog.get_logger(__name__)

KEEP_EVERY: Final = timedelta(seconds=5)
"""Too long: a restart forgets more, and other processes hear late. Too short: needless writes."""
LOOK_EVERY_S: Final = 2.0
MICROS: Final = 1_000_000
FRACTION: Final = 0.001
ASK_AGAIN: Final = timedelta(seconds=30)


class Spending:
    """`book` None keeps nothing beyond this process."""

    def __init__(
        self, *, clients: Clients, table: RouteTable, clock: Clock, book: DayBook | None, start: Start, tally: Tally
    ) -> None:
        self._clients = clients
        self._table = table
        self._clock = clock
        self._book = book
        self._start = start
        self._tally = tally
        self._shares: dict[Key | str, Share] = {}
        """Of machines; of starts by alias."""
        self._live: set[Passage] = set()
        """Those of clients with a budget."""
        self._day = ""
        self._totals: dict[str, int] = {}
        """Micro-USD of this day, as the book had them last."""
        self._new: dict[str, float] = {}
        """What was charged since, in micro-USD."""
        self._seen: object = ()
        self._look_at = 0.0
        self._unreadable = False
        self._keeping = False

    def require(self, client: Client, passage: Passage, now: float) -> None:
        """Raises `Refused` where the day's budget is spent."""
        if client.usd_per_day is None:
            return
        self._look(now)
        if self._unreadable:
            words = "what this key has spent today cannot be read"
            raise Refused(Code.STORE_UNAVAILABLE, words, retry_after=ASK_AGAIN)
        spent, limit = self.today(client.name), client.usd_per_day
        told = {"usd_today": f"{spent:.6f}", "usd_limit": f"{limit:f}"}
        passage.headers += [
            (b"x-gpuwarden-usd-today", told["usd_today"].encode()),
            (b"x-gpuwarden-usd-limit", told["usd_limit"].encode()),
        ]
        if spent >= limit:
            self._tally.limited[self._tally.named(client.name), "usd_per_day"] += 1
            passage.headers.append(NO_RETRY)  # to try again at once would come to nothing before midnight
            words = f"this key has spent its {limit:f} USD of today"
            midnight = self._midnight().isoformat().replace("+00:00", "Z")
            raise Refused(Code.BUDGET_EXHAUSTED, words, status=429, extra={**told, "resets_at": midnight})

    def today(self, client: str) -> Decimal:
        """US dollars, without what is open since the last settling."""
        return Decimal(self._totals.get(client, 0) + _whole(self._new.get(client, 0.0))) / MICROS

    def known(self) -> dict[str, float]:
        """Of every client of whom anything was charged today."""
        return {client: float(self.today(client)) for client in self._totals.keys() | self._new.keys()}

    # Where a request is.

    def waits(self, passage: Passage, alias: str, now: float) -> None:
        """For a cold model. Where no start is under way, or its price is not known yet, that costs nothing."""
        self._move(passage, alias, self._start_price(alias), now)

    def placed(self, passage: Passage, route: Route, now: float) -> None:
        """Raises `Refused` for a client with a budget where nobody knows the price."""
        if route.usd_per_hour is None and passage.client.usd_per_day is not None:
            words = "what this machine costs an hour is not known, so this key's budget cannot be kept"
            raise Refused(Code.REFUSED, words, retry_after=ASK_AGAIN)
        if self._clients.budgets or passage.uses is not None:  # else nobody's share is asked for
            self._move(passage, route.key, route.usd_per_hour or 0.0, now)

    def ended(self, passage: Passage, now: float) -> None:
        self._leave(passage, now)
        self._live.discard(passage)

    def reprice(self, aliases: set[str], now: float) -> None:
        """The daemon said something new of these models."""
        for alias in aliases:
            if (start := self._shares.get(alias)) is not None:
                start.reprice(self._start_price(alias), now)
            view = self._table.views.get(alias)
            for route in () if view is None else view.routes:
                share = self._shares.get(route.key)
                if share is not None and route.usd_per_hour is not None:
                    share.reprice(route.usd_per_hour, now)

    def _start_price(self, alias: str) -> float:
        view = self._table.views.get(alias)
        starting = None if view is None else view.starting
        return 0.0 if starting is None else starting.usd_per_hour or 0.0

    def _move(self, passage: Passage, to: Key | str, usd_per_hour: float, now: float) -> None:
        self._leave(passage, now)
        share = self._shares.get(to)
        if share is None:
            share = self._shares[to] = Share(usd_per_hour, now)
        passage.uses, passage.paid_to = to, share.begin(now)
        if passage.client.usd_per_day is not None:
            self._live.add(passage)
            self._keep()

    def _leave(self, passage: Passage, now: float) -> None:
        if passage.uses is None:
            return
        share = self._shares[passage.uses]
        self._charge(passage, share.end(now))
        if not share.open:
            del self._shares[passage.uses]
        passage.uses = None

    def _charge(self, passage: Passage, mark: float) -> None:
        """For its part since it paid last."""
        part, passage.paid_to = mark - passage.paid_to, mark
        if part and passage.client.usd_per_day is not None:
            name = passage.client.name
            self._new[name] = self._new.get(name, 0.0) + part * MICROS
            self._keep()

    # What is kept.

    def settle(self, now: float) -> None:
        """Charge what is open for what it took so far, and write all of it down."""
        for passage in self._live:
            if passage.uses is not None:
                self._charge(passage, self._shares[passage.uses].mark(now))
        self._turn()
        whole = {client: _whole(micros) for client, micros in self._new.items() if _whole(micros)}
        if self._book is None or not whole:
            return
        try:
            self._totals = self._book.add(self._day, whole)
        except Busy:
            return
        except (OSError, Unreadable) as error:
            log.error("spending_not_kept", detail=str(error))
            return
        self._unreadable = False
        for client, micros in whole.items():
            self._new[client] -= micros

    def _keep(self) -> None:
        """Settle now and then for as long as there is something to settle."""
        if not self._keeping:
            self._keeping = True
            self._start(self._settle_while_used)

    async def _settle_while_used(self) -> None:
        try:
            while self._live or (self._book is not None and any(map(_whole, self._new.values()))):
                await anyio.sleep(KEEP_EVERY.total_seconds())
                self.settle(anyio.current_time())
        finally:
            self._keeping = False

    def _look(self, now: float) -> None:
        """What the others wrote, every few seconds at most."""
        turned = self._turn()
        if self._book is None or (now < self._look_at and not turned):
            return
        self._look_at = now + LOOK_EVERY_S
        signature = self._book.signature()
        if signature == self._seen and not turned and not self._unreadable:
            return
        self._seen = signature
        try:
            self._totals = self._book.read(self._day)
            self._unreadable = False
        except Unreadable as error:
            self._unreadable = True
            log.error("spending_unreadable", detail=str(error))

    def _turn(self) -> bool:
        """Did another day begin? What was not written down yet of the former is forgotten with it."""
        day = self._clock.now().date().isoformat()
        if day == self._day:
            return False
        if self._day:
            self._totals, self._new = {}, {}
        self._day = day
        return True

    def _midnight(self) -> datetime:
        return self._clock.now().replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)


def _whole(micros: float) -> int:
    """Rounded up, but for what a binary fraction puts on top; what that takes too much is given back with the next."""
    return max(math.ceil(micros - FRACTION), 0)
