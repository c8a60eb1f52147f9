"""Can a request do without a task of its own?

Most plain requests come whole, find a machine that is ready with its lease held and a connection to it kept, and are
answered whole by it. Such a one is begun in the turn of the loop that read it and ended in the turn that read its
answer: what a task, its scope and its wake-ups take is more than all else that is done for it. Whatever is not so
simple, at its beginning or later, goes on in a task from where it stands, by the same rules.
"""

from collections.abc import Callable, Coroutine
from typing import Any

from controller.gateway.exchange import Desk, Exchange
from controller.gateway.placement import Place
from controller.gateway.refusals import Refused
from controller.http1 import Exchanging

Work = Coroutine[Any, Any, Refused | None]


class Shortcut:
    """`over` is called when all is answered, `go_on` with what is left to be done in a task; one of them, once."""

    __slots__ = ("_answer", "_desk", "_exchange", "_go_on", "_over", "_place")

    def __init__(
        self, exchange: Exchange, desk: Desk, *, over: Callable[[], None], go_on: Callable[[Work], None]
    ) -> None:
        self._exchange = exchange
        self._desk = desk
        self._over = over
        self._go_on = go_on
        self._place: Place | None = None
        self._answer: Exchanging | None = None

    def begin(self) -> bool:
        """False, with nothing done, where something has to be waited for, or told."""
        exchange, proxy = self._exchange, self._desk.proxy
        if exchange.demand.stream or not exchange.demand.shape.inference or exchange.reply.on_leave is None:
            return False
        place = self._desk.placement.at_once(exchange.demand)
        if place is None:
            return False
        answer = proxy.kept(exchange.demand, place)
        try:
            if answer is not None:
                request = proxy.request(exchange.demand, place)
                exchange.charge(place)
                answer.write(request)
                self._place, self._answer = place, answer
        except (Refused, RecursionError):  # found anew in the task, and told there
            pass
        finally:
            if self._answer is None:
                proxy.give_back(answer)
                place.use.release()
        if answer is None or self._answer is None:
            return False
        answer.tell(self._came)
        exchange.carried_by(self)
        return True

    def cancel(self) -> None:
        """The client left, or the gateway stops."""
        if self._answer is not None:
            self._give_back()
            self._go_on(self._exchange.last_words())

    def _came(self) -> None:
        """Bytes of the answer, or its end."""
        answer, place, exchange = self._answer, self._place, self._exchange
        if answer is None or place is None:
            return
        place.use.byte_came()
        if answer.still_short:
            return
        try:
            plain = self._desk.proxy.plain(answer, exchange.demand, place)
            if plain is None:
                self._answer = None
                answer.tell(None)
                self._go_on(exchange.run((place, answer)))
                return
            told = exchange.reply.at_once(*plain)
        except Exception as error:  # a callback of the loop has nobody above it: the request's task raises it
            self._give_back()
            self._go_on(_raised(error))
            return
        self._give_back()
        if told:
            self._over()
        else:
            self._go_on(exchange.told(*plain))

    def _give_back(self) -> None:
        answer, self._answer = self._answer, None
        if self._place is not None:
            self._desk.proxy.give_back(answer)
            self._place.use.release()


async def _raised(error: Exception) -> None:
    raise error
