"""Can a request do without a task of its own?

Most plain requests come whole, find a machine that is ready with its lease held and a connection to it kept, and are
answered whole by it. Such a one is begun in the turn of the loop that read it and ended in the turn that read its
answer: what a task, its scope and its wake-ups take is more than all else that is done for it. Whatever is not so
simple, at its beginning or later, goes on in a task from where it stands, by the same rules.
"""

from collections.abc import Coroutine
from typing import Any, Protocol

from controller.gateway.allowances import Standing
from controller.gateway.exchange import Desk, Exchange
from controller.gateway.placement import Place
from controller.gateway.proxy import Proxy, rewritten
from controller.gateway.refusals import Refused
from controller.http1 import Exchanging
from controller.http1.asked import Asked

Work = Coroutine[Any, Any, Refused | None]


class Ends(Protocol):
    """Who hears how it ended: by one of these, once."""

    def over(self, shortcut: "Shortcut") -> None:
        """All is answered."""

    def go_on(self, shortcut: "Shortcut", work: Work) -> None:
        """What is left is to be done in a task."""


class Shortcut:
    __slots__ = ("_answer", "_ends", "_place", "_proxy", "asked", "exchange", "standing")

    def __init__(self, ends: Ends, asked: Asked, exchange: Exchange, standing: Standing | None) -> None:
        self.asked = asked
        self.exchange = exchange
        self.standing = standing
        self._ends = ends
        self._proxy: Proxy
        self._place: Place
        self._answer: Exchanging | None = None

    def begin(self, desk: Desk, now: float) -> bool:
        """False, with nothing done, where something has to be waited for, or told."""
        exchange = self.exchange
        demand = exchange.demand
        if demand.stream or not demand.shape.inference:
            return False
        proxy = desk.proxy
        place: Place | None = None
        answer: Exchanging | None = None
        try:
            place = desk.placement.at_once(demand)
            if place is None:
                return False
            request = proxy.request(demand, place, now)
            answer = proxy.kept(request)
            if answer is not None:
                body = rewritten(demand, place)
                exchange.charge(place, now)
                answer.write(request, body, self._came)
        except Exception:  # whatever it is, the request's task meets it anew, and tells of it
            proxy.give_back(answer)
            answer = None
        if place is None or answer is None:
            if place is not None:
                place.use.release()
            return False
        self._proxy, self._place, self._answer = proxy, place, answer
        exchange.carried_by(self)
        return True

    def cancel(self) -> None:
        """The client left, or the gateway stops."""
        if self._answer is not None:
            self._give_back(self._answer)
            self._ends.go_on(self, self.exchange.last_words())

    def _came(self) -> None:
        """Bytes of the answer, or its end."""
        answer, exchange = self._answer, self.exchange
        if answer is None:
            return
        if not answer.ended_well():
            if answer.still_short:
                self._proxy.hear(answer, self._place)
            else:
                self._hand_over(answer)
            return
        try:
            plain = self._proxy.plain(answer, exchange.demand, self._place)
            told = plain is not None and exchange.reply.at_once(*plain)
        except Exception as error:  # a callback of the loop has nobody above it: the request's task raises it
            self._give_back(answer)
            self._ends.go_on(self, raised(error))
            return
        if plain is None:
            self._hand_over(answer)
            return
        self._give_back(answer)
        if told:
            self._ends.over(self)
        else:
            self._ends.go_on(self, exchange.told(*plain))

    def _hand_over(self, answer: Exchanging) -> None:
        self._answer = None
        self._ends.go_on(self, self.exchange.run((self._place, answer)))

    def _give_back(self, answer: Exchanging) -> None:
        self._answer = None
        self._proxy.open -= 1
        answer.close()
        self._place.use.release()
        self.exchange.carried_by(None)


async def raised(error: Exception) -> None:
    """For a task, which has somebody above it."""
    raise error
